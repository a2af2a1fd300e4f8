package workers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

const patience = 20 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// lab is an archive in memory, with faults, and an embedded queue.
type lab struct {
	t       testing.TB
	store   *storagetest.FaultyStore
	archive *storage.Archive
	conn    *queue.Conn
	broker  *queue.Broker
}

func newLab(t testing.TB) *lab {
	t.Helper()
	conn := must.Get(queue.Embedded(context.Background()))(t)
	return newLabOn(t, conn)
}

// newLabOn is a lab on the queue of conn, which it closes.
func newLabOn(t testing.TB, conn *queue.Conn) *lab {
	t.Cleanup(func() { _ = conn.Close() })
	store := storagetest.WithFaults(storagetest.NewMemory())
	return &lab{t: t, store: store, archive: storage.NewArchive(store), conn: conn, broker: conn.Broker()}
}

// worker describes a worker of the lab with the given kinds.
func (l *lab) worker(kinds ...tasks.Kind) *Worker {
	return &Worker{
		Archive:  l.archive,
		Queue:    l.conn,
		Registry: tasks.NewRegistry(kinds...),
		Slots:    2,
		Grace:    -1,
		Log:      slog.New(slog.DiscardHandler),
	}
}

// start runs a worker until the test ends or stop is called.
func (l *lab) start(w *Worker) (stop func()) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			l.t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	l.t.Cleanup(stop)
	return stop
}

func (l *lab) send(spec tasks.Spec, number int) {
	l.t.Helper()
	l.sendAttempt(attempts.Attempt{Spec: spec, Number: number, Runs: []string{"run-1"}})
}

// sendAgain sends an attempt whose outcome has come until it has begun once more. The queue lets go
// of a message shortly after its report, and ignores another of its ID until then.
func (l *lab) sendAgain(spec tasks.Spec, number int, begun <-chan struct{}) {
	l.t.Helper()
	ctx := testContext(l.t)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		l.send(spec, number)
		select {
		case <-begun:
			return
		case <-again.C:
		case <-ctx.Done():
			l.t.Fatal("it did not begin again")
		}
	}
}

func (l *lab) sendAttempt(a attempts.Attempt) {
	l.t.Helper()
	must.Do(l.t, l.broker.Enqueue(testContext(l.t), queue.Message{ID: a.ID(), Class: string(tasks.Compute), Payload: a.Encode()}))
}

func (l *lab) outcome() attempts.Outcome {
	l.t.Helper()
	return outcomeFrom(l.t, l.broker)
}

// committed returns the record of a node.
func (l *lab) committed(spec tasks.Spec) *storage.Commit {
	l.t.Helper()
	return must.Get(l.archive.Committed(testContext(l.t), spec.Key))(l.t)
}

// outcomeFrom waits for one report.
func outcomeFrom(t testing.TB, b *queue.Broker) attempts.Outcome {
	t.Helper()
	ctx := testContext(t)
	for {
		reports := must.Get(b.Reports(ctx, time.Second))(t)
		if len(reports) > 1 {
			t.Fatalf("%d reports at once", len(reports))
		}
		for _, r := range reports {
			return decodeOutcome(t, r)
		}
	}
}

func decodeOutcome(t testing.TB, r queue.Report) attempts.Outcome {
	t.Helper()
	var out attempts.Outcome
	must.Do(t, json.Unmarshal(r.Body, &out))
	return out
}

// do sends a spec and waits for its outcome, which must be want.
func (l *lab) do(spec tasks.Spec, number int, want attempts.Result) attempts.Outcome {
	l.t.Helper()
	l.send(spec, number)
	out := l.outcome()
	if out.Result != want || out.Key != spec.Key || out.Number != number {
		l.t.Fatalf("outcome %s of %s.%d (%s), want %s of %s.%d", out.Result, out.Key.Short(), out.Number, out.Error, want, spec.Key.Short(), number)
	}
	return out
}

// kind makes a kind of the compute class.
func kind(name string, run func(ctx context.Context, t *tasks.Task) error) tasks.Kind {
	return tasks.Kind{Name: name, Version: 1, Class: tasks.Compute, Run: run}
}

func mustSpec(t testing.TB, k tasks.Kind, params any, inputs ...tasks.Input) tasks.Spec {
	t.Helper()
	return must.Get(tasks.NewSpec(k, params, inputs...))(t)
}

func input(name string, spec tasks.Spec) tasks.Input { return tasks.Input{Name: name, Key: spec.Key} }

// bigBlob is too large to travel inside a commit.
const bigBlob = 3 * storage.MaxInline

// expand repeats a hash of the parts up to size bytes.
func expand(size int, parts ...[]byte) []byte {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return bytes.Repeat(h.Sum(nil), size/sha256.Size+1)[:size]
}

// hashKind writes blobs that are hashes of its parameters and of its inputs'
// blobs: "big" as an object, "small" inside the commit.
var hashKind = kind("test/hash", func(ctx context.Context, t *tasks.Task) error {
	parts := [][]byte{t.Params}
	for _, in := range t.Inputs {
		big, err := t.Blob(ctx, in.Name, "big")
		if err != nil {
			return err
		}
		tail, err := t.BlobRange(ctx, in.Name, "big", bigBlob-100, 100)
		if err != nil {
			return err
		}
		small, err := t.Blob(ctx, in.Name, "small")
		if err != nil {
			return err
		}
		parts = append(parts, big, tail, small)
	}
	t.Progress(tasks.Progress{Done: 1, Total: 1, Tokens: 42})
	if err := t.PutRecomputable(ctx, "big", expand(bigBlob, parts...)); err != nil {
		return err
	}
	if err := t.SetMetrics(map[string]int{"inputs": len(t.Inputs)}); err != nil {
		return err
	}
	return t.Put(ctx, "small", expand(64, parts...))
})
