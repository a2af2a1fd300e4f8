package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"coalmine/internal/must"
)

const patience = 20 * time.Second

// testContext ends with the test, or when its patience does.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// testConsumer is a consumer that runs until the test ends.
type testConsumer struct {
	id     string
	cancel context.CancelFunc
	done   chan struct{}
}

// serve starts a consumer with two slots for class "compute".
func serve(t testing.TB, conn *Conn, id string, handler func(ctx context.Context, m Message) []byte, change ...func(*ConsumerConfig)) *testConsumer {
	t.Helper()
	cfg := ConsumerConfig{
		Worker:  Worker{ID: id, Host: "test", Classes: []string{"compute"}, Kinds: []string{"echo@1"}, Keys: []string{"5ec4e7"}, Slots: 2},
		Handler: handler,
		Log:     slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &testConsumer{id: id, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		if err := conn.Serve(ctx, cfg); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(c.stop)
	return c
}

func (c *testConsumer) stop() {
	c.cancel()
	<-c.done
}

func echo(_ context.Context, m Message) []byte { return m.Payload }

func compute(id string) Message { return Message{ID: id, Class: "compute", Payload: []byte("p-" + id)} }

func enqueue(t testing.TB, b *Broker, ids ...string) {
	t.Helper()
	for _, id := range ids {
		must.Do(t, b.Enqueue(testContext(t), compute(id)))
	}
}

// await collects n reports that are no nudges.
func await(t testing.TB, b *Broker, n int) []Report {
	t.Helper()
	ctx := testContext(t)
	var got []Report
	for len(got) < n {
		reports, err := b.Reports(ctx, time.Second)
		if ctx.Err() != nil {
			t.Fatalf("%d reports, want %d", len(got), n)
		}
		if err != nil {
			continue // Redis may be away in some tests
		}
		for _, r := range reports {
			if !r.IsNudge() {
				got = append(got, r)
			}
		}
	}
	return got
}

// awaitEach reads reports until each of the ids has been reported at least once.
func awaitEach(t testing.TB, b *Broker, ids ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	for len(missing) > 0 {
		for _, r := range await(t, b, 1) {
			delete(missing, r.ID)
		}
	}
}

func TestEveryMessageIsHandledOnceAndReported(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		serve(t, conn, "w1", echo)
		serve(t, conn, "w2", echo)
		const n = 40
		for i := range n {
			enqueue(t, b, fmt.Sprintf("m%02d", i))
		}
		reports := await(t, b, n)
		slices.SortFunc(reports, func(x, y Report) int { return slices.Compare([]byte(x.ID), []byte(y.ID)) })
		for i, r := range reports {
			if id := fmt.Sprintf("m%02d", i); r.ID != id || string(r.Body) != "p-"+id || (r.Worker != "w1" && r.Worker != "w2") {
				t.Errorf("report %d is %+v", i, r)
			}
		}
		must.Await(t, "asynq forgets the tasks", func() bool {
			info, err := b.inspector.GetQueueInfo(queueName("compute"))
			return err == nil && info.Size == 0
		})
	})
}

// gate is a handler that reports who entered and waits to be let go.
type gate struct {
	entered chan string
	leave   chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan string, 100), leave: make(chan struct{})} }

func (g *gate) handle(ctx context.Context, m Message) []byte {
	g.entered <- m.ID
	select {
	case <-g.leave:
		return []byte("left")
	case <-ctx.Done():
		return []byte(context.Cause(ctx).Error())
	}
}

func (g *gate) awaitEntry(t testing.TB) string {
	t.Helper()
	select {
	case id := <-g.entered:
		return id
	case <-testContext(t).Done():
		t.Fatal("no handler was called")
		return ""
	}
}

func TestEnqueueIsIdempotent(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		enqueue(t, b, "a", "a") // pending
		serve(t, conn, "w", g.handle)
		g.awaitEntry(t)
		enqueue(t, b, "a") // running
		close(g.leave)
		await(t, b, 1)
		enqueue(t, b, "end")
		if next := g.awaitEntry(t); next != "end" {
			t.Errorf("message %q was handled again", next)
		}
		await(t, b, 1)
	})
}

func TestArchivedMessageIsSentAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		var once sync.Once
		serve(t, conn, "w", func(ctx context.Context, m Message) []byte {
			once.Do(func() { panic("a handler's own fault") }) // asynq recovers and archives
			return m.Payload
		})
		enqueue(t, b, "a")
		must.Await(t, "the message is archived", func() bool {
			archived, err := b.inspector.ListArchivedTasks(queueName("compute"))
			return err == nil && len(archived) == 1
		})
		if withdrawn, err := b.Withdraw(testContext(t), "a"); err != nil || withdrawn {
			t.Errorf("Withdraw = %v, %v: want false, for a worker has taken it", withdrawn, err)
		}
		enqueue(t, b, "a")
		await(t, b, 1)
	})
}

func TestKnownAndWithdraw(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		ctx, b, g := testContext(t), conn.Broker(), newGate()
		serve(t, conn, "w", g.handle, func(cfg *ConsumerConfig) { cfg.Worker.Slots = 1 })
		enqueue(t, b, "running")
		g.awaitEntry(t)
		enqueue(t, b, "pending")
		must.Await(t, "the running and the pending message are known, once a heartbeat lists the first", func() bool {
			known, err := b.Known(ctx, []string{"running", "pending", "never"})
			return err == nil && len(known) == 2 && known["running"] && known["pending"]
		})
		for id, want := range map[string]bool{"running": false, "pending": true, "never": false} {
			if got, err := b.Withdraw(ctx, id); err != nil || got != want {
				t.Errorf("Withdraw(%s) = %v, %v: want %v", id, got, err, want)
			}
		}
		close(g.leave)
		if r := await(t, b, 1); r[0].ID != "running" {
			t.Errorf("%q was reported", r[0].ID)
		}
		enqueue(t, b, "pending") // nothing of the withdrawn one is in the way
		await(t, b, 1)
	})
}

func TestStopEndsTheHandlersContextWithItsCause(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		serve(t, conn, "w", g.handle)
		enqueue(t, b, "a", "b")
		g.awaitEntry(t)
		g.awaitEntry(t)
		must.Do(t, b.Stop(testContext(t), "a"))
		if r := await(t, b, 1)[0]; r.ID != "a" || string(r.Body) != ErrStopped.Error() {
			t.Errorf("report %q of %s, want that it was stopped", r.Body, r.ID)
		}
		must.Await(t, "asynq forgets the first", func() bool {
			state, err := b.state(queueName("compute"), "a")
			return err == nil && state == gone
		})
		// Wanted again: the old request no longer counts.
		enqueue(t, b, "a")
		g.awaitEntry(t)
		if n, err := conn.client.Exists(testContext(t), stopKey("a")).Result(); err != nil || n != 0 {
			t.Errorf("stop request still there: %d, %v", n, err)
		}
		close(g.leave)
		for _, r := range await(t, b, 2) {
			if string(r.Body) != "left" {
				t.Errorf("report %q of %s", r.Body, r.ID)
			}
		}
	})
}

func TestHeartbeatsDescribeTheWorker(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		c := serve(t, conn, "w", g.handle, func(cfg *ConsumerConfig) {
			cfg.Progress = func(id string) Progress { return Progress{Done: 3, Total: 9, Tokens: 27} }
			cfg.Memory = func() Memory { return Memory{Used: 5, Limit: 7} }
		})
		enqueue(t, b, "a")
		g.awaitEntry(t)
		var w Worker
		must.Await(t, "the attempt is listed", func() bool {
			workers, err := b.Workers(testContext(t))
			if err != nil || len(workers) != 1 {
				return false
			}
			w = workers[0]
			return len(w.Running) == 1
		})
		r := w.Running[0]
		if w.ID != "w" || w.Host != "test" || w.Slots != 2 || w.Draining || !slices.Equal(w.Kinds, []string{"echo@1"}) || !slices.Equal(w.Keys, []string{"5ec4e7"}) || !slices.Equal(w.Classes, []string{"compute"}) {
			t.Errorf("worker %+v", w)
		}
		if want := (Memory{Used: 5, Limit: 7}); w.Memory != want {
			t.Errorf("memory %+v, want %+v", w.Memory, want)
		}
		if r.ID != "a" || r.Done != 3 || r.Total != 9 || r.Tokens != 27 {
			t.Errorf("running %+v", r)
		}
		close(g.leave)
		c.stop()
		if workers, err := b.Workers(testContext(t)); err != nil || len(workers) != 0 {
			t.Errorf("after the goodbye: %v, %v", workers, err)
		}
	})
}

