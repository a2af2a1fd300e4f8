package queue

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// serveVariable makes the test binary a worker on the Redis that it names.
const serveVariable = "COALMINE_TEST_SERVE"

func TestMain(m *testing.M) {
	if url := os.Getenv(serveVariable); url != "" {
		serveForever(url)
	}
	os.Exit(m.Run())
}

// serveForever is a worker process whose handlers never return.
func serveForever(url string) {
	conn, err := Open(context.Background(), url)
	if err == nil {
		err = conn.Serve(context.Background(), ConsumerConfig{
			Worker:  Worker{ID: "victim", Classes: []string{"compute"}, Slots: 2},
			Handler: func(context.Context, Message) []byte { select {} },
		})
	}
	fmt.Fprintln(os.Stderr, "worker ended:", err)
	os.Exit(1)
}

func TestKilledWorkerIsReportedGone(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	conn := mustOpen(t, server.URL())
	b := conn.Broker()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), serveVariable+"="+server.URL())
	victim.Stderr = os.Stderr
	must.Do(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill() })
	enqueue(t, b, "k.1")
	running := func() []string {
		workers := must.Get(b.Workers(testContext(t)))(t)
		var ids []string
		for _, w := range workers {
			for _, r := range w.Running {
				ids = append(ids, w.ID+" "+r.ID)
			}
		}
		return ids
	}
	must.Await(t, "the victim works", func() bool { return slices.Equal(running(), []string{"victim k.1"}) })
	must.Do(t, victim.Process.Kill())
	_ = victim.Wait()
	killed := time.Now()
	must.Await(t, "its heartbeat expires", func() bool {
		known, err := b.Known(testContext(t), []string{"k.1"})
		return err == nil && len(running()) == 0 && !known["k.1"]
	})
	t.Logf("seen as gone after %v (meant to be at most 4 s)", time.Since(killed).Round(10*time.Millisecond))
	// The coordinator goes on with the next attempt.
	serve(t, conn, "heir", echo)
	enqueue(t, b, "k.2")
	if r := await(t, b, 1)[0]; r.ID != "k.2" || r.Worker != "heir" {
		t.Errorf("report %+v", r)
	}
}

// A worker that is killed between taking a message and its first heartbeat leaves
// an apparent running attempt for as long as asynq's lease.
func TestMessageOfDeadTakerIsUnknown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		taker := conn.dial()
		t.Cleanup(func() { _ = taker.Close() })
		silent := asynq.NewServerFromRedisClient(taker, asynq.Config{
			Queues: map[string]int{queueName("compute"): 1}, TaskCheckInterval: checkInterval, LogLevel: asynq.FatalLevel,
		})
		must.Do(t, silent.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			g.handle(ctx, Message{ID: task.ResultWriter().TaskID()})
			return nil
		})))
		t.Cleanup(silent.Shutdown)
		t.Cleanup(func() { close(g.leave) })
		enqueue(t, b, "a.1")
		g.awaitEntry(t)
		silent.Stop()
		enqueue(t, b, "a.1") // asynq has it still
		if known, err := b.Known(testContext(t), []string{"a.1"}); err != nil || len(known) != 0 {
			t.Errorf("Known = %v, %v: want nothing, for no worker lists it", known, err)
		}
		enqueue(t, b, "a.2")
		serve(t, conn, "w", echo)
		if r := await(t, b, 1)[0]; r.ID != "a.2" {
			t.Errorf("report %+v, want that of the next attempt", r)
		}
	})
}

func flush(t testing.TB, conn *Conn) {
	t.Helper()
	must.Do(t, conn.client.FlushAll(testContext(t)).Err())
}

