package workers

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

// leader is a coordinator of the lab.
func (l *lab) leader(holder string) attempts.Leader {
	l.t.Helper()
	id, err := l.archive.Identify(testContext(l.t))
	if err != nil || id == "" {
		l.t.Fatalf("identity %q, %v", id, err)
	}
	return attempts.Leader{Holder: holder, Store: l.archive.String(), StoreID: id}
}

func dirArchive(t *testing.T, root string) *storage.Archive {
	t.Helper()
	store := must.Get(dir.Open(root))(t)
	return storage.NewArchive(store)
}

// files are the names of the files below root.
func files(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	return names
}

func TestWorkerWithAnotherStoreReturnsTasksAndEnds(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*storage.Archive) error{
		"a new store": func(*storage.Archive) error { return nil },
		"a store that others lead": func(a *storage.Archive) error {
			_, err := a.Identify(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.StartRedis(t, "--appendonly", "no")
			conn := must.Get(queue.Open(testContext(t), server.URL()))(t)
			l := newLabOn(t, conn)
			l.archive = dirArchive(t, t.TempDir())
			stray := l.worker(hashKind)
			root := t.TempDir()
			stray.Archive = dirArchive(t, root)
			must.Do(t, prepare(stray.Archive))
			before := len(files(t, root))

			const sent = 6
			specs := make(map[storage.Key]tasks.Spec)
			for i := range sent {
				spec := mustSpec(t, hashKind, i)
				specs[spec.Key] = spec
				l.sendAttempt(attempts.Attempt{Spec: spec, Number: 1, Leader: l.leader("coordinator-7")})
			}
			err := stray.Run(testContext(t))
			if !errors.Is(err, attempts.ErrOtherStore) {
				t.Fatalf("the worker ended with %v", err)
			}
			for _, part := range []string{stray.Archive.String(), l.archive.String(), "coordinator-7", server.Addr(), "--store"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
			if after := files(t, root); len(after) != before {
				t.Errorf("it has written into its store: %q", after)
			}

			l.start(l.worker(hashKind))
			for done := 0; done < sent; {
				reports := must.Get(l.broker.Reports(testContext(t), patience))(t)
				for _, r := range reports {
					switch out := decodeOutcome(t, r); out.Result {
					case attempts.Returned:
						l.sendAttempt(attempts.Attempt{Spec: specs[out.Key], Number: 2, Leader: l.leader("coordinator-8")})
					case attempts.Done:
						done++
					default:
						t.Fatalf("outcome %+v", out)
					}
				}
			}
		})
	}
}

func TestStoreIdentityIgnoresAddressAndLeader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	root := t.TempDir()
	l.archive = dirArchive(t, root)
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(root, link))
	w := l.worker(hashKind)
	w.Archive = dirArchive(t, link)
	if w.Archive.String() == l.archive.String() {
		t.Fatalf("both are %s", w.Archive)
	}
	l.start(w)
	// The second is one of the past, whose attempt has waited in the queue. The last
	// found the store too full to give it an identity.
	for i, leader := range []attempts.Leader{l.leader("second"), l.leader("first"), {}, {Holder: "third", Store: "elsewhere"}} {
		l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, hashKind, i), Number: 1, Leader: leader})
		if out := l.outcome(); out.Result != attempts.Done {
			t.Errorf("attempt of %+v: %+v", leader, out)
		}
	}
}

func TestUnreadableIdentityIsNotAnotherStore(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	leader := l.leader("coordinator")
	read := &storagetest.Fault{Op: storagetest.Get, Name: "leader/store", Nth: 1, Err: storage.ErrAway}
	l.store.Add(read)
	l.start(l.worker(hashKind))
	for i, want := range []attempts.Result{attempts.StoreAway, attempts.Done, attempts.Done} {
		l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, hashKind, i), Number: 1, Leader: leader})
		if out := l.outcome(); out.Result != want {
			t.Errorf("attempt %d: %+v, want %s", i, out, want)
		}
	}
	if n := read.Fired(); n != 2 {
		t.Errorf("the identity was read %d times, want once after the trouble", n)
	}
}

func TestDamagedIdentityIsNotAnotherStore(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	leader := l.leader("coordinator")
	l.store.Add(&storagetest.Fault{Op: storagetest.Get, Name: "leader/store", Flip: true})
	l.start(l.worker(hashKind))
	l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, hashKind, 1), Number: 1, Leader: leader})
	if out := l.outcome(); out.Result != attempts.Done {
		t.Errorf("outcome %+v", out)
	}
}

func TestWorkerWithAnotherStoreLetsTasksFinish(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	begun, leave := make(chan struct{}), make(chan struct{})
	slow := kind("test/slow", func(ctx context.Context, t *tasks.Task) error {
		close(begun)
		<-leave
		return ctx.Err()
	})
	w := l.worker(slow, hashKind)
	w.Grace = patience
	w.Log = slog.New(slog.DiscardHandler)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(testContext(t)) }()
	l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, slow, nil), Number: 1, Leader: l.leader("ours")})
	<-begun
	l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, hashKind, nil), Number: 1, Leader: attempts.Leader{Holder: "theirs", StoreID: "another"}})
	if out := l.outcome(); out.Result != attempts.Returned || !strings.Contains(out.Error, "another store") {
		t.Errorf("outcome %+v", out)
	}
	close(leave)
	if out := l.outcome(); out.Result != attempts.Done {
		t.Errorf("outcome of the other task %+v", out)
	}
	if err := <-ended; !errors.Is(err, attempts.ErrOtherStore) {
		t.Errorf("the worker ended with %v", err)
	}
}
