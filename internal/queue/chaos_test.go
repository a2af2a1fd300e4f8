package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

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
			WorkerID: "victim", Classes: []string{"compute"}, Slots: 2,
			Handler: func(context.Context, Message) []byte { select {} },
		})
	}
	fmt.Fprintln(os.Stderr, "worker ended:", err)
	os.Exit(1)
}

func TestAKilledWorkerIsSeenAsGone(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	conn := mustOpen(t, server.URL())
	b := conn.Broker()
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), serveVariable+"="+server.URL())
	victim.Stderr = os.Stderr
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Process.Kill() })
	enqueue(t, b, "k.1")
	running := func() []string {
		workers, err := b.Workers(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, w := range workers {
			for _, r := range w.Running {
				ids = append(ids, w.ID+" "+r.ID)
			}
		}
		return ids
	}
	eventually(t, "the victim works", func() bool { return slices.Equal(running(), []string{"victim k.1"}) })
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	killed := time.Now()
	eventually(t, "its heartbeat expires", func() bool {
		known, err := b.Known(testContext(t), []string{"k.1"})
		return err == nil && len(running()) == 0 && !known["k.1"]
	})
	t.Logf("seen as gone after %v (meant to be at most 4 s)", time.Since(killed).Round(10*time.Millisecond))
	// The coordinator goes on with the next attempt.
	if err := b.Forget(testContext(t), "k.1"); err != nil {
		t.Fatal(err)
	}
	serve(t, conn, "heir", echo)
	enqueue(t, b, "k.2")
	if r := await(t, b, 1)[0]; r.ID != "k.2" || r.Worker != "heir" {
		t.Errorf("report %+v", r)
	}
}

// A worker that is killed between taking a message and its first heartbeat
// leaves what looks like a running attempt for as long as asynq's lease.
func TestAMessageWhoseTakerIsDeadIsSentAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		ctx, b := testContext(t), conn.Broker()
		enqueue(t, b, "a")
		id, err := conn.client.LMove(ctx, asynqKey("compute", "pending"), asynqKey("compute", "active"), "RIGHT", "LEFT").Result()
		if err != nil || id != "a" {
			t.Fatal(id, err)
		}
		leased := func(left time.Duration) {
			p := redis.Z{Member: "a", Score: float64(time.Now().Add(left).Unix())}
			if err := errors.Join(
				conn.client.HSet(ctx, asynqKey("compute", "t:a"), "state", "active").Err(),
				conn.client.ZAdd(ctx, asynqKey("compute", "lease"), p).Err(),
			); err != nil {
				t.Fatal(err)
			}
		}
		leased(asynqLease) // just now: its heartbeat may be on the way
		enqueue(t, b, "a")
		if n, err := conn.client.LLen(ctx, asynqKey("compute", "pending")).Result(); err != nil || n != 0 {
			t.Errorf("%d messages are pending (%v) beside one just taken", n, err)
		}
		leased(asynqLease - 2*heartbeatTTL)
		enqueue(t, b, "a")
		serve(t, conn, "w", echo)
		await(t, b, 1)
	})
}

// Servers take a token with every task, whether they waited for it or not.
func TestTokensDoNotPileUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		for i := range 30 {
			enqueue(t, b, fmt.Sprint(i))
		}
		serve(t, conn, "w", echo)
		await(t, b, 30)
		if n, err := conn.client.LLen(testContext(t), wakeKey("compute")).Result(); err != nil || n != 0 {
			t.Errorf("%d tokens are left (%v)", n, err)
		}
	})
}

func flush(t testing.TB, conn *Conn) {
	t.Helper()
	if err := conn.client.FlushAll(testContext(t)).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestWorkersGoOnAfterAFlush(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		serve(t, conn, "w", g.handle)
		enqueue(t, b, "a")
		g.awaitEntry(t)
		flush(t, conn) // with one running and one slot idle
		enqueue(t, b, "b")
		g.awaitEntry(t)
		eventually(t, "the running attempts are listed again", func() bool {
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

func TestWorkersOutlastAnAbsenceOfRedis(t *testing.T) {
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
	eventually(t, "the worker is back", func() bool {
		workers, err := b.Workers(testContext(t))
		return err == nil && len(workers) == 1
	})
}

func TestAShutdownWithoutRedisEnds(t *testing.T) {
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

// A lease is lost when Redis is away for half a minute; asynq then ends the
// context that it gave the handler, and counts the slot as free.
func TestALostLeaseLeavesTheHandlerAlone(t *testing.T) {
	t.Parallel()
	conn := mustEmbed(t)
	b := conn.Broker()
	enqueue(t, b, "a") // stands for what asynq leaves behind
	cfg := ConsumerConfig{WorkerID: "w", Handler: func(ctx context.Context, m Message) []byte {
		if ctx.Err() != nil {
			t.Error("the handler's context ended with the lease")
		}
		return []byte("done")
	}}
	s := newConsumer(testContext(t), conn, cfg)
	s.reporting = testContext(t)
	lost, lose := context.WithCancel(context.Background())
	lose()
	s.handle(lost, compute("a"))
	if r := await(t, b, 1)[0]; string(r.Body) != "done" {
		t.Errorf("report %+v", r)
	}
	if known, err := b.Known(testContext(t), []string{"a"}); err != nil || known["a"] {
		t.Errorf("the task is still there: %v, %v", known, err)
	}
}

func TestAMessageSentToItsOwnRunnerIsNotRunTwice(t *testing.T) {
	t.Parallel()
	conn := mustEmbed(t)
	g := newGate()
	s := newConsumer(testContext(t), conn, ConsumerConfig{WorkerID: "w", Handler: g.handle})
	s.reporting = testContext(t)
	var first sync.WaitGroup
	first.Go(func() { s.handle(context.Background(), compute("a")) })
	g.awaitEntry(t)
	s.handle(context.Background(), compute("a")) // returns at once
	close(g.leave)
	first.Wait()
	if n := len(g.entered); n != 0 {
		t.Errorf("%d more handlers were entered", n)
	}
}

// commands is how many commands a real server has processed.
func commands(t testing.TB, server *testserver.Redis) int {
	t.Helper()
	text, err := bypass(t, server.Addr()).Info(testContext(t), "stats").Result()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(parseInfo(text)["total_commands_processed"], &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// It prints what an idle fleet costs and how fast it wakes; the figures depend
// on the machine, so none is a limit.
func TestAnIdleFleetIsCheapAndWakesFast(t *testing.T) {
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
	eventually(t, "all are up", func() bool {
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