func TestShutdownLetsHandlersFinishAndStopsTheRest(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, quick, slow := conn.Broker(), newGate(), newGate()
		c := serve(t, conn, "w", func(ctx context.Context, m Message) []byte {
			if m.ID == "quick" {
				return quick.handle(ctx, m)
			}
			return slow.handle(ctx, m)
		}, func(cfg *ConsumerConfig) { cfg.Grace = time.Second })
		enqueue(t, b, "quick", "slow")
		quick.awaitEntry(t)
		slow.awaitEntry(t)
		c.cancel()
		must.Await(t, "the worker drains", func() bool {
			workers, err := b.Workers(testContext(t))
			return err == nil && len(workers) == 1 && workers[0].Draining
		})
		enqueue(t, b, "late")
		close(quick.leave)
		<-c.done
		bodies := map[string]string{}
		for _, r := range await(t, b, 2) {
			bodies[r.ID] = string(r.Body)
		}
		if bodies["quick"] != "left" || bodies["slow"] != ErrShutdown.Error() {
			t.Errorf("reports %v", bodies)
		}
		if known, err := b.Known(testContext(t), []string{"late"}); err != nil || !known["late"] {
			t.Errorf("the message that came too late is gone: %v, %v", known, err)
		}
	})
}

// A drained worker finishes its tasks, takes no new ones, and ends by itself.
func TestDrainedWorkerFinishesItsTasksAndEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, slow := conn.Broker(), newGate()
		c := serve(t, conn, "w1", slow.handle)
		enqueue(t, b, "slow")
		slow.awaitEntry(t)
		must.Do(t, b.Drain(testContext(t), "w1"))
		must.Await(t, "the worker drains", func() bool {
			workers, err := b.Workers(testContext(t))
			return err == nil && len(workers) == 1 && workers[0].Draining
		})
		enqueue(t, b, "late")
		close(slow.leave)
		<-c.done
		if got := await(t, b, 1); got[0].ID != "slow" || string(got[0].Body) != "left" {
			t.Errorf("reports %v, want that of the message that it had", got)
		}
		serve(t, conn, "w2", echo)
		if got := await(t, b, 1); got[0].ID != "late" || got[0].Worker != "w2" {
			t.Errorf("reports %v, want that of the next worker", got)
		}
	})
}

// A worker that drains outlasts an absence of Redis like any other; one that must
// end gives up its reports sooner.
func TestShutdownShortensReportPatience(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(testContext(t))
	s := newConsumer(ctx, mustEmbed(t), ConsumerConfig{Worker: Worker{ID: "w"}})
	s.drainOnce()
	s.stopTaking(nil)
	if got := s.patience(); got != reportPatience {
		t.Errorf("a draining worker offers a report for %s, want %s", got, reportPatience)
	}
	stop()
	if got := s.patience(); got != shutdownPatience {
		t.Errorf("a worker that must end offers a report for %s, want %s", got, shutdownPatience)
	}
}

func TestReportsEndWithContextAndKeepNudges(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := b.Reports(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if reports, err := b.Reports(testContext(t), time.Millisecond); err != nil || len(reports) != 0 {
			t.Errorf("Reports = %v, %v", reports, err)
		}
		must.Do(t, b.Nudge(testContext(t)))
		reports, err := b.Reports(testContext(t), patience)
		if err != nil || len(reports) != 1 || !reports[0].IsNudge() {
			t.Errorf("Reports = %v, %v: want one nudge", reports, err)
		}
	})
}

