package tasks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Registry is the set of kinds that a process can run.
type Registry map[string]Kind

// NewRegistry indexes kinds by name; it panics if a name is given twice.
func NewRegistry(kinds ...Kind) Registry {
	r := make(Registry, len(kinds))
	for _, k := range kinds {
		if _, twice := r[k.Name]; twice {
			panic(fmt.Sprintf("tasks: kind %q registered twice", k.Name))
		}
		r[k.Name] = k
	}
	return r
}

// ErrNoKind is wrapped by the errors of Find.
var ErrNoKind = errors.New("this build has no kind")

// Find returns the kind that runs the spec. The error wraps ErrNoKind.
func (r Registry) Find(s Spec) (Kind, error) {
	k, ok := r[s.Kind]
	switch {
	case !ok:
		return k, fmt.Errorf("%w %s@%d", ErrNoKind, s.Kind, s.Version)
	case k.Version != s.Version:
		return k, fmt.Errorf("%w %s@%d; its version of it is %d", ErrNoKind, s.Kind, s.Version, k.Version)
	}
	return k, nil
}

// Supports reports whether this process can run the spec.
func (r Registry) Supports(s Spec) bool {
	k, ok := r[s.Kind]
	return ok && k.Version == s.Version
}

// Advertised lists the kinds with their versions, "training/clients@1", sorted.
func (r Registry) Advertised() []string {
	var names []string
	for _, k := range r {
		names = append(names, fmt.Sprintf("%s@%d", k.Name, k.Version))
	}
	slices.Sort(names)
	return names
}

// Classes lists the classes that tasks of the kinds may have, each once, sorted.
func (r Registry) Classes() []string {
	var classes []string
	for _, k := range r {
		classes = append(classes, string(k.Class))
		if k.Command {
			classes = append(classes, string(Commands), string(GPU)) // chosen by the experiment
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// WithoutCommands returns the kinds that run no commands of experiments.
func (r Registry) WithoutCommands() Registry {
	left := maps.Clone(r)
	maps.DeleteFunc(left, func(_ string, k Kind) bool { return k.Command })
	return left
}
