package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/training"
)

// scale is a guard over a pretended memory.
type scale struct {
	*memoryGuard
	live, garbage, cached int64
	exits                 int
}

func newScale(limit int64) *scale {
	s := &scale{}
	s.memoryGuard = newMemoryGuard(limit, func() { s.garbage += s.cached; s.cached = 0 }, slog.New(slog.DiscardHandler))
	s.used = func() int64 { return s.live + s.garbage + s.cached }
	s.collect = func() { s.garbage = 0 }
	s.exit = func() { s.exits++ }
	return s
}

func testKey(name string) storage.Key { return storage.Key{Digest: storage.DigestOf([]byte(name))} }

// begin enters an attempt that is not kept waiting.
func (s *scale) begin(t *testing.T, name string) (ctx context.Context, leave func()) {
	t.Helper()
	ctx, leave, err := s.enter(testContext(t), testKey(name))
	if err != nil {
		t.Fatal(err)
	}
	return ctx, leave
}

func TestGarbageAndCachesGoBeforeAttempts(t *testing.T) {
	t.Parallel()
	s := newScale(100)
	ctx, leave := s.begin(t, "a")
	defer leave()
	s.live, s.garbage, s.cached = 60, 50, 30
	s.check()
	if s.garbage != 0 || s.cached != 30 {
		t.Errorf("garbage %d, cached %d: want the garbage gone and the caches kept", s.garbage, s.cached)
	}
	s.live = 90
	s.check()
	if s.cached != 0 || ctx.Err() != nil {
		t.Errorf("cached %d, attempt ended by %v: want the caches gone and the attempt at work", s.cached, context.Cause(ctx))
	}
}

// The system may kill the process before the next heartbeat is due, and only heartbeats name its tasks.
func TestWorkerNearMemoryLimitSendsHeartbeat(t *testing.T) {
	t.Parallel()
	s := newScale(100)
	s.live = 90
	s.check()
	if len(s.near) != 0 {
		t.Error("it asks for a heartbeat at nine tenths of its limit")
	}
	s.live = 91
	s.check()
	s.check()
	if len(s.near) != 1 {
		t.Errorf("it asks for %d heartbeats", len(s.near))
	}
}

func TestMemoryLimitStopsYoungestAttemptsFirst(t *testing.T) {
	t.Parallel()
	s := newScale(100)
	var attempts []context.Context
	var leaves []func()
	for _, name := range []string{"a", "b", "c"} {
		ctx, leave := s.begin(t, name)
		attempts, leaves = append(attempts, ctx), append(leaves, leave)
	}
	s.live = 150
	for i := 2; i >= 0; i-- {
		s.check()
		s.check() // the one that was stopped has yet to end: no other is
		why, ok := errors.AsType[*memoryError](context.Cause(attempts[i]))
		if !ok || why.others != i {
			t.Fatalf("attempt %d ended by %v, want it stopped with %d others at work", i, context.Cause(attempts[i]), i)
		}
		if i > 0 && attempts[i-1].Err() != nil {
			t.Fatalf("attempt %d was stopped before %d had ended", i-1, i)
		}
		leaves[i]()
	}
	s.check() // with nobody at work nobody is to blame
	if s.exits != 0 {
		t.Error("the process ended itself")
	}
}

func TestReturnedAttemptRunsAloneNextTime(t *testing.T) {
	t.Parallel()
	s := newScale(100)
	_, leaveA := s.begin(t, "a")
	_, leaveB := s.begin(t, "b")
	s.live = 150
	s.check()
	leaveB()
	s.live = 10

	entered := make(chan func())
	go func() {
		_, leave, err := s.enter(testContext(t), testKey("b"))
		if err != nil {
			t.Error(err)
		}
		entered <- leave
	}()
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(queue.ErrStopped)
	if _, _, err := s.enter(ended, testKey("b")); !errors.Is(err, queue.ErrStopped) {
		t.Errorf("error %v, want why the wait for room ended", err)
	}
	leaveA()
	leaveB = <-entered
	if s.runsAlone(testKey("a")) || !s.runsAlone(testKey("b")) {
		t.Error("not the attempt that was handed back runs alone, and so without borrowed cores")
	}
	if s.room.TryAcquire(1) {
		t.Error("there is room beside an attempt that must be alone")
	}
	leaveB()
	if !s.room.TryAcquire(1) {
		t.Error("there is no room when all have left")
	}
}

func TestWorkerExitsWhenStoppedAttemptContinues(t *testing.T) {
	t.Parallel()
	s := newScale(100)
	_, leave := s.begin(t, "a")
	defer leave()
	s.live = 150
	for range memoryPatience {
		s.check()
	}
	if s.exits != 0 {
		t.Fatal("the process ended itself before its patience was over")
	}
	s.check()
	if s.exits != 1 {
		t.Errorf("ended itself %d times after %d checks, want once", s.exits, memoryPatience+1)
	}
}

