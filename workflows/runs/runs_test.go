package runs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func newService(t *testing.T) (*Service, *storage.Archive) {
	t.Helper()
	archive := storage.NewArchive(storagetest.NewMemory())
	clock := time.Unix(1_700_000_000, 0)
	var mu sync.Mutex
	return NewService(archive, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		clock = clock.Add(time.Second)
		return clock
	}), archive
}

func specOf(name string) Spec {
	text := []byte("name: " + name)
	return Spec{Name: name, Digest: storage.DigestOf(text), Experiment: text}
}

func submit(t *testing.T, s *Service, spec Spec, fresh bool) (*Run, bool) {
	t.Helper()
	run, continued, err := s.Submit(context.Background(), spec, "tester", fresh)
	if err != nil {
		t.Fatal(err)
	}
	return run, continued
}

func steer(t *testing.T, s *Service, id string, entries ...Entry) {
	t.Helper()
	must.Do(t, s.Append(context.Background(), id, entries...))
}

func TestRunIDDependsOnExperimentAlone(t *testing.T) {
	t.Parallel()
	one, _ := newService(t)
	two, _ := newService(t)
	a, _ := submit(t, one, specOf("My Experiment/1"), false)
	b, _ := submit(t, two, specOf("My Experiment/1"), true)
	if want := "my-experiment-1-" + a.Spec.Digest.String()[:8]; a.ID != want || b.ID != want {
		t.Errorf("ids %q and %q, want %q", a.ID, b.ID, want)
	}
}

func TestSubmissionContinuesOnlyUnfinishedRun(t *testing.T) {
	t.Parallel()
	s, _ := newService(t)
	first, continued := submit(t, s, specOf("x"), false)
	if continued || first.State.Phase != Queued || first.State.Submitted.IsZero() {
		t.Errorf("first submission: continued %v, state %+v", continued, first.State)
	}
	for _, e := range []Entry{{Kind: Started}, {Kind: PauseEntry}} {
		steer(t, s, first.ID, e)
		if again, continued := submit(t, s, specOf("x"), false); !continued || again.ID != first.ID {
			t.Errorf("after %q: continued %v as %s", e.Kind, continued, again.ID)
		}
	}
	fresh, continued := submit(t, s, specOf("x"), true)
	if continued || fresh.ID != first.ID+".2" {
		t.Errorf("a fresh submission: continued %v, id %s", continued, fresh.ID)
	}
	steer(t, s, fresh.ID, Entry{Kind: Finished, Outcomes: map[string]Phase{"c01": Done}})
	if third, continued := submit(t, s, specOf("x"), false); continued || third.ID != first.ID+".3" {
		t.Errorf("after the end: continued %v, id %s", continued, third.ID)
	}
	all, err := s.List(context.Background())
	if err != nil || len(all) != 3 || all[0].ID != first.ID+".3" || all[2].ID != first.ID {
		t.Errorf("list %v, %v: want the newest first", all, err)
	}
}

func TestInterruptedSubmissionIsCompleted(t *testing.T) {
	t.Parallel()
	s, archive := newService(t)
	first, _ := submit(t, s, specOf("x"), false)
	raw := must.Get(archive.Spec(context.Background(), first.ID))(t)
	other, otherArchive := newService(t)
	must.Do(t, otherArchive.CreateRun(context.Background(), first.ID, raw))
	run, continued := submit(t, other, specOf("x"), false)
	if !continued || run.ID != first.ID || run.State.Submitted.IsZero() {
		t.Errorf("continued %v, run %+v", continued, run)
	}
}

