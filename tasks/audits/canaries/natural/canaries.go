package natural

import (
	"strings"

	"coalmine/tasks/datasets"
)

// lookedFor are the canaries that sentences may have by themselves. They are found by
// their first bytes, so that a sentence costs no more with many canaries than with one.
type lookedFor struct {
	byStart map[string][]canaryText
	length  int // of the starts
	seen    []bool
}

type canaryText struct {
	number int
	text   string
}

// longestStart is enough to tell most canaries apart.
const longestStart = 8

func newLookedFor(list []datasets.Placement) *lookedFor {
	l := &lookedFor{byStart: map[string][]canaryText{}, length: longestStart, seen: make([]bool, len(list))}
	for _, c := range list {
		l.length = min(l.length, len(c.Tokens))
	}
	for i, c := range list {
		text := textOf(c.Tokens)
		l.byStart[text[:l.length]] = append(l.byStart[text[:l.length]], canaryText{i, text})
	}
	return l
}

// in notes the canaries that a sentence has.
func (l *lookedFor) in(text string) {
	if len(l.byStart) == 0 {
		return
	}
	for at := 0; at+l.length <= len(text); at++ {
		for _, c := range l.byStart[text[at:at+l.length]] {
			if strings.HasPrefix(text[at:], c.text) {
				l.seen[c.number] = true
			}
		}
	}
}

// found are the numbers of those that were seen.
func (l *lookedFor) found() []int {
	var numbers []int
	for number, seen := range l.seen {
		if seen {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
