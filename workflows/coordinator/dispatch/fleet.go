package dispatch

import (
	"fmt"
	"maps"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
)

// Fleet is what the live workers offer. The zero value is a fleet of none.
type Fleet struct {
	// Workers are the live workers, those that are draining among them.
	Workers []queue.Worker
	// Slots are those of the workers that take tasks, by class.
	Slots map[tasks.Class]int

	kinds map[string]bool // that they know, with versions
	keys  map[string]bool // secret keys that they hold, by fingerprint
}

// NewFleet returns what workers offer.
func NewFleet(workers []queue.Worker) Fleet {
	f := Fleet{Workers: workers, Slots: make(map[tasks.Class]int), kinds: make(map[string]bool), keys: make(map[string]bool)}
	for _, w := range workers {
		if w.Draining {
			continue
		}
		for _, class := range w.Classes {
			f.Slots[tasks.Class(class)] += w.Slots
		}
		for _, kind := range w.Kinds {
			f.kinds[kind] = true
		}
		for _, key := range w.Keys {
			f.keys[key] = true
		}
	}
	return f
}

// offersAs reports whether another fleet offers the same.
func (f *Fleet) offersAs(other *Fleet) bool {
	return maps.Equal(f.Slots, other.Slots) && maps.Equal(f.kinds, other.kinds) && maps.Equal(f.keys, other.keys)
}

// Knows reports whether some worker knows a task's kind, in its version.
func (f *Fleet) Knows(x *graph.Task) bool { return f.kinds[advertised(x)] }

// Serves reports whether some worker takes tasks of the class that the task asks for.
func (f *Fleet) Serves(x *graph.Task) bool { return x.Class() == "" || f.Slots[x.Class()] > 0 }

// Lacks says what the workers lack to run a task, "" if nothing.
func (f *Fleet) Lacks(x *graph.Task) string {
	if !f.Serves(x) {
		return "no live worker " + unserved(x.Class())
	}
	if !f.Knows(x) {
		return "no live worker knows " + advertised(x)
	}
	if key := x.SecretKey(); key != "" && !f.keys[key] {
		return fmt.Sprintf("no live worker holds the secret key %s: start them with --secret-key", key)
	}
	return ""
}

// unserved says what no worker does, and what would help.
func unserved(class tasks.Class) string {
	switch class {
	case tasks.Commands:
		return "runs commands of experiments: start one with --allow-commands"
	case tasks.GPU:
		return "runs commands of experiments on a gpu: start one with --class gpu --allow-commands"
	case tasks.Compute:
	}
	return fmt.Sprintf("takes tasks of the class %s: start one with --class %s", class, class)
}

// advertised is how workers name the task's kind and version.
func advertised(x *graph.Task) string { return fmt.Sprintf("%s@%d", x.Kind(), x.Version()) }
