package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// takings counts the round trips of a client in which it asks for tasks, and how
// often it asks.
type takings struct{ trips, asked atomic.Int64 }

func (h *takings) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h *takings) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *takings) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var asked int64
		for _, cmd := range cmds {
			if args := cmd.Args(); len(args) > 3 && args[3] == asynqKey("compute", "pending") {
				asked++
			}
		}
		if asked > 0 {
			h.trips.Add(1)
			h.asked.Add(asked)
		}
		return next(ctx, cmds)
	}
}

func manyMessages(n int) []Message {
	var messages []Message
	for i := range n {
		messages = append(messages, compute(fmt.Sprintf("m%03d", i)))
	}
	return messages
}

func TestABacklogIsTakenInFewRoundTrips(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, g := conn.Broker(), newGate()
		if err := b.Enqueue(testContext(t), manyMessages(100)...); err != nil {
			t.Fatal(err)
		}
		var taken takings
		conn.client.AddHook(&taken)
		const slots = 64
		serve(t, conn, "w", g.handle, func(cfg *ConsumerConfig) { cfg.Slots = slots })
		last := fmt.Sprintf("m%03d", slots-1)
		for range slots {
			if id := g.awaitEntry(t); id > last {
				t.Errorf("handlers have %s before all up to %s", id, last)
			}
		}
		// One that finds that Redis does not know the script, then 1, 32 and 31.
		if n := taken.trips.Load(); n > 4 {
			t.Errorf("%d tasks were taken in %d round trips", slots, n)
		}
		if n := taken.asked.Load(); n > slots+1 {
			t.Errorf("%d tasks were taken by asking %d times", slots, n)
		}
		if n, err := conn.client.LLen(testContext(t), asynqKey("compute", "active")).Result(); err != nil || n != slots {
			t.Errorf("%d tasks were taken for %d slots (%v)", n, slots, err)
		}
		close(g.leave)
		await(t, b, 100)
	})
}

// A worker that stops while it has tasks in hand reports each, so that none waits
// for somebody to miss it.
func TestAStopLeavesNothingInHand(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 4, 10, 20, 40} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			conn := mustOpen(t, startRedis(t).URL())
			b, g := conn.Broker(), newGate()
			if err := b.Enqueue(testContext(t), manyMessages(100)...); err != nil {
				t.Fatal(err)
			}
			var entered atomic.Int64
			stopping, stop := context.WithCancel(testContext(t))
			c := serve(t, conn, "w", func(ctx context.Context, m Message) []byte {
				if entered.Add(1) == int64(after) {
					stop()
				}
				return g.handle(ctx, m)
			}, func(cfg *ConsumerConfig) { cfg.Slots = 64 })
			<-stopping.Done()
			c.stop()
			await(t, b, int(entered.Load()))
			ctx := testContext(t)
			active, err := conn.client.LRange(ctx, asynqKey("compute", "active"), 0, -1).Result()
			if err != nil || len(active) > 0 {
				t.Errorf("%d messages were taken by nobody: %v (%v)", len(active), active, err)
			}
			pending, err := conn.client.LLen(ctx, asynqKey("compute", "pending")).Result()
			if err != nil || pending+entered.Load() != 100 {
				t.Errorf("%d messages are pending and %d were handled, of 100 (%v)", pending, entered.Load(), err)
			}
		})
	}
}
