package runs

import (
	"context"
	"slices"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/storagetest"
)

// drivers are the stores that runs are recorded in.
var drivers = map[string]func(t *testing.T) storage.Store{
	"memory": func(*testing.T) storage.Store { return storagetest.NewMemory() },
	"dir": func(t *testing.T) storage.Store {
		return must.Get(dir.Open(t.TempDir()))(t)
	},
	"s3": func(t *testing.T) storage.Store {
		server := testserver.StartS3(t)
		return storagetest.OpenS3(t, server.URL("store"), server.AccessKey, server.SecretKey)
	},
}

// submitAtOnce submits specs at the same time, each from a service of its own as processes do,
// and returns the ids that the submissions were told, sorted.
func submitAtOnce(t *testing.T, store storage.Store, fresh bool, specs ...Spec) []string {
	t.Helper()
	var all sync.WaitGroup
	ids := make([]string, len(specs))
	begin := make(chan struct{})
	for i, spec := range specs {
		all.Go(func() {
			<-begin
			run, _, err := NewService(storage.NewArchive(store), nil).Submit(context.Background(), spec, "tester", fresh)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = run.ID
		})
	}
	close(begin)
	all.Wait()
	slices.Sort(ids)
	return ids
}

func TestConcurrentFreshSubmissionsMakeOneRunEach(t *testing.T) {
	t.Parallel()
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			told := submitAtOnce(t, store, true, slices.Repeat([]Spec{specOf("x")}, 20)...)
			if distinct := slices.Compact(slices.Clone(told)); len(distinct) != len(told) {
				t.Errorf("20 submissions were told %d ids: %v", len(distinct), distinct)
			}
			ids, err := NewService(storage.NewArchive(store), nil).IDs(t.Context())
			if slices.Sort(ids); err != nil || !slices.Equal(ids, told) {
				t.Errorf("the store has runs %v, %v; the submissions were told %v", ids, err, told)
			}
		})
	}
}

// Submissions of one experiment make one run even if they differ in priority.
func TestConcurrentSubmissionsOfDifferentPrioritiesMakeOneRun(t *testing.T) {
	t.Parallel()
	store := storagetest.NewMemory()
	var specs []Spec
	for i := range 16 {
		spec := specOf("x")
		spec.Priority = new(i)
		specs = append(specs, spec)
	}
	if ids := slices.Compact(submitAtOnce(t, store, false, specs...)); len(ids) != 1 {
		t.Errorf("runs %v, want one", ids)
	}
}

func TestContinuedRunTakesPriorityOfSubmission(t *testing.T) {
	t.Parallel()
	s, _ := newService(t)
	spec := specOf("x")
	for _, c := range []struct {
		given *int
		want  int
		log   int // entries in the history
	}{{new(2), 2, 1}, {nil, 2, 1}, {new(2), 2, 1}, {new(5), 5, 2}, {new(0), 0, 3}} {
		spec.Priority = c.given
		run, _ := submit(t, s, spec, false)
		if run.State.Priority != c.want || len(run.State.History.Events) != c.log {
			t.Errorf("after priority %v: %d with %d entries, want %d with %d", c.given, run.State.Priority, len(run.State.History.Events), c.want, c.log)
		}
	}
	run, _ := submit(t, s, spec, false)
	if last := run.State.History.Events[2]; last.By != "tester" || last.Kind != Prioritized {
		t.Errorf("the log has %+v", last)
	}
}
