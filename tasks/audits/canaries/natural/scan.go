package natural

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type ScanParams struct {
	Patterns []filters.Pattern `json:"patterns"`
	Own      []string          `json:"own,omitempty"`
	// MaxFindings is the maximum number of findings. The most frequent ones are kept.
	MaxFindings int `json:"most"`
}

// Scan finds secrets in the sentences of the training population, at the byte level, except inserted
// canaries. Inputs: population.Input and population.ShardsInput. Blob FindingsBlob, metrics
// ScanMetrics.
var Scan = tasks.Kind{Name: "audits/natural-scan", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runScan)}

// FindingsBlob is a JSON array of Finding: by falling users, then occurrences, then place in the population.
const FindingsBlob = "findings"

// Finding is a secret of the text with all of its places.
type Finding struct {
	Pattern filters.Pattern `json:"pattern"`
	// Context is the sentence before its first occurrence. Context and Secret are tokens without Begin.
	Context []int32 `json:"context"`
	Secret  []int32 `json:"secret"`
	// Users is the number of users with the secret, Occurrences the number of its places.
	Users       int `json:"users"`
	Occurrences int `json:"occurrences"`

	lastUser int // last counted user, during the scan
}

type ScanMetrics struct {
	// Found is the number of different secrets, Occurrences the number of their places.
	Found       int `json:"found"`
	Occurrences int `json:"occurrences"`
	// CanariesInData are canaries that the text contains without an insertion.
	CanariesInData []int `json:"canaries_in_data,omitempty"`
}

func runScan(ctx context.Context, t *tasks.Task, p *ScanParams) error {
	set, err := filters.NewPatterns(p.Patterns, p.Own)
	if err != nil {
		return tasks.Permanent(err)
	}
	s := scanner{set: set, known: map[string]*Finding{}}
	if err := s.population(ctx, t); err != nil {
		return err
	}
	s.metrics.Found = len(s.found)
	slices.SortStableFunc(s.found, func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(b.Users, a.Users), cmp.Compare(b.Occurrences, a.Occurrences))
	})
	if err := t.PutJSON(ctx, FindingsBlob, append([]*Finding{}, s.found[:min(p.MaxFindings, len(s.found))]...)); err != nil {
		return err
	}
	return t.SetMetrics(s.metrics)
}

type scanner struct {
	set     *filters.PatternSet
	known   map[string]*Finding // by pattern and text
	found   []*Finding          // in order of the population
	metrics ScanMetrics
}

func (s *scanner) population(ctx context.Context, t *tasks.Task) error {
	pop, err := population.Open(ctx, t, population.Input, population.ShardsInput)
	if err != nil {
		return err
	}
	canaries, err := population.ReadPlacements(ctx, t, population.Input)
	if err != nil {
		return err
	}
	looked := newLookedFor(canaries)
	for user := range pop.Users() {
		sentences, _, err := pop.ReadOwn(ctx, user)
		if err != nil {
			return err
		}
		for _, tokens := range sentences {
			text := textOf(tokens)
			s.sentence(user, text)
			looked.in(text)
		}
		t.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(pop.Users())})
	}
	s.metrics.CanariesInData = looked.found()
	return nil
}

// textOf returns the bytes of a sentence, without Begin and End.
func textOf(tokens []int32) string {
	content := make([]byte, 0, len(tokens))
	for _, token := range tokens {
		if token >= text.FirstWord {
			content = append(content, byte(token-text.FirstWord))
		}
	}
	return string(content)
}

func tokensOf(content string) []int32 {
	return lists.Make(len(content), func(i int) int32 { return int32(text.FirstWord) + int32(content[i]) })
}

func (s *scanner) sentence(user int, text string) {
	for _, span := range s.set.Find(text) {
		secret := text[span.Start:span.End]
		name := string(span.Pattern) + "\x00" + secret
		f := s.known[name]
		if f == nil {
			f = &Finding{Pattern: span.Pattern, Context: tokensOf(text[:span.Start]), Secret: tokensOf(secret), lastUser: -1}
			s.known[name], s.found = f, append(s.found, f)
		}
		if f.lastUser != user {
			f.Users, f.lastUser = f.Users+1, user
		}
		f.Occurrences++
		s.metrics.Occurrences++
	}
}

func readFindings(ctx context.Context, t *tasks.Task, input string) ([]Finding, error) {
	var list []Finding
	if err := t.InputJSON(ctx, input, FindingsBlob, &list); err != nil {
		return nil, err
	}
	for i, f := range list {
		if len(f.Secret) == 0 || slices.ContainsFunc(slices.Concat(f.Context, f.Secret), notAByte) {
			return nil, fmt.Errorf("finding %d is no text: %w", i, storage.ErrCorrupt)
		}
	}
	return list, nil
}

func notAByte(token int32) bool {
	return token < text.FirstWord || token >= text.FirstWord+text.Bytes
}

// lookedFor finds canaries in sentences by their first bytes, so that the cost does not depend on their
// number.
type lookedFor struct {
	byStart map[string][]canaryText
	length  int // of the first bytes
	seen    []bool
}

type canaryText struct {
	number int
	text   string
}

const longestStart = 8

func newLookedFor(list []population.Placement) *lookedFor {
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

// in marks the canaries in a text.
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

func (l *lookedFor) found() []int {
	var numbers []int
	for number, seen := range l.seen {
		if seen {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