func TestWorkersSurviveFlush(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		serve(t, conn, "w", g.handle)
		enqueue(t, b, "a")
		g.awaitEntry(t)
		flush(t, conn) // with one running and one slot idle
		enqueue(t, b, "b")
		g.awaitEntry(t)
		must.Await(t, "the running attempts are listed again", func() bool {
			known, err := b.Known(testContext(t), []string{"a", "b"})
			return err == nil && known["a"] && known["b"]
		})
		flush(t, conn)     // with both running
		enqueue(t, b, "a") // runs again if the first has ended before it is taken
		close(g.leave)
		awaitEach(t, b, "a", "b")
		flush(t, conn) // idle
		enqueue(t, b, "c")
		awaitEach(t, b, "c")
	})
}

func TestWorkersSurviveRedisOutage(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	conn := mustOpen(t, server.URL())
	b, g := conn.Broker(), newGate()
	serve(t, conn, "w", g.handle)
	enqueue(t, b, "a")
	g.awaitEntry(t)
	server.Kill()
	if err := b.Nudge(testContext(t)); err == nil {
		t.Error("a dead Redis took a nudge")
	}
	close(g.leave) // the report meets no Redis
	server.Restart()
	if r := await(t, b, 1)[0]; r.ID != "a" || string(r.Body) != "left" {
		t.Errorf("report %+v", r)
	}
	enqueue(t, b, "b")
	await(t, b, 1)
	must.Await(t, "the worker is back", func() bool {
		workers, err := b.Workers(testContext(t))
		return err == nil && len(workers) == 1
	})
}

func TestShutdownEndsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	conn := mustOpen(t, server.URL())
	b, g := conn.Broker(), newGate()
	c := serve(t, conn, "w", g.handle)
	enqueue(t, b, "a")
	g.awaitEntry(t)
	server.Kill()
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(60 * time.Second):
		t.Fatal("Serve did not return")
	}
}

func TestRedeliveredMessageIsNotRunTwice(t *testing.T) {
	t.Parallel()
	conn := mustEmbed(t)
	g := newGate()
	s := newConsumer(testContext(t), conn, ConsumerConfig{Worker: Worker{ID: "w"}, Handler: g.handle})
	s.reporting = testContext(t)
	var first sync.WaitGroup
	first.Go(func() { s.handle(compute("a")) })
	g.awaitEntry(t)
	s.handle(compute("a")) // returns at once
	close(g.leave)
	first.Wait()
	if n := len(g.entered); n != 0 {
		t.Errorf("%d more handlers were entered", n)
	}
}

// commands is how many commands a real server has processed.
func commands(t testing.TB, server *testserver.Redis) int {
	t.Helper()
	text := must.Get(bypass(t, server.Addr()).Info(testContext(t), "stats").Result())(t)
	var n int
	must.Get(fmt.Sscan(parseInfo(text)["total_commands_processed"], &n))(t)
	return n
}

// It prints the cost of an idle fleet and the time in which it wakes; the
// figures depend on the machine, so none is a limit.
func TestIdleFleetCost(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 200 servers")
	}
	t.Parallel()
	server := startRedis(t)
	conn := mustOpen(t, server.URL())
	b := conn.Broker()
	const fleet, stage, stages = 200, 4, 40
	for i := range fleet {
		serve(t, conn, fmt.Sprintf("w%03d", i), echo)
	}
	ctx := testContext(t)
	must.Await(t, "all are up", func() bool {
		workers, err := b.Workers(ctx)
		return err == nil && len(workers) == fleet
	})
	before, window := commands(t, server), 2*time.Second
	time.Sleep(window) // the measured time itself
	rate := float64(commands(t, server)-before) / window.Seconds() / fleet
	var took []time.Duration
	for i := range stages {
		start := time.Now()
		for j := range stage {
			enqueue(t, b, fmt.Sprintf("s%d.%d", i, j))
		}
		await(t, b, stage)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("%d idle servers: %.1f commands a second each; a stage of %d from enqueuing to the last report: median %v, 90%% %v",
		fleet, rate, stage, took[stages/2], took[stages*9/10])
}