// A reader that stops leaves nothing behind that could swallow a report: all go
// to the next reader, in their order.
func TestEndedBrokerLeavesReportsToNext(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		for round := range 20 {
			ctx, cancel := context.WithCancel(context.Background())
			former, ended := conn.Broker(), make(chan error, 1)
			if reports, err := former.Reports(ctx, time.Duration(round)*time.Millisecond); err != nil || len(reports) != 0 || former.popping == nil {
				t.Fatalf("Reports = %v, %v: want none, and a wait under way", reports, err)
			}
			go func() {
				_, err := former.Reports(ctx, time.Hour)
				ended <- err
			}()
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) || former.popping != nil {
				t.Fatalf("error %v, wait under way: %t", err, former.popping != nil)
			}
			sent := []string{fmt.Sprint(round, "a"), fmt.Sprint(round, "b")}
			for _, id := range sent {
				push(t, conn, Report{ID: id})
			}
			if got := await(t, conn.Broker(), 2); got[0].ID != sent[0] || got[1].ID != sent[1] {
				t.Fatalf("the next broker got %v, want %v", got, sent)
			}
		}
	})
}

// A message that a pop took just before its end goes back to its place.
func TestReportPoppedAtEndIsReturned(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		former := conn.Broker()
		push(t, conn, Report{ID: "a"})
		former.popping = conn.popReport()
		must.Await(t, "the report is taken", func() bool { return len(former.popping.result) == 1 })
		push(t, conn, Report{ID: "b"})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if reports, err := former.Reports(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Fatalf("Reports = %v, %v", reports, err)
		}
		if got := await(t, conn.Broker(), 2); got[0].ID != "a" || got[1].ID != "b" {
			t.Errorf("the next broker got %v, want a and b", got)
		}
	})
}

func push(t testing.TB, conn *Conn, r Report) {
	t.Helper()
	must.Do(t, conn.client.RPush(testContext(t), reportsKey, r.encode()).Err())
}

func TestLeaseHasOneHolder(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		ctx, b := testContext(t), conn.Broker()
		take := func(holder string, ttl time.Duration, want bool) {
			t.Helper()
			if got, err := b.Lease(ctx, "leader", holder, ttl); err != nil || got != want {
				t.Errorf("Lease(%s) = %v, %v: want %v", holder, got, err, want)
			}
		}
		take("a", time.Minute, true)
		take("b", time.Minute, false)
		take("a", time.Minute, true)
		if err := b.Release(ctx, "leader", "b"); err != nil {
			t.Error(err)
		}
		take("b", time.Minute, false) // b's release was none of its business
		if err := b.Release(ctx, "leader", "a"); err != nil {
			t.Error(err)
		}
		take("b", 50*time.Millisecond, true)
		must.Await(t, "the lease expires", func() bool {
			got, err := b.Lease(ctx, "leader", "a", time.Minute)
			return err == nil && got
		})
	})
}

func TestPublishedDataExpires(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		ctx, b := testContext(t), conn.Broker()
		must.Do(t, b.Publish(ctx, "status", []byte("fine"), time.Second))
		if data, err := b.Published(ctx, "status"); err != nil || string(data) != "fine" {
			t.Errorf("Published = %q, %v", data, err)
		}
		must.Await(t, "it expires", func() bool {
			data, err := b.Published(ctx, "status")
			return err == nil && data == nil
		})
	})
}

func TestBadConsumersAndMessagesAreRejected(t *testing.T) {
	t.Parallel()
	conn := mustEmbed(t)
	if err := conn.Serve(context.Background(), ConsumerConfig{}); err == nil {
		t.Error("an empty config was accepted")
	}
	for _, m := range []Message{{}, {ID: "a"}, {ID: "a b", Class: "c"}, {ID: "a\nb", Class: "c"}} {
		if err := conn.Broker().Enqueue(testContext(t), m); err == nil {
			t.Errorf("message %+v was accepted", m)
		}
	}
}

// A heartbeat of another build does not make its worker look dead.
func TestWorkerWithUnreadableHeartbeatIsAlive(t *testing.T) {
	t.Parallel()
	conn := mustEmbed(t)
	ctx := testContext(t)
	must.Do(t, conn.client.SAdd(ctx, workersKey, "w1").Err())
	must.Do(t, conn.client.Set(ctx, workerKey("w1"), `{"id":"w1","slots":"four"}`, time.Minute).Err())
	for range 2 {
		workers, err := conn.Broker().Workers(ctx)
		if err != nil || len(workers) != 1 || workers[0].ID != "w1" || !workers[0].Unreadable {
			t.Fatalf("workers %+v, %v", workers, err)
		}
	}
}
