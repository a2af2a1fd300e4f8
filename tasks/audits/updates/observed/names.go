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
)

// NamesInputs are the inputs of ReadNames: datasets.PopulationInput is the population whose users were
// divided into devices.
func NamesInputs(b audits.Builder) []tasks.Input {
	names, population := b.Users()
	return []tasks.Input{{Name: datasets.CorpusInput, Key: names}, {Name: datasets.PartsInput, Key: b.Parts()}, {Name: datasets.PopulationInput, Key: population}}
}

// Names are those of users.
type Names struct {
	// Source has those of all users of the source, in its order.
	Source []string
	// Users are those of the users who were divided into devices: each is the user of the
	// source in whose examples its own stand. One without examples has no name.
	Users []string
}

// ReadNames reads the names of users from the inputs NamesInputs.
func ReadNames(ctx context.Context, t *tasks.Task) (n Names, err error) {
	if err := t.InputJSON(ctx, datasets.CorpusInput, datasets.UsersBlob, &n.Source); err != nil {
		return n, err
	}
	source, err := datasets.ReadIndex(ctx, t, datasets.PartsInput, datasets.IndexBlob(datasets.Train))
	if err != nil {
		return n, err
	}
	users, err := datasets.ReadIndex(ctx, t, datasets.PopulationInput, datasets.PopulationIndexBlob)
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

// ownerOf is the user whose extent holds another; -1 where there is none.
func ownerOf(x *datasets.Index, e datasets.Extent) int {
	u := sort.Search(len(x.Extents), func(u int) bool { return x.Extents[u].Offset+x.Extents[u].Length > e.Offset })
	if u == len(x.Extents) || e.Offset < x.Extents[u].Offset || e.Offset+e.Length > x.Extents[u].Offset+x.Extents[u].Length {
		return -1
	}
	return u
}

// Patterns are names of users as in the source, or patterns, in which * stands for any text, ?
// for any character and [0-9] for one of a range.
type Patterns []string

// Fit reports whether one of them is a name.
func (p Patterns) Fit(name string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil || pattern == name
	})
}

// Among returns an error if none of the names of the source's users fits; who ends "no user of the source".
func (p Patterns) Among(names []string, who string) error {
	if slices.ContainsFunc(names, p.Fit) {
		return nil
	}
	return fmt.Errorf("no user of the source %s (%s); the source's users are %s", who, strings.Join(p, ", "), ListOf(names))
}

// Check reports patterns that do not end.
func (p Patterns) Check() (problems []string) {
	for _, pattern := range p {
		if _, err := path.Match(pattern, ""); err != nil {
			problems = append(problems, fmt.Sprintf("has the pattern %q, which does not end; expected a ] after each [, and a character after each \\", pattern))
		}
	}
	return problems
}

// ListOf names some of a list.
func ListOf(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
