package workers

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/memory"
	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/tasks/training"
)

// Variables that make the test binary a worker process.
const (
	redisVariable = "COALMINE_TEST_REDIS"
	storeVariable = "COALMINE_TEST_STORE"
	gateVariable  = "COALMINE_TEST_GATE"
	// memoryVariable is a limit of memory in bytes, if set, and cacheVariable a limit of the cache.
	memoryVariable = "COALMINE_TEST_MEMORY"
	cacheVariable  = "COALMINE_TEST_CACHE"
)

func TestMain(m *testing.M) {
	if os.Getenv(redisVariable) != "" {
		fmt.Fprintln(os.Stderr, "worker ended:", workerProcess())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// workerProcess is a worker on a real Redis and a directory until it is killed.
func workerProcess() error {
	memory.Allow(32 << 20) // as the program does
	ctx := context.Background()
	conn, err := queue.Open(ctx, os.Getenv(redisVariable))
	if err != nil {
		return err
	}
	store, err := dir.Open(os.Getenv(storeVariable))
	if err != nil {
		return err
	}
	gate := os.Getenv(gateVariable)
	limit, _ := strconv.ParseInt(os.Getenv(memoryVariable), 10, 64)
	cached, _ := strconv.ParseInt(os.Getenv(cacheVariable), 10, 64)
	w := &Worker{
		Archive:     storage.NewArchive(store),
		Queue:       conn,
		Registry:    tasks.NewRegistry(gatedKind(gate), hoardingKind(gate), training.Initial, tablesKind),
		Slots:       2,
		CacheMemory: cached,
		MemoryLimit: limit,
		Log:         slog.New(slog.DiscardHandler),
	}
	return w.Run(ctx)
}

// gatedKind writes one blob, asks the gate for leave, and writes another.
func gatedKind(gate string) tasks.Kind {
	return kind("test/gated", func(ctx context.Context, t *tasks.Task) error {
		if err := t.Put(ctx, "first", expand(bigBlob, []byte("first"))); err != nil {
			return err
		}
		if err := askGate(ctx, gate); err != nil {
			return err
		}
		return t.Put(ctx, "second", expand(bigBlob, []byte("second")))
	})
}

// askGate waits for the gate's answer.
func askGate(ctx context.Context, gate string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, gate, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// httpGate holds up tasks of other processes until leave is closed.
type httpGate struct {
	url            string
	entered, leave chan struct{}
}

func newHTTPGate(t *testing.T) *httpGate {
	g := &httpGate{entered: make(chan struct{}, 10), leave: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.entered <- struct{}{}
		select {
		case <-g.leave:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// drain forgets who has entered.
func (g *httpGate) drain() {
	for len(g.entered) > 0 {
		<-g.entered
	}
}

// newProcessLab is a lab on a real Redis and a directory, and starts worker
// processes there with further variables.
func newProcessLab(t *testing.T, gate string) (l *lab, start func(variables ...string) *exec.Cmd) {
	t.Helper()
	server := testserver.StartRedis(t, "--appendonly", "no")
	root := t.TempDir()
	store := must.Get(dir.Open(root))(t)
	conn := must.Get(queue.Open(testContext(t), server.URL()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	l = &lab{t: t, archive: storage.NewArchive(store), conn: conn, broker: conn.Broker()}
	return l, func(variables ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), redisVariable+"="+server.URL(), storeVariable+"="+root, gateVariable+"="+gate)
		cmd.Env = append(cmd.Env, variables...)
		cmd.Stderr = os.Stderr
		must.Do(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
}

func TestKilledWorkerLeavesNoPartialNode(t *testing.T) {
	t.Parallel()
	g := newHTTPGate(t)
	l, start := newProcessLab(t, g.url)
	victim := start()
	spec := mustSpec(t, gatedKind(""), nil)
	l.send(spec, 1)
	<-g.entered
	must.Do(t, victim.Process.Kill())
	killed := time.Now()
	for {
		workers := must.Get(l.broker.Workers(testContext(t)))(t)
		if len(workers) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("seen as gone after %v (meant to be at most 4 s)", time.Since(killed).Round(10*time.Millisecond))
	if done, err := l.archive.HasCommit(testContext(t), spec.Key); err != nil || done {
		t.Fatalf("a half-made node is committed: %v, %v", done, err)
	}

	start()
	l.send(spec, 2)
	<-g.entered
	close(g.leave)
	out := l.outcome()
	if out.Result != attempts.Done || out.Number != 2 {
		t.Errorf("outcome %+v", out)
	}
	c := l.committed(spec)
	if ok, err := l.archive.Available(testContext(t), c); err != nil || !ok || len(c.Blobs) != 2 {
		t.Errorf("%d blobs, all available: %v, %v", len(c.Blobs), ok, err)
	}
	if !strings.HasPrefix(c.Attempt, "2.") {
		t.Errorf("committed by attempt %s", c.Attempt)
	}
}

// Two workers, a queue that forgets everything again and again, and a layered graph: the bytes must
// be those of one undisturbed worker, however the tasks are assigned and repeated.
func TestResultsDoNotDependOnWorkers(t *testing.T) {
	t.Parallel()
	const layers, width = 6, 5
	graph := func() [][]tasks.Spec {
		var all [][]tasks.Spec
		for i := range layers {
			var layer []tasks.Spec
			for j := range width {
				var inputs []tasks.Input
				if i > 0 {
					inputs = []tasks.Input{input("x", all[i-1][j]), input("y", all[i-1][(j+1)%width])}
				}
				layer = append(layer, mustSpec(t, hashKind, []int{i, j}, inputs...))
			}
			all = append(all, layer)
		}
		return all
	}()

	peace := newLab(t)
	peace.start(peace.worker(hashKind))
	server := testserver.StartRedis(t, "--appendonly", "no")
	conn := must.Get(queue.Open(testContext(t), server.URL()))(t)
	trouble := newLabOn(t, conn)
	bypass := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = bypass.Close() })
	flush := func() {
		if err := bypass.FlushAll(testContext(t)).Err(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		w := trouble.worker(hashKind)
		w.CacheDir = t.TempDir()
		w.CacheMemory = 4 * bigBlob // far too little
		trouble.start(w)
	}
	for _, layer := range graph {
		for _, spec := range layer {
			peace.do(spec, 1, attempts.Done)
		}
		trouble.settle(layer, flush)
	}
	for _, spec := range graph[layers-1] {
		want := must.Get(peace.archive.Committed(testContext(t), spec.Key))(t)
		got := must.Get(trouble.archive.Committed(testContext(t), spec.Key))(t)
		if difference := want.Differs(got); difference != "" {
			t.Errorf("node %s: %s", spec.Key.Short(), difference)
		}
	}
}

// settle sends all specs, twice over and with one flush after, until every one is committed.
func (l *lab) settle(layer []tasks.Spec, flush func()) {
	l.t.Helper()
	ctx := testContext(l.t)
	for number := 1; ; number++ {
		open := 0
		for _, spec := range layer {
			done := must.Get(l.archive.HasCommit(ctx, spec.Key))(l.t)
			if !done {
				open++
				l.send(spec, 2*number)
				l.send(spec, 2*number+1)
			}
		}
		if open == 0 {
			return
		}
		if number == 1 {
			flush()
		}
		must.Get(l.broker.Reports(ctx, 200*time.Millisecond))(l.t)
	}
}
