package workers

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/secrets"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/tasks/clientprograms"
)

func TestTaskIsRunAndCommitted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.worker(hashKind)
	w.Version, w.Kernels, w.Host = "v1", "go", "host"
	l.start(w)
	a, b := mustSpec(t, hashKind, "a"), mustSpec(t, hashKind, "b")
	c := mustSpec(t, hashKind, "c", input("a", a), input("b", b))
	l.do(a, 1, attempts.Done)
	l.do(b, 1, attempts.Done)
	out := l.do(c, 1, attempts.Done)
	if out.Tokens != 42 || out.Seconds <= 0 || len(out.Objects) != 1 || out.Objects[0].Name != "big" {
		t.Errorf("outcome %+v", out)
	}
	stands := l.committed(c)
	if p := stands.Provenance; p.Worker != out.Worker || p.Version != "v1" || p.Kernels != "go" || p.Host != "host" || p.Started.IsZero() {
		t.Errorf("provenance %+v", p)
	}
	if string(stands.Metrics) != `{"inputs":2}` || stands.Kind != "test/hash" || stands.KindVersion != 1 {
		t.Errorf("commit %+v", stands)
	}
	big, _ := stands.Blob("big")
	small, _ := stands.Blob("small")
	if big.IsInline() || !small.IsInline() {
		t.Error("the big blob must be an object and the small one must not")
	}
	if data, err := l.archive.ReadBlob(testContext(t), c.Key, big); err != nil || len(data) != bigBlob {
		t.Errorf("big blob: %d bytes, %v", len(data), err)
	}
	if logs, err := l.archive.TaskLogs(testContext(t), "run-1", c.Key); err != nil || len(logs) != 0 {
		t.Errorf("a task without trouble left logs %v, %v", logs, err)
	}
}

// counted wraps a kind so that its runs are counted.
func counted(k tasks.Kind) (tasks.Kind, *atomic.Int64) {
	var n atomic.Int64
	run := k.Run
	k.Run = func(ctx context.Context, t *tasks.Task) error {
		n.Add(1)
		return run(ctx, t)
	}
	return k, &n
}

func TestCommittedNodeIsNotRunAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k, runs := counted(hashKind)
	l.start(l.worker(k))
	a := mustSpec(t, k, "a")
	l.do(a, 1, attempts.Done)
	first := l.committed(a)
	second := l.do(a, 2, attempts.Done)
	if runs.Load() != 1 || l.committed(a).Attempt != first.Attempt || second.Divergent != "" {
		t.Errorf("%d runs, outcome %+v", runs.Load(), second)
	}
}

// manyKind writes more bytes in small blobs than fit into one commit.
var manyKind = kind("test/many", func(ctx context.Context, t *tasks.Task) error {
	for i := range 5 {
		if err := t.Put(ctx, fmt.Sprintf("blob-%d", i), expand(storage.MaxInline, []byte{byte(i)})); err != nil {
			return err
		}
	}
	return nil
})

func TestEvictedNodeIsRecomputed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(hashKind, manyKind))
	ctx := testContext(t)
	for _, spec := range []tasks.Spec{mustSpec(t, hashKind, "a"), mustSpec(t, manyKind, "a")} {
		l.do(spec, 1, attempts.Done)
		first := l.committed(spec)
		must.Do(t, l.archive.DeleteBlobs(ctx, first))
		if ok, err := l.archive.Available(ctx, first); err != nil || ok {
			t.Fatalf("blobs of %s were not evicted: %v", spec.Kind, err)
		}
		again := l.do(spec, 2, attempts.Done)
		if stands := l.committed(spec); stands.Attempt != first.Attempt || again.Divergent != "" {
			t.Errorf("replay made commit %+v, outcome %+v", stands, again)
		}
		if ok, err := l.archive.Available(ctx, first); err != nil || !ok {
			t.Errorf("blobs of %s are not back: %v", spec.Kind, err)
		}
	}
}

// fickleKind writes something else every time.
func fickleKind(put func(ctx context.Context, t *tasks.Task, data []byte) error) tasks.Kind {
	var n atomic.Uint64
	return kind("test/fickle", func(ctx context.Context, t *tasks.Task) error {
		return put(ctx, t, expand(bigBlob, binary.LittleEndian.AppendUint64(nil, n.Add(1))))
	})
}

func TestDivergentReplayFailsAndIsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k := fickleKind(func(ctx context.Context, t *tasks.Task, data []byte) error { return t.Put(ctx, "out", data) })
	l.start(l.worker(k))
	spec := mustSpec(t, k, nil)
	l.do(spec, 1, attempts.Done)
	must.Do(t, l.archive.DeleteBlobs(testContext(t), l.committed(spec)))
	out := l.do(spec, 2, attempts.Failed)
	if !strings.Contains(out.Divergent, `"out"`) || !strings.Contains(out.Error, "differs from its commit") {
		t.Errorf("outcome %+v", out)
	}
}

// An attempt past its timeout fails so that another is made; one that was stopped
// is handed back as ever.
func TestTimedOutAttemptFails(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k := kind("test/endless", func(ctx context.Context, _ *tasks.Task) error {
		<-ctx.Done()
		return ctx.Err()
	})
	l.start(l.worker(k))
	l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, k, nil), Number: 1, TimeoutSeconds: 0.05})
	if out := l.outcome(); out.Result != attempts.Failed || !strings.Contains(out.Error, "timeout of 50ms") {
		t.Errorf("outcome %+v", out)
	}
	l.sendAttempt(attempts.Attempt{Spec: mustSpec(t, k, nil), Number: 2, TimeoutSeconds: 3600})
	for ctx := testContext(t); ; { // until the worker has it
		if workers, err := l.broker.Workers(ctx); err != nil {
			t.Fatal(err)
		} else if len(workers) == 1 && len(workers[0].Running) == 1 {
			break
		}
	}
	a := attempts.Attempt{Spec: mustSpec(t, k, nil), Number: 2}
	must.Do(t, l.broker.Stop(testContext(t), a.ID()))
	if out := l.outcome(); out.Result != attempts.Returned {
		t.Errorf("a stopped attempt: %+v", out)
	}
}

// Other bytes than those of another architecture are no fault of the task's.
func TestDivergenceAcrossArchitecturesIsIgnored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var foreign *storage.Commit
	k := kind("test/raced", func(ctx context.Context, t *tasks.Task) error {
		if foreign != nil {
			return t.Put(ctx, "out", expand(bigBlob, []byte("here")))
		}
		c := &storage.Commit{Key: t.Key, Kind: t.Kind, KindVersion: 1, Attempt: "elsewhere", Provenance: storage.Provenance{Arch: "pdp11"}}
		blob, err := l.archive.PutBlob(ctx, t.Key, "out", expand(bigBlob, []byte("elsewhere")), storage.Durable)
		if err != nil {
			return err
		}
		c.Blobs = []storage.Blob{blob}
		if _, _, err := l.archive.Commit(ctx, c); err != nil { // a worker elsewhere is faster
			return err
		}
		foreign = c
		return t.Put(ctx, "out", expand(bigBlob, []byte("here")))
	})
	l.start(l.worker(k))
	spec := mustSpec(t, k, nil)
	if out := l.do(spec, 1, attempts.Done); out.Divergent != "" || l.committed(spec).Attempt != "elsewhere" {
		t.Errorf("outcome %+v", out)
	}
	must.Do(t, l.archive.DeleteBlobs(testContext(t), foreign))
	if out := l.do(spec, 2, attempts.Failed); out.Divergent != "" || !strings.Contains(out.Error, "pdp11") {
		t.Errorf("a replay of what pdp11 has made: %+v", out)
	}
}

func TestRaceLoserReportsDivergence(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	together := make(chan struct{})
	var here atomic.Int64
	k := fickleKind(func(ctx context.Context, t *tasks.Task, data []byte) error {
		if here.Add(1) == 2 {
			close(together)
		}
		<-together
		return t.Put(ctx, "out", data)
	})
	l.start(l.worker(k))
	spec := mustSpec(t, k, nil)
	l.send(spec, 1)
	l.send(spec, 2)
	var outs []attempts.Outcome
	for ctx := testContext(t); len(outs) < 2; {
		reports := must.Get(l.broker.Reports(ctx, time.Second))(t)
		for _, r := range reports {
			outs = append(outs, decodeOutcome(t, r))
		}
	}
	if outs[0].Result != attempts.Done || outs[1].Result != attempts.Done || outs[0].Objects[0].Digest != outs[1].Objects[0].Digest {
		t.Errorf("both must be done by one commit: %+v", outs)
	}
	if (outs[0].Divergent == "") == (outs[1].Divergent == "") {
		t.Errorf("one and only one must report that it had other bytes: %q, %q", outs[0].Divergent, outs[1].Divergent)
	}
}