func TestConcurrentSubmissionsMakeOneRun(t *testing.T) {
	t.Parallel()
	s, _ := newService(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if _, _, err := s.Submit(context.Background(), specOf("x"), "tester", false); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if ids, err := s.IDs(context.Background()); err != nil || len(ids) != 1 {
		t.Errorf("runs %v, %v: want one", ids, err)
	}
}

// For any entries by any processes, a fold over a compacted log equals one over
// the whole log.
func TestCompactedLogYieldsSameState(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, _ := newService(t)
	run, _ := submit(t, s, specOf("x"), false)
	plain := run.State.Clone()
	follower := must.Get(s.Get(ctx, run.ID))(t)
	for i := range 3 * compactAfter {
		key := storage.Key{Digest: storage.DigestOf([]byte{byte(i % 7)})}
		e := Entry{Time: time.Unix(int64(i), 0).UTC(), Key: &key, Label: "n", Error: fmt.Sprint(i), Worker: "w"}
		e.Kind = []Kind{AttemptFailed, WorkerDied, NodeFailed, PauseEntry, ResumeEntry, Started, RetryEntry, Diverged}[i%8]
		if e.Kind == RetryEntry {
			e.Keys = []storage.Key{key}
		}
		steer(t, s, run.ID, e)
		plain.Apply(e)
		must.Get(s.Refresh(ctx, run))(t)
		must.Do(t, s.Compact(ctx, run))
	}
	late := must.Get(s.Get(ctx, run.ID))(t)
	must.Get(s.Refresh(ctx, follower))(t)
	for name, got := range map[string]*Run{"leader": run, "newcomer": late, "follower": follower} {
		if !reflect.DeepEqual(got.State, plain) {
			t.Errorf("%s: %+v\nwant %+v", name, got.State, plain)
		}
	}
	if run.entries > compactAfter {
		t.Errorf("the log holds %d entries beyond its snapshot", run.entries)
	}
}

func TestSteerRejectsInvalidPhases(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, _ := newService(t)
	run, _ := submit(t, s, specOf("x"), false)
	for _, c := range []struct {
		entry Entry
		want  error
		phase Phase
	}{
		{Entry{Kind: ResumeEntry}, ErrState, Queued},
		{Entry{Kind: PauseEntry}, nil, Paused},
		{Entry{Kind: ResumeEntry}, nil, Queued},
		{Entry{Kind: RetryEntry}, ErrState, Queued},
		{Entry{Kind: CancelEntry}, nil, Cancelled},
		{Entry{Kind: PauseEntry}, ErrState, Cancelled},
		{Entry{Kind: ResumeEntry}, nil, Queued},
	} {
		if err := s.Steer(ctx, run.ID, c.entry); !errors.Is(err, c.want) {
			t.Errorf("%q: error %v, want %v", c.entry.Kind, err, c.want)
		}
		if now, _ := s.Get(ctx, run.ID); now.State.Phase != c.phase {
			t.Errorf("after %q the run is %s, want %s", c.entry.Kind, now.State.Phase, c.phase)
		}
	}
	if err := s.Steer(ctx, "nobody", Entry{Kind: PauseEntry}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("steering a run that isn't: %v", err)
	}
	if err := s.Steer(ctx, run.ID, Entry{Kind: Finished}); err == nil {
		t.Error("people cannot finish a run")
	}
}

func TestRetryForgetsFailures(t *testing.T) {
	t.Parallel()
	a, b := storage.Key{Digest: storage.DigestOf([]byte("a"))}, storage.Key{Digest: storage.DigestOf([]byte("b"))}
	var s State
	for _, e := range []Entry{
		{Kind: Started},
		{Kind: NodeFailed, Key: &a, Error: "x", Cells: []string{"c01"}},
		{Kind: NodeFailed, Key: &b, Error: "y", Cells: []string{"c01", "c02"}},
		{Kind: Finished, Outcomes: map[string]Phase{"c01": Failed, "c02": Failed}},
	} {
		s.Apply(e)
	}
	if s.Phase != Failed || !reflect.DeepEqual(s.FailedCells(), map[string]bool{"c01": true, "c02": true}) {
		t.Errorf("state %+v", s)
	}
	s.Apply(Entry{Kind: RetryEntry, Keys: []storage.Key{b}})
	if s.Phase != Queued || !reflect.DeepEqual(s.FailedCells(), map[string]bool{"c01": true}) || s.Outcomes != nil {
		t.Errorf("after the retry of one: %+v", s)
	}
	s.Apply(Entry{Kind: RetryEntry})
	if len(s.FailedCells()) != 0 {
		t.Errorf("after the retry of all: %+v", s)
	}
}

// A retry may come between a failure and the end of the run that the coordinator
// has concluded from it, not knowing of the retry.
func TestRetryOutlivesConcurrentEnd(t *testing.T) {
	t.Parallel()
	key := storage.Key{Digest: storage.DigestOf([]byte("a"))}
	failure := Entry{Kind: NodeFailed, Key: &key, Error: "x", Cells: []string{"c01"}}
	end := Entry{Kind: Finished, Outcomes: map[string]Phase{"c01": Failed, "c02": Done}}
	var s State
	for _, e := range []Entry{{Kind: Started}, failure, {Kind: RetryEntry}, end} {
		s.Apply(e)
	}
	if s.Phase != Running || s.Outcomes != nil {
		t.Errorf("the end overruled the retry: %+v", s)
	}
	s.Apply(failure)
	s.Apply(end)
	if s.Phase != Failed {
		t.Errorf("after it has failed again: %+v", s)
	}
}

func TestDamagedSpecIsReadAgainThenRejected(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	run, _ := submit(t, NewService(storage.NewArchive(memory), nil), specOf("x"), false)
	flip := &storagetest.Fault{Op: storagetest.Get, Name: "runs/*/spec", Nth: 1, Flip: true}
	again, err := NewService(storage.NewArchive(storagetest.WithFaults(memory, flip)), nil).Get(context.Background(), run.ID)
	if err != nil || again.Spec.Digest != run.Spec.Digest {
		t.Errorf("damaged once: %+v, %v", again, err)
	}
	flip = &storagetest.Fault{Op: storagetest.Get, Name: "runs/*/spec", Flip: true}
	if _, err := NewService(storage.NewArchive(storagetest.WithFaults(memory, flip)), nil).Get(context.Background(), run.ID); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("damaged for good: %v, want one that wraps %q", err, storage.ErrCorrupt)
	}
	flip = &storagetest.Fault{Op: storagetest.Get, Name: "runs/" + run.ID + "/spec", Flip: true}
	other, continued := submit(t, NewService(storage.NewArchive(storagetest.WithFaults(memory, flip)), nil), specOf("x"), false)
	if other.ID != run.ID+".2" || continued {
		t.Errorf("beside a damaged record its experiment is submitted as %s, continued: %v; want a new run", other.ID, continued)
	}
}

func TestSubmitRejectsSpecWithWrongDigest(t *testing.T) {
	t.Parallel()
	s, _ := newService(t)
	spec := specOf("x")
	spec.Experiment = []byte("name: y")
	if _, _, err := s.Submit(context.Background(), spec, "tester", false); err == nil {
		t.Error("a spec of another experiment was recorded")
	}
}
