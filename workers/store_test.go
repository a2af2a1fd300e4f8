package workers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

func TestMissingInputIsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.worker(hashKind)
	w.CacheMemory = 2 // caches nothing
	l.start(w)
	ctx := testContext(t)
	a := mustSpec(t, hashKind, "a")
	b := mustSpec(t, hashKind, "b", input("a", a))
	wantMissing := func(number int, words string) {
		t.Helper()
		out := l.do(b, number, attempts.Missing)
		if out.MissingNode == nil || *out.MissingNode != a.Key || !strings.Contains(out.Error, words) {
			t.Errorf("outcome %+v", out)
		}
	}
	wantMissing(1, "not committed")
	l.do(a, 1, attempts.Done)
	damage := &storagetest.Fault{Op: storagetest.Get, Name: "blobs/*/*", Flip: true}
	l.store.Add(damage)
	wantMissing(2, "corrupt")
	if damage.Fired() != 2 {
		t.Errorf("a damaged blob was read %d times, want twice", damage.Fired())
	}
	l.store.Clear()
	must.Do(t, l.archive.DeleteBlobs(ctx, l.committed(a)))
	wantMissing(3, `"big"`)
	l.do(a, 2, attempts.Done)
	l.do(b, 4, attempts.Done)
}

func TestKeptInputIsCopiedInStoreOrMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.worker(hashKind, kind("test/keep", func(ctx context.Context, t *tasks.Task) error {
		if err := t.KeepRecomputable(ctx, "a", "big", "passing"); err != nil {
			return err
		}
		return t.Keep(ctx, "a", "big", "lasting")
	}))
	w.CacheMemory = 2 // caches nothing
	l.start(w)
	a := mustSpec(t, hashKind, "a")
	b := mustSpec(t, w.Registry["test/keep"], "b", input("a", a))
	l.do(a, 1, attempts.Done)
	puts, copies := &storagetest.Fault{Op: storagetest.Put}, &storagetest.Fault{Op: storagetest.Copy}
	l.store.Add(puts, copies)
	l.do(b, 1, attempts.Done)
	if puts.Fired() != 0 || copies.Fired() != 2 {
		t.Errorf("%d puts and %d copies, want two copies alone", puts.Fired(), copies.Fired())
	}
	l.store.Clear()
	made, _ := l.committed(a).Blob("big")
	for _, name := range []string{"passing", "lasting"} {
		kept, ok := l.committed(b).Blob(name)
		if made.Name = name; !ok || !reflect.DeepEqual(kept, made) {
			t.Errorf("%s: %+v, want %+v", name, kept, made)
		}
		if _, err := l.archive.ReadBlob(testContext(t), b.Key, kept); err != nil {
			t.Error(err)
		}
	}
	must.Do(t, l.archive.DeleteBlobs(testContext(t), l.committed(a)))
	c := mustSpec(t, w.Registry["test/keep"], "c", input("a", a))
	if out := l.do(c, 1, attempts.Missing); out.MissingNode == nil || *out.MissingNode != a.Key {
		t.Errorf("outcome %+v", out)
	}
}

func TestDamagedReadIsRetried(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.worker(hashKind)
	w.CacheMemory = 2 // caches nothing
	l.start(w)
	a := mustSpec(t, hashKind, "a")
	l.do(a, 1, attempts.Done)
	l.store.Add(&storagetest.Fault{Op: storagetest.Get, Name: "blobs/*/*", Nth: 1, Flip: true})
	l.do(mustSpec(t, hashKind, "b", input("a", a)), 1, attempts.Done)
}

func TestTornInputIsReportedMissing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(hashKind))
	a := mustSpec(t, hashKind, "a")
	b := mustSpec(t, hashKind, "b", input("a", a))
	must.Do(t, l.store.Create(testContext(t), "commits/"+a.Key.String(), []byte("torn")))
	if out := l.do(b, 1, attempts.Missing); out.MissingNode == nil || *out.MissingNode != a.Key {
		t.Errorf("outcome %+v", out)
	}
	l.do(a, 1, attempts.Failed) // the leader has to remove the torn record
}

func TestStoreTroubleIsReportedAsStoreAway(t *testing.T) {
	t.Parallel()
	for op, name := range map[storagetest.Op]string{storagetest.Put: "blobs/*/*", storagetest.Create: "commits/*", storagetest.Get: "commits/*"} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.start(l.worker(hashKind))
			spec := mustSpec(t, hashKind, "a")
			for n, trouble := range []error{storage.ErrFull, storage.ErrAway} {
				l.store.Add(&storagetest.Fault{Op: op, Name: name, Err: trouble})
				if out := l.do(spec, n+1, attempts.StoreAway); !strings.Contains(out.Error, trouble.Error()) {
					t.Errorf("error %q", out.Error)
				} else if out.StoreFull != (trouble == storage.ErrFull) {
					t.Errorf("%v: reported as full: %v", trouble, out.StoreFull)
				}
				l.store.Clear()
			}
			l.do(spec, 3, attempts.Done)
		})
	}
}

// A worker that is cut off from its store asks it one question an attempt, so that others get the tasks soon.
func TestWorkerWithoutStoreReturnsTasksUntried(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(hashKind))
	spec := mustSpec(t, hashKind, "a")
	l.store.Add(&storagetest.Fault{Err: storage.ErrAway})
	l.do(spec, 1, attempts.StoreAway)
	l.store.Clear()
	reads, questions := &storagetest.Fault{Op: storagetest.Get, Err: storage.ErrAway}, &storagetest.Fault{Op: storagetest.Head, Err: storage.ErrAway}
	l.store.Add(reads, questions)
	l.do(spec, 2, attempts.StoreAway)
	if reads.Fired() != 0 || questions.Fired() != 1 {
		t.Errorf("%d reads and %d questions; want one question", reads.Fired(), questions.Fired())
	}
	l.store.Clear()
	l.do(spec, 3, attempts.Done)
}

// A kind is told of a put that failed by the next one, or not at all if that was
// its last; the attempt fails for the store's reason in both cases.
func TestFailedPutOverridesErrorOfKind(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.store.Add(&storagetest.Fault{Op: storagetest.Put, Name: "blobs/*/*", Err: storage.ErrFull})
	k := kind("test/stubborn", func(ctx context.Context, t *tasks.Task) error {
		for i := range 100 {
			if err := t.Put(ctx, fmt.Sprint(i), expand(bigBlob, []byte{byte(i)})); err != nil {
				return tasks.Permanent(errors.New("something else"))
			}
		}
		return nil
	})
	l.start(l.worker(k))
	if out := l.do(mustSpec(t, k, nil), 1, attempts.StoreAway); !strings.Contains(out.Error, storage.ErrFull.Error()) {
		t.Errorf("error %q", out.Error)
	}
}
