package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
)

// Fleet describes the live workers. The zero value is an empty fleet.
type Fleet struct {
	// Workers are the live workers, including draining ones.
	Workers []queue.Worker
	// Slots counts the slots of workers that take tasks, by class.
	Slots map[tasks.Class]int
	// Useless has the reasons, by id, why workers can run no task.
	Useless map[string]string

	kinds map[string]bool // supported kinds, with versions
	keys  map[string]bool // available secret keys, by fingerprint
}

// newFleet returns the fleet of workers that are not excluded.
func newFleet(workers []queue.Worker, excluded map[string]string) Fleet {
	f := Fleet{
		Workers: workers, Slots: make(map[tasks.Class]int), Useless: make(map[string]string),
		kinds: make(map[string]bool), keys: make(map[string]bool),
	}
	for _, w := range workers {
		if why := cmp.Or(excluded[w.ID], strange(w, attempts.Format)); why != "" {
			f.Useless[w.ID] = why
			continue
		}
		if w.Draining {
			continue
		}
		for _, class := range w.Classes {
			f.Slots[tasks.Class(class)] += w.SlotsOf(class)
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

// strange explains why a worker's build cannot read attempts of a format; "" if it can or its
// format is unknown.
func strange(w queue.Worker, format int) string {
	switch {
	case w.Unreadable:
		return "this coordinator cannot read its heartbeats"
	case w.Format != 0 && w.Format < format:
		return fmt.Sprintf("it reads attempts up to format %d, and this coordinator writes format %d", w.Format, format)
	}
	return ""
}

// Name returns the name of a worker with its build.
func Name(w *queue.Worker) string {
	return fmt.Sprintf("worker %s (coalmine %s)", w.ID, cmp.Or(w.Build, "of an unknown version"))
}

// has reports whether a worker lives.
func (f *Fleet) has(id string) bool {
	return slices.ContainsFunc(f.Workers, func(w queue.Worker) bool { return w.ID == id })
}

// maxNamed bounds the workers that a message names.
const maxNamed = 3

// Helpless names the workers that cannot help, with their reasons. why returns the reason of a
// worker, "" if it can help.
func (f *Fleet) Helpless(why func(*queue.Worker) string) string {
	var all []string
	for i := range f.Workers {
		if reason := why(&f.Workers[i]); reason != "" {
			all = append(all, Name(&f.Workers[i])+" cannot help: "+reason)
		}
	}
	if more := len(all) - maxNamed; more > 0 {
		all = append(all[:maxNamed], fmt.Sprintf("%d more cannot help either", more))
	}
	return strings.Join(all, "; ")
}

// Unknown explains why a worker cannot run a kind of task, "" if it can.
func (f *Fleet) Unknown(w *queue.Worker, kind string, version int) string {
	wanted := fmt.Sprintf("%s@%d", kind, version)
	if why := f.Useless[w.ID]; why != "" || slices.Contains(w.Kinds, wanted) {
		return why
	}
	for _, known := range w.Kinds {
		if strings.HasPrefix(known, kind+"@") {
			return fmt.Sprintf("it knows %s and not %s", known, wanted)
		}
	}
	return "it does not know " + wanted
}

// offersAs reports whether another fleet offers the same.
func (f *Fleet) offersAs(other *Fleet) bool {
	return maps.Equal(f.Slots, other.Slots) && maps.Equal(f.Useless, other.Useless) && maps.Equal(f.kinds, other.kinds) && maps.Equal(f.keys, other.keys)
}

// Knows reports whether some worker supports a task's kind in its version.
func (f *Fleet) Knows(x *graph.Task) bool { return f.kinds[advertised(x)] }

// Serves reports whether some worker takes tasks of the class that the task asks for.
func (f *Fleet) Serves(x *graph.Task) bool { return x.Class() == "" || f.Slots[x.Class()] > 0 }

// Lacks returns the capability for a task that the workers lack, or "".
func (f *Fleet) Lacks(x *graph.Task) string {
	if !f.Serves(x) {
		return "no live worker " + unserved(x.Class())
	}
	if !f.Knows(x) {
		text := "no live worker knows " + advertised(x)
		if others := f.Helpless(func(w *queue.Worker) string { return f.Unknown(w, x.Kind(), x.Version()) }); others != "" {
			text += ": " + others
		}
		return text
	}
	if key := x.SecretKey(); key != "" && !f.keys[key] {
		return fmt.Sprintf("no live worker holds the secret key %s: start them with --secret-key", key)
	}
	return ""
}

// unserved explains that no worker serves the class, and the remedy.
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

// advertised returns the task's kind and version as workers name them.
func advertised(x *graph.Task) string { return fmt.Sprintf("%s@%d", x.Kind(), x.Version()) }