func TestUnknownKindsAreReturned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(hashKind))
	newer := hashKind
	newer.Version = 2
	for _, k := range []tasks.Kind{newer, kind("test/unheard-of", nil)} {
		out := l.do(mustSpec(t, k, nil), 1, attempts.Returned)
		if !strings.Contains(out.Error, fmt.Sprintf("%s@%d", k.Name, k.Version)) {
			t.Errorf("error %q", out.Error)
		}
	}
}

// A message may come in any way to a worker that allows no commands.
func TestCommandsRunOnlyWhereTheyAreAllowed(t *testing.T) {
	t.Parallel()
	ran := func(context.Context, *tasks.Task) error {
		t.Error("a command has run")
		return nil
	}
	command := tasks.Kind{Name: "test/command", Version: 1, Class: tasks.Compute, Command: true, Run: ran}
	asks := kind("test/asks", func(ctx context.Context, t *tasks.Task) error {
		_, err := t.Client(ctx, clientprograms.Setting{Program: clientprograms.Program{Command: "python3 client.py"}})
		return err
	})
	l := newLab(t)
	w := l.worker(command, asks)
	if got := w.classes(); !slices.Contains(got, string(tasks.Commands)) || !slices.Contains(got, string(tasks.GPU)) {
		t.Errorf("by itself it takes %v; expected the classes of commands among them", got)
	}
	w.NoCommands = true
	if got := w.classes(); !slices.Equal(got, []string{string(tasks.Compute)}) {
		t.Errorf("without commands it takes %v", got)
	}
	l.start(w)
	if out := l.do(mustSpec(t, command, nil), 1, attempts.Returned); !strings.Contains(out.Error, "does not know test/command@1") {
		t.Errorf("a command is returned with %q", out.Error)
	}
	if out := l.do(mustSpec(t, asks, nil), 1, attempts.Refused); !strings.Contains(out.Error, `the program "python3 client.py", and nothing here runs commands of experiments: it takes --allow-commands`) {
		t.Errorf("a task that asks a program fails with %q", out.Error)
	}
}

// The tokens of a task tell who took part in its round.
func TestTokensOfSecretTasksAreNotCounted(t *testing.T) {
	t.Parallel()
	key := must.Get(secrets.Create(filepath.Join(t.TempDir(), "key")))(t)
	tells := kind("test/tells", func(_ context.Context, t *tasks.Task) error {
		t.Progress(tasks.Progress{Done: 1, Total: 2, Tokens: 7})
		return nil
	})
	l := newLab(t)
	w := l.worker(tells)
	w.Keys = secrets.NewKeyring(key)
	l.start(w)
	secret := mustSpec(t, tells, "secret")
	secret.SecretKey = key.Fingerprint()
	for want, spec := range map[int64]tasks.Spec{7: mustSpec(t, tells, "seeded"), 0: secret} {
		if out := l.do(spec, 1, attempts.Done); out.Tokens != want {
			t.Errorf("%d tokens, want %d", out.Tokens, want)
		}
	}
}

// Who runs a worker decides which of its variables commands may read.
func TestCommandsGetOnlyAllowedVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		allowed []string
		want    attempts.Result
	}{
		{nil, attempts.Failed},
		{[]string{"MY_DATA"}, attempts.Failed},
		{[]string{"MY_DATA", "HF_TOKEN"}, attempts.Done},
		{[]string{AnyVariable}, attempts.Done},
	} {
		l := newLab(t)
		w := l.worker(hashKind)
		w.Environment = c.allowed
		l.start(w)
		spec := mustSpec(t, hashKind, "a")
		spec.Terms = json.RawMessage(`{"environment":["MY_DATA","HF_TOKEN"]}`)
		out := l.do(spec, 1, c.want)
		if c.want == attempts.Failed && !strings.Contains(out.Error, "start the worker with --commands-may-read-env ") {
			t.Errorf("with %q: %q", c.allowed, out.Error)
		}
	}
}