// hoard is how many MiB a hoarding task takes.
type hoard struct{ MiB int }

// A coordinator learns from heartbeats the memory of a worker, and names it
// when the worker has died.
func TestHeartbeatsReportMemory(t *testing.T) {
	t.Parallel()
	const held = 48 << 20
	l := newLab(t)
	k := kind("test/holds", func(ctx context.Context, _ *tasks.Task) error {
		memory := bytes.Repeat([]byte{1}, held)
		<-ctx.Done()
		runtime.KeepAlive(memory)
		return ctx.Err()
	})
	w := l.worker(k)
	w.MemoryLimit = 1 << 40
	l.start(w)
	l.send(mustSpec(t, k, nil), 1)
	for {
		workers := must.Get(l.broker.Workers(testContext(t)))(t)
		if len(workers) == 1 && workers[0].Memory.Used >= held {
			if got := workers[0].Memory.Limit; got != w.MemoryLimit {
				t.Errorf("limit %d, want %d", got, w.MemoryLimit)
			}
			return
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
}

// tablesKind prepares its model for audits, as they do.
var tablesKind = kind("test/tables", func(ctx context.Context, t *tasks.Task) error {
	_, err := tasks.Memoize(t, t.Key, "tables", func() (*models.Tables, int64, error) {
		scorer, err := checkpoints.ReadScorer(ctx, t, "model")
		if err != nil {
			return nil, 0, err
		}
		tables := scorer.Tabulate()
		return tables, tables.Bytes(), nil
	})
	return err
})

// A long training brings ever new models, and its audits ever new tables: here 60, of
// 10 MiB each with the values decoded from them. A worker that may cache 32 MiB must
// not come to hold a part of them that grows.
func TestWorkerMemoryDoesNotGrowWithModels(t *testing.T) {
	t.Parallel()
	if build.Race {
		t.Skip("the race detector takes several times the memory")
	}
	l, start := newProcessLab(t, "")
	worker := start(cacheVariable + "=" + strconv.Itoa(32<<20)).Process.Pid
	const trainings, bound = 60, 128 << 20
	for seed := range uint64(trainings) {
		model := mustSpec(t, training.Initial, training.InitialParams{Seed: seed, Model: models.Config{
			Kind: models.CIFGLSTM, Vocabulary: 3000, Embedding: 64, Units: 128,
		}})
		l.do(model, 1, attempts.Done)
		l.do(mustSpec(t, tablesKind, nil, input("model", model)), 1, attempts.Done)
	}
	peak := peakMemory(t, worker)
	t.Logf("the worker came to %d MiB", peak>>20)
	if peak > bound {
		t.Errorf("the worker came to %d MiB, want at most %d", peak>>20, bound>>20)
	}
}

// peakMemory is the most that a process has had of the machine's memory, in bytes.
func peakMemory(t *testing.T, process int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		t.Skipf("this system does not tell the memory of processes: %v", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatalf("no peak in the status of the process: %v", err)
	}
	return kib << 10
}

// hoardingKind takes memory, asks the gate for leave, and gives it back.
func hoardingKind(gate string) tasks.Kind {
	return kind("test/hoarding", func(ctx context.Context, t *tasks.Task) error {
		var h hoard
		if err := json.Unmarshal(t.Params, &h); err != nil {
			return err
		}
		taken := make([]byte, h.MiB<<20)
		err := askGate(ctx, gate)
		runtime.KeepAlive(taken)
		return err
	})
}

// In a process with a limit of 256 MiB, two tasks of 160 MiB are one too many, and
// one of 400 MiB fails.
func TestWorkerProcessKeepsMemoryLimit(t *testing.T) {
	t.Parallel()
	g := newHTTPGate(t)
	l, start := newProcessLab(t, g.url)
	start(memoryVariable + "=" + strconv.Itoa(256<<20))

	huge := mustSpec(t, hoardingKind(""), hoard{400})
	out := l.do(huge, 1, attempts.Failed)
	for _, part := range []string{"needs more memory than the worker may use", "limit of 256 MiB", "--memory"} {
		if !strings.Contains(out.Error, part) {
			t.Errorf("error %q, want %q in it", out.Error, part)
		}
	}
	g.drain()

	first, second := mustSpec(t, hoardingKind(""), hoard{160}), mustSpec(t, hoardingKind(""), hoard{161})
	l.send(first, 1)
	<-g.entered
	l.send(second, 1)
	if out := l.outcome(); out.Result != attempts.Returned || out.Key != second.Key || !strings.Contains(out.Error, "while running 1 other attempts") {
		t.Fatalf("outcome %+v, want the youngest handed back", out)
	}
	l.send(second, 2)
	close(g.leave)
	for _, want := range []tasks.Spec{first, second} {
		if out := l.outcome(); out.Result != attempts.Done || out.Key != want.Key {
			t.Errorf("outcome %+v, want %s done", out, want.Key.Short())
		}
	}
}
