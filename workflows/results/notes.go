package results

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/audits"
)

// failedGate begins the note on a limit that a cell or a row exceeds.
const failedGate = " failed its gate: "

// note is a remark on a cell, or on a row of replicates.
type note struct {
	name, label string
	// text begins with the separator from a name, such as ": " or " failed: ".
	text string
	// row is set for a note on a row, done for a note on a finished cell.
	row, done bool
}

func (n note) String() string { return fmt.Sprintf("%s (%s)%s", n.name, n.label, n.text) }

// ofAll returns the text of a note on several cells or rows.
func (n note) ofAll() string {
	if breach, failed := strings.CutPrefix(n.text, failedGate); failed {
		return " failed their gate: " + breach
	}
	return n.text
}

// each returns the texts of single notes.
func each(notes []note) []string { return lists.Map(notes, note.String) }

// group is a set of cells or rows that may share a note.
type group struct {
	name  string
	size  int
	holds func(note) bool
}

// groups returns the groups of the results, the widest first.
func (v *view) groups() []group {
	if len(v.rows) > 0 {
		return []group{{"all rows", len(v.rows), func(n note) bool { return n.row }}}
	}
	done := lists.Count(v.cells, func(c viewCell) bool { return c.Report != nil })
	return []group{
		{"all cells", len(v.cells), func(note) bool { return true }},
		{fmt.Sprintf("all %d cells that are done", done), done, func(n note) bool { return n.done }},
	}
}

// warnings returns the notes that readers of any table need: failures, failed gates and the marks of models that have learned
// little.
func (v *view) warnings() []string {
	return v.once(slices.DeleteFunc(v.allNotes(), func(n note) bool {
		return !strings.HasPrefix(n.text, " failed") && !strings.HasPrefix(n.text, ": "+audits.Mark)
	}))
}

// once returns the notes, but writes a note on all members of a group once, at the position of the
// first member.
func (v *view) once(notes []note) []string {
	groups := v.groups()
	times := make([]map[string]int, len(groups))
	for i, g := range groups {
		times[i] = make(map[string]int)
		for _, n := range notes {
			if g.holds(n) {
				times[i][n.text]++
			}
		}
	}
	texts, said := []string{}, make(map[string]bool)
	for _, n := range notes {
		text := n.String()
		for i, g := range groups {
			if g.holds(n) && g.size > 1 && times[i][n.text] == g.size {
				text = g.name + n.ofAll()
				break
			}
		}
		if !said[text] {
			said[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}