func TestTaskWithoutSecretKeyIsReturned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	key := must.Get(secrets.Create(filepath.Join(t.TempDir(), "key")))(t)
	spec := mustSpec(t, hashKind, "a")
	spec.SecretKey = key.Fingerprint()
	stop := l.start(l.worker(hashKind))
	if out := l.do(spec, 1, attempts.Returned); !strings.Contains(out.Error, key.Fingerprint()) {
		t.Errorf("error %q", out.Error)
	}
	stop()
	w := l.worker(hashKind)
	w.Keys = secrets.NewKeyring(key)
	l.start(w)
	l.do(spec, 1, attempts.Done)
}

func TestKindErrorsMapToResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(ctx context.Context, t *tasks.Task) error
		want attempts.Result
		says string
		log  string
	}{
		"transient": {func(context.Context, *tasks.Task) error { return errors.New("no route to host") }, attempts.Failed, "no route", "no route"},
		"permanent": {func(context.Context, *tasks.Task) error { return tasks.Permanent(errors.New("loss is NaN")) }, attempts.Refused, "NaN", "NaN"},
		"panic":     {func(context.Context, *tasks.Task) error { panic("index out of range") }, attempts.Refused, "index out of range", "worker_test.go"},
		"panic after a refused output": {func(ctx context.Context, t *tasks.Task) error {
			_, _ = t.Put(ctx, "x", nil), t.Put(ctx, "x", nil)
			panic("index out of range")
		}, attempts.Refused, "index out of range", "worker_test.go"},
		"two outputs of a name": {func(ctx context.Context, t *tasks.Task) error {
			return errors.Join(t.Put(ctx, "x", nil), t.Put(ctx, "x", nil))
		}, attempts.Refused, "twice", "twice"},
		"no such blob": {func(ctx context.Context, t *tasks.Task) error {
			_, err := t.Blob(ctx, "a", "middling")
			return err
		}, attempts.Refused, `no blob "middling"`, "middling"},
		"beyond a blob": {func(ctx context.Context, t *tasks.Task) error {
			_, err := t.BlobRange(ctx, "a", "big", bigBlob, 1)
			return err
		}, attempts.Refused, "bytes", "bytes"},
		"no such source": {func(ctx context.Context, t *tasks.Task) error {
			_, err := t.Imported(ctx, storage.DigestOf(nil))
			return err
		}, attempts.Refused, "submit the run again", "submit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			k := kind("test/bad", c.run)
			l.start(l.worker(hashKind, k))
			a := mustSpec(t, hashKind, "a")
			l.do(a, 1, attempts.Done)
			spec := mustSpec(t, k, nil, input("a", a))
			out := l.do(spec, 7, c.want)
			if !strings.Contains(out.Error, c.says) {
				t.Errorf("error %q does not say %q", out.Error, c.says)
			}
			log, err := l.archive.ReadTaskLog(testContext(t), "run-1", spec.Key, "7."+out.Worker)
			if err != nil || !strings.Contains(string(log), c.log) {
				t.Errorf("log %q, %v: want it to say %q", log, err, c.log)
			}
			if _, err := l.archive.Committed(testContext(t), spec.Key); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("a failed node has a commit: %v", err)
			}
		})
	}
}

// waitKind tells that it has begun and waits until it is stopped.
func waitKind() (tasks.Kind, chan struct{}) {
	begun := make(chan struct{}, 10)
	return kind("test/wait", func(ctx context.Context, t *tasks.Task) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}), begun
}

