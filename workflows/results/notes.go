package results

import (
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/audits"
)

// failedGate begins the note about a limit that a cell or a row exceeds.
const failedGate = " failed its gate: "

// note is a remark on a cell, or on a row of replicates.
type note struct {
	name, label string
	// text begins with the separator from a name, such as ": " or " failed: ".
	text string
	// row reports whether the note is about a row, done whether it is about a finished cell.
	row, done bool
}

func (n note) named() string { return fmt.Sprintf("%s (%s)", n.name, n.label) }

func (n note) String() string { return n.named() + n.text }

// ofAll returns the text of a note about several cells or rows.
func (n note) ofAll() string {
	if breach, failed := strings.CutPrefix(n.text, failedGate); failed {
		return " failed their gate: " + breach
	}
	return n.text
}

// each returns the texts of the notes, one by one.
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

// warnings returns the notes that readers of any table need: failures, failed gates, and the marks of
// models that have learned little.
func (v *view) warnings() []string {
	return v.once(slices.DeleteFunc(v.allNotes(), func(n note) bool {
		return !strings.HasPrefix(n.text, " failed") && !strings.HasPrefix(n.text, ": "+audits.Mark)
	}))
}

// labelled is the maximum number of cells or rows whose labels a common note repeats.
const labelled = 3

// mostNamed is the maximum number of cells or rows that a common note names.
const mostNamed = 20

// once returns the notes. It writes a note about several members of a group once, at the position of the first.
func (v *view) once(notes []note) []string {
	members, texts := make(map[string][]note), []string{}
	for _, n := range notes {
		if members[n.text] == nil {
			texts = append(texts, n.text)
		}
		members[n.text] = append(members[n.text], n)
	}
	groups := v.groups()
	return lists.Map(texts, func(text string) string { return common(slices.Compact(members[text]), groups) })
}

// common returns the text of equal notes, with the name of their group or the names of its members.
func common(notes []note, groups []group) string {
	if len(notes) == 1 {
		return notes[0].String()
	}
	for _, g := range groups {
		if g.size == len(notes) && !slices.ContainsFunc(notes, func(n note) bool { return !g.holds(n) }) {
			return g.name + notes[0].ofAll()
		}
	}
	name := note.named
	if len(notes) > labelled {
		name = func(n note) string { return n.name }
	}
	if others := len(notes) - 1; others >= mostNamed {
		return fmt.Sprintf("%s and %d others%s", name(notes[0]), others, notes[0].ofAll())
	}
	return strings.Join(lists.Map(notes, name), ", ") + notes[0].ofAll()
}
