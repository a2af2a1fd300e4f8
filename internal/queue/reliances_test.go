package queue

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
)

// checkedVersion is the version of asynq that the reliances were checked against.
const checkedVersion = "v0.26.0"

// A reliance is on a behaviour of asynq that its documentation does not promise.
type reliance struct{ file, on string }

var (
	asksByScript     = reliance{"wake.go", "a server asks for a task by EvalSha, of a script whose first key is asynq:{queue}:pending, and takes nil for an empty queue"}
	longLease        = reliance{"wake.go", "the second argument from the end of that script is when the lease of the task ends, counted from before the server asks, and is far away against a wait for a token"}
	slotKept         = reliance{"server.go", "the slot of a task that is given up while its handler runs is free only when the error handler returns"}
	enqueuesByScript = reliance{"enqueue.go", "a client enqueues a task by one EvalSha, which answers 1 if it was taken and 0 if there is one of its ID, and by nothing else but SAdd, by which it names the queue"}
	namesQueues      = reliance{"enqueue.go", "a new client names its queue at its first task, and the inspector finds no queue without"}
	saysNotFound     = reliance{"server.go", "the log says NOT FOUND of a task that ends after Redis has forgotten it"}
)

var reliances = []reliance{asksByScript, longLease, slotKept, enqueuesByScript, namesQueues, saysNotFound}

func (r reliance) String() string { return "internal/queue/" + r.file + " relies on this: " + r.on }

// broke fails a test because asynq behaves otherwise than relied on.
func broke(t *testing.T, r reliance, found string) {
	t.Helper()
	t.Fatalf("%s (checked against asynq %s). Now %s", r, checkedVersion, found)
}

func TestAsynqVersionMatchesCheckedVersion(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../go.mod"))(t)
	found := regexp.MustCompile(`(?m)^\s*github\.com/hibiken/asynq (\S+)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("go.mod names no version of asynq")
	}
	version := string(found[1])
	if version == checkedVersion {
		return
	}
	for _, r := range reliances {
		t.Errorf("%s (checked against asynq %s, go.mod has %s)", r, checkedVersion, version)
	}
	t.Error("read what has changed in asynq; when all tests of this package pass, set checkedVersion")
}

// A message that asynq gives up keeps its slot until its handler returns. A lost lease
// takes half a minute without Redis; asynq treats a cancelled task the same.
func TestSlotStaysTakenAfterAsynqGivesUp(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		given := make(chan struct{})
		serve(t, conn, "w", g.handle, func(cfg *ConsumerConfig) {
			cfg.Worker.Slots = 1
			cfg.Log = slog.New(&awaitedLog{Handler: slog.DiscardHandler, message: slotStaysTaken, seen: given})
		})
		enqueue(t, b, "long")
		g.awaitEntry(t)
		enqueue(t, b, "next")
		cancelUntil(t, b, "long", given)
		select {
		case id := <-g.entered:
			broke(t, slotKept, id+" is handled beside it")
		case <-time.After(300 * time.Millisecond): // that nothing happens has no event
		}
		close(g.leave)
		awaitEach(t, b, "long", "next")
		archived, err := b.inspector.ListArchivedTasks(queueName("compute"))
		if err != nil || len(archived) != 1 {
			broke(t, slotKept, "a cancelled task is not given up, and this test shows nothing")
		}
	})
}

// awaitedLog closes seen at the first record with the message.
type awaitedLog struct {
	slog.Handler
	message string
	seen    chan struct{}
	once    sync.Once
}

func (l *awaitedLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *awaitedLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *awaitedLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == l.message {
		l.once.Do(func() { close(l.seen) })
	}
	return nil
}

// cancelUntil has asynq cancel a task until it shows: a server that has not subscribed yet
// does not hear of it.
func cancelUntil(t *testing.T, b *Broker, id string, seen <-chan struct{}) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		must.Do(t, b.inspector.CancelProcessing(id))
		select {
		case <-seen:
			return
		case <-again.C:
		case <-testContext(t).Done():
			broke(t, slotKept, "a cancelled task is not given up")
		}
	}
}

// trips counts the round trips of a client.
type trips struct{ single, pipelines atomic.Int64 }

func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.single.Add(1)
		return next(ctx, cmd)
	}
}
func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.pipelines.Add(1)
		return next(ctx, cmds)
	}
}

func TestEnqueueTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		enqueue(t, b, "first") // and has Redis learn the script
		var h trips
		conn.client.AddHook(&h)
		must.Do(t, b.Enqueue(testContext(t), manyMessages(100)...))
		if single, pipelines := h.single.Load(), h.pipelines.Load(); single != 0 || pipelines != 1 {
			broke(t, enqueuesByScript, fmt.Sprintf("100 tasks take %d commands and %d pipelines", single, pipelines))
		}
		// One conflicts, and one is new.
		must.Do(t, b.Enqueue(testContext(t), compute("first"), compute("last")))
		if info, err := b.inspector.GetQueueInfo(queueName("compute")); err != nil || info.Pending != 102 {
			broke(t, enqueuesByScript, fmt.Sprintf("of 102 messages these are pending: %+v (%v)", info, err))
		}
	})
}

func TestFlushedScriptIsSentAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		serve(t, conn, "w", echo)
		enqueue(t, b, "a")
		await(t, b, 1)
		must.Do(t, conn.client.ScriptFlush(testContext(t)).Err())
		must.Do(t, b.Enqueue(testContext(t), compute("b"), compute("c")))
		awaitEach(t, b, "b", "c")
	})
}

func TestQueueIsFoundAfterFlush(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		enqueue(t, b, "a")
		flush(t, conn)
		enqueue(t, b, "b")
		if known, err := b.Known(testContext(t), []string{"a", "b"}); err != nil || known["a"] || !known["b"] {
			broke(t, namesQueues, fmt.Sprintf("of a, which was flushed, and b these are known: %v (%v)", known, err))
		}
	})
}

// syncBuffer is written by several goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestEndAfterFlushDoesNotWarn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g, out := conn.Broker(), newGate(), new(syncBuffer)
		log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c := serve(t, conn, "w", g.handle, func(cfg *ConsumerConfig) { cfg.Log = log })
		enqueue(t, b, "a")
		g.awaitEntry(t)
		flush(t, conn)
		close(g.leave)
		await(t, b, 1)
		c.stop()
		if !strings.Contains(out.String(), "NOT FOUND") {
			broke(t, saysNotFound, "it says this:\n"+out.String())
		}
		if strings.Contains(out.String(), "level=WARN") {
			t.Errorf("the log warns:\n%s", out)
		}
	})
}