func TestStoppedAttemptsAreReturned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	k, begun := waitKind()
	stop := l.start(l.worker(k))
	spec := mustSpec(t, k, nil)
	l.send(spec, 1)
	<-begun
	must.Do(t, l.broker.Stop(testContext(t), spec.Key.String()+".1"))
	if out := l.outcome(); out.Result != attempts.Returned || out.Error != queue.ErrStopped.Error() {
		t.Errorf("outcome %+v", out)
	}
	l.sendAgain(spec, 1, begun) // costs no attempt: the same number again
	stop()
	if out := l.outcome(); out.Result != attempts.Returned || out.Error != queue.ErrShutdown.Error() {
		t.Errorf("outcome %+v", out)
	}
}

// Work that is done when the stop comes is not thrown away.
func TestStopDoesNotInterruptCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	begun := make(chan struct{})
	k := kind("test/late", func(ctx context.Context, t *tasks.Task) error {
		close(begun)
		<-ctx.Done()
		return nil
	})
	stop := l.start(l.worker(k))
	spec := mustSpec(t, k, nil)
	l.send(spec, 1)
	<-begun
	stop()
	if out := l.outcome(); out.Result != attempts.Done {
		t.Errorf("outcome %+v", out)
	}
}

// An unreadable input is no fault of the task: it is handed back.
func TestUnreadableMessagesAreReturned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.start(l.worker(hashKind))
	spec := mustSpec(t, hashKind, "a")
	later := (&attempts.Attempt{Spec: spec, Number: 3}).Encode()
	later = protowire.AppendVarint(protowire.AppendTag(later, 16, protowire.VarintType), attempts.Format+1)
	for i, payload := range []string{"{", `{"kind":"test/hash","number":9}`, string(later)} {
		number := i + 1 // while an attempt is at work, another of its number is none
		m := queue.Message{ID: fmt.Sprintf("%s.%d", spec.Key, number), Class: string(tasks.Compute), Payload: []byte(payload)}
		must.Do(t, l.broker.Enqueue(testContext(t), m))
		if out := l.outcome(); out.Result != attempts.Returned || out.Unread != (number == 3) || out.Key != spec.Key || out.Number != number {
			t.Errorf("outcome %+v", out)
		}
	}
}

func TestIdleWorkerExits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.worker(hashKind)
	w.IdleFor = 50 * time.Millisecond
	if err := w.Run(testContext(t)); err != nil {
		t.Error(err)
	}
}

func TestIdleTimerPausesWhileBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		expired := make(chan time.Duration, 1)
		idle := newIdleTimer(time.Minute, func() { expired <- time.Since(start) })
		defer idle.stop()
		time.Sleep(50 * time.Second)
		first, second := idle.busy(), idle.busy()
		time.Sleep(time.Hour)
		first()
		time.Sleep(time.Hour)
		second()
		if got, want := <-expired, 50*time.Second+2*time.Hour+time.Minute; got != want {
			t.Errorf("expired after %v, want %v", got, want)
		}
	})
}

func TestRunRejectsIncompleteWorker(t *testing.T) {
	t.Parallel()
	err := (&Worker{Slots: -1}).Run(context.Background())
	if err == nil {
		t.Fatal("an empty worker ran")
	}
	for _, words := range []string{"Archive", "Queue", "Registry", "Slots"} {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("error %q does not name %s", err, words)
		}
	}
	if n := (&Worker{}).slots(); n != runtime.GOMAXPROCS(0) {
		t.Errorf("%d slots by default", n)
	}
}

func TestLogsAreKeptOnRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := l.worker(hashKind)
	w.KeepLogs = true
	l.start(w)
	a := mustSpec(t, hashKind, "a")
	l.do(a, 1, attempts.Done)
	if logs, err := l.archive.TaskLogs(testContext(t), "run-1", a.Key); err != nil || len(logs) != 1 {
		t.Errorf("logs %v, %v", logs, err)
	}
}

func TestSinkCacheIsBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := newSink(testContext(t), newSource(l.archive, newBudget(0)), storage.Key{Digest: storage.DigestOf(nil)}, 2*bigBlob)
	for i := range 5 {
		must.Do(t, s.Put(testContext(t), fmt.Sprint(i), expand(bigBlob, []byte{byte(i)}), storage.Recomputable))
	}
	if blobs, err := s.wait(nil); err != nil || len(blobs) != 5 || len(s.cached) != 2 {
		t.Errorf("%d blobs, %d kept, %v", len(blobs), len(s.cached), err)
	}
}
