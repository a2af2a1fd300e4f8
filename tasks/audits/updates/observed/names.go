package observed

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
)

// NamesInputs returns the inputs of ReadNames. population.Input has the users that were divided into
// devices.
func NamesInputs(b audits.Builder) []tasks.Input {
	names, pop := b.Users()
	return []tasks.Input{{Name: datasets.CorpusInput, Key: names}, {Name: population.PartsInput, Key: b.Parts()}, {Name: population.Input, Key: pop}}
}

// Names are names of users.
type Names struct {
	// Source has the names of all users of the source, in its order.
	Source []string
	// Users has the names of the divided users: each is the user of the source whose text contains its
	// examples. A user without examples has no name.
	Users []string
}

// ReadNames reads the inputs NamesInputs.
func ReadNames(ctx context.Context, t *tasks.Task) (n Names, err error) {
	if err := t.InputJSON(ctx, datasets.CorpusInput, datasets.UsersBlob, &n.Source); err != nil {
		return n, err
	}
	source, err := population.ReadIndex(ctx, t, population.PartsInput, population.IndexBlob(population.Train))
	if err != nil {
		return n, err
	}
	users, err := population.ReadIndex(ctx, t, population.Input, population.MembersIndexBlob)
	if err != nil {
		return n, err
	}
	n.Users = make([]string, len(users.Extents))
	for u, e := range users.Extents {
		if e.Examples == 0 {
			continue
		}
		owner := ownerOf(source, e)
		if owner < 0 || owner >= len(n.Source) {
			return n, fmt.Errorf("user %d of the population is no part of a user of the source", u)
		}
		n.Users[u] = n.Source[owner]
	}
	return n, nil
}

// ownerOf returns the user whose extent contains e, or -1.
func ownerOf(x *population.Index, e population.Extent) int {
	u := sort.Search(len(x.Extents), func(u int) bool { return x.Extents[u].Offset+x.Extents[u].Length > e.Offset })
	if u == len(x.Extents) || e.Offset < x.Extents[u].Offset || e.Offset+e.Length > x.Extents[u].Offset+x.Extents[u].Length {
		return -1
	}
	return u
}

// Patterns are names of users in the source, or patterns: * matches any text, ? a character, [0-9] a
// character of a range.
type Patterns []string

// Fit reports whether one of the patterns matches a name.
func (p Patterns) Fit(name string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil || pattern == name
	})
}

// CheckMatches returns an error if no pattern matches a name of the source; who follows "no user of the source".
func (p Patterns) CheckMatches(names []string, who string) error {
	if slices.ContainsFunc(names, p.Fit) {
		return nil
	}
	return fmt.Errorf("no user of the source %s (%s); the source's users are %s", who, strings.Join(p, ", "), ListFirst(names))
}

// Check describes incomplete patterns.
func (p Patterns) Check() (problems []string) {
	for _, pattern := range p {
		if _, err := path.Match(pattern, ""); err != nil {
			problems = append(problems, fmt.Sprintf("has the pattern %q, which does not end; expected a ] after each [, and a character after each \\", pattern))
		}
	}
	return problems
}

// ListFirst lists the first names.
func ListFirst(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
