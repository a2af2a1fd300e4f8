package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

// gone is how many files an execution has found of which one cannot be read.
const gone = -1

// slowKind gets one file further in every execution, and has three to make.
func slowKind(found *[]int) tasks.Kind {
	return kind("test/slow", func(ctx context.Context, t *tasks.Task) error {
		t.DeclareNondeterministic()
		k, err := t.Kept(ctx)
		if err != nil {
			return err
		}
		if k == nil {
			k = new(tasks.Kept)
		}
		*found = append(*found, len(k.Files))
		if len(k.Files) == 2 {
			return t.Put(ctx, "out", []byte(t.Params))
		}
		for _, f := range k.Files {
			if _, err := t.KeptFile(ctx, f); err != nil {
				(*found)[len(*found)-1], k = gone, new(tasks.Kept)
				break
			}
		}
		f, err := t.KeepFile(ctx, string(rune('a'+len(k.Files))), expand(50, []byte{byte(len(k.Files))}), true)
		if err != nil {
			return err
		}
		k.Files = append(k.Files, f)
		return errors.Join(t.SaveProgress(ctx, k), errors.New("killed"))
	})
}

// objects counts the objects of unfinished executions.
func (l *lab) unfinished() (n int) {
	l.t.Helper()
	for _, err := range l.archive.Objects(testContext(l.t), storage.UnfinishedObject) {
		if err != nil {
			l.t.Fatal(err)
		}
		n++
	}
	return n
}

func TestExecutionResumesFromUnfinishedState(t *testing.T) {
	t.Parallel()
	l, found := newLab(t), []int{}
	k := slowKind(&found)
	l.start(l.worker(k))
	spec := mustSpec(t, k, 1)
	if first := l.do(spec, 1, attempts.Failed); !first.Kept {
		t.Error("nobody hears that the first execution has kept a file")
	}
	if other := l.do(mustSpec(t, k, 2), 1, attempts.Failed); other.Error == "" || found[1] != 0 {
		t.Errorf("another node found %d files", found[1])
	}
	l.do(spec, 2, attempts.Failed)
	if n := l.unfinished(); n != 5 { // two states, two files and one
		t.Errorf("%d objects are stored, want 5", n)
	}
	l.do(spec, 3, attempts.Done)
	if found[2] != 1 || found[3] != 2 {
		t.Errorf("executions found %v files", found)
	}
	if n := l.unfinished(); n != 2 {
		t.Errorf("%d objects are left, want those of the other node", n)
	}
	if !l.committed(spec).Provenance.MayDiffer {
		t.Error("the record does not say that another execution may differ")
	}
}

// An execution that keeps the same files as the one before it has made no progress, even if it
// keeps other files beside them.
func TestOnlyNewFilesAreProgress(t *testing.T) {
	t.Parallel()
	l, executions := newLab(t), 0
	k := kind("test/stuck", func(ctx context.Context, t *tasks.Task) error {
		if _, err := t.Kept(ctx); err != nil {
			return err
		}
		file, err := t.KeepFile(ctx, "half", []byte("half"), true)
		executions++
		log, logErr := t.KeepFile(ctx, "log", fmt.Append(nil, "execution ", executions), false)
		if err := errors.Join(err, logErr); err != nil {
			return err
		}
		return errors.Join(t.SaveProgress(ctx, &tasks.Kept{Files: []storage.Blob{file, log}}), errors.New("killed"))
	})
	refused := kind("test/refused", func(ctx context.Context, t *tasks.Task) error {
		file, err := t.KeepFile(ctx, "half", []byte("half"), true)
		return errors.Join(err, t.SaveProgress(ctx, &tasks.Kept{Files: []storage.Blob{file}}), tasks.Permanent(errors.New("loss is NaN")))
	})
	l.start(l.worker(k, refused))
	if out := l.do(mustSpec(t, refused, 1), 1, attempts.Refused); out.Kept {
		t.Error("a refused attempt is to go on from its files")
	}
	spec := mustSpec(t, k, 1)
	for number, want := range []bool{true, false, false} {
		if out := l.do(spec, number+1, attempts.Failed); out.Kept != want {
			t.Errorf("attempt %d has come further: %v, want %v", number+1, out.Kept, want)
		}
	}
}

// A damaged state counts as none: the work is done again, and stored again.
func TestDamagedCheckpointIsDiscarded(t *testing.T) {
	t.Parallel()
	l, found := newLab(t), []int{}
	k := slowKind(&found)
	l.start(l.worker(k))
	spec := mustSpec(t, k, 1)
	l.do(spec, 1, attempts.Failed)
	for o, err := range l.archive.Objects(testContext(t), storage.UnfinishedObject) {
		if err == nil && o.Size == 50 {
			err = l.archive.DeleteObjects(testContext(t), o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l.do(spec, 2, attempts.Failed)
	l.do(spec, 3, attempts.Failed)
	if !slices.Equal(found, []int{0, gone, 1}) {
		t.Errorf("executions found %v files; expected the second to find its gone, and to store the same again", found)
	}
}

// Of two executions that give other bytes the first counts, and it is no fault.
func TestFirstNondeterministicResultWins(t *testing.T) {
	t.Parallel()
	l, n := newLab(t), 0
	k := kind("test/random", func(ctx context.Context, t *tasks.Task) error {
		t.DeclareNondeterministic()
		n++
		if n == 1 { // another worker is faster
			other := &storage.Commit{Key: t.Key, Kind: t.Kind, KindVersion: t.Version, Attempt: "other", Provenance: storage.Provenance{MayDiffer: true}}
			if _, _, err := l.archive.Commit(ctx, other); err != nil {
				return err
			}
		}
		return t.Put(ctx, "out", []byte("ours"))
	})
	l.start(l.worker(k))
	spec := mustSpec(t, k, 1)
	if out := l.do(spec, 1, attempts.Done); out.Divergent != "" {
		t.Errorf("it is reported as %q", out.Divergent)
	}
	if c := l.committed(spec); c.Attempt != "other" {
		t.Errorf("the commit is that of %s", c.Attempt)
	}
}

// A coordinator takes back the tries of an attempt with progress: one that was refused, or misses an
// input, reports none.
func TestOnlyAFailedAttemptReportsProgress(t *testing.T) {
	t.Parallel()
	for result, end := range map[attempts.Result]error{
		attempts.Failed: errors.New("killed"), attempts.Refused: tasks.Permanent(errors.New("a wrong value")), attempts.Missing: &tasks.MissingError{},
	} {
		l := newLab(t)
		k := kind("test/ends", func(ctx context.Context, t *tasks.Task) error {
			file, err := t.KeepFile(ctx, "half", []byte("half"), true)
			if err := errors.Join(err, t.SaveProgress(ctx, &tasks.Kept{Files: []storage.Blob{file}})); err != nil {
				return err
			}
			return end
		})
		l.start(l.worker(k))
		if out := l.do(mustSpec(t, k, 1), 1, result); out.Kept != (result == attempts.Failed) {
			t.Errorf("%s: progress %v", result, out.Kept)
		}
	}
}
