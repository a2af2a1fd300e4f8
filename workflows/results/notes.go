package results

import (
	"fmt"
	"strings"
)

// failedGate begins the note on a limit that a cell or a row exceeds.
const failedGate = " failed its gate: "

// note is a remark on a cell, or on a row of replicates.
type note struct {
	name, label string
	// text begins with the separator from a name, such as ": " or " failed: ".
	text string
	// row says that it is of a row, done that it is of a cell that is done.
	row, done bool
}

func (n note) String() string { return fmt.Sprintf("%s (%s)%s", n.name, n.label, n.text) }

// ofAll is the text if the note is of several cells or rows.
func (n note) ofAll() string {
	if breach, failed := strings.CutPrefix(n.text, failedGate); failed {
		return " failed their gate: " + breach
	}
	return n.text
}

// each are the notes one by one.
func each(notes []note) []string {
	texts := []string{}
	for _, n := range notes {
		texts = append(texts, n.String())
	}
	return texts
}

// group is all of which notes may be said together.
type group struct {
	name  string
	size  int
	holds func(note) bool
}

// groups are those of the results, the widest first.
func (v *view) groups() []group {
	if len(v.rows) > 0 {
		return []group{{"all rows", len(v.rows), func(n note) bool { return n.row }}}
	}
	done := 0
	for i := range v.cells {
		if v.cells[i].Report != nil {
			done++
		}
	}
	return []group{
		{"all cells", len(v.cells), func(note) bool { return true }},
		{fmt.Sprintf("all %d cells that are done", done), done, func(n note) bool { return n.done }},
	}
}

// once are the notes, except that a note on all members of a group stands once, in the place
// of the first of its members.
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
