// Package registry lists entries of one kind, such as optimizers or samplings. The names in files, the
// choices in messages and the lookup by name all use that list, so a new entry appears in all of them:
//
//	var rules = registry.New("optimizer", func(r Rule) Kind { return r.Kind }, sgdRule, adamRule)
//
//	rule, err := rules.Find("newton") // optimizer "newton": expected one of sgd, adam
package registry

import (
	"fmt"
	"slices"
	"strings"
)

// Registry is a list of entries with distinct names. It is immutable and safe for concurrent use.
type Registry[K ~string, E any] struct {
	sort    string
	entries []E
	names   []K
}

// New returns a registry of the entries, in order. sort is the singular noun for messages. An empty or
// duplicate name is a mistake in the program and panics.
func New[K ~string, E any](sort string, name func(E) K, entries ...E) Registry[K, E] {
	r := Registry[K, E]{sort: sort, entries: entries}
	for _, e := range entries {
		n := name(e)
		if n == "" || slices.Contains(r.names, n) {
			panic(fmt.Sprintf("registry: %s %q is empty or there twice", sort, n))
		}
		r.names = append(r.names, n)
	}
	return r
}

// Find returns the entry of a name, or an error that lists the valid names.
func (r Registry[K, E]) Find(name K) (E, error) {
	if i := slices.Index(r.names, name); i >= 0 {
		return r.entries[i], nil
	}
	var none E
	return none, fmt.Errorf("%s %q: expected one of %s", r.sort, name, strings.Join(r.Words(), ", "))
}

// Entries returns all entries, in order.
func (r Registry[K, E]) Entries() []E { return slices.Clone(r.entries) }

// Names returns all names, in order.
func (r Registry[K, E]) Names() []K { return slices.Clone(r.names) }

// Words returns all names as plain strings, in order.
func (r Registry[K, E]) Words() []string {
	words := make([]string, len(r.names))
	for i, n := range r.names {
		words[i] = string(n)
	}
	return words
}
