package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
)

// taken is told of every task that a server is given.
type taken struct{ tell func() }

func (h taken) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h taken) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h taken) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err == nil && len(args) > 3 && args[3] == pendingKey("compute") {
			h.tell()
		}
		return err
	}
}

// A message may be taken in the moment in which the worker is told to stop, before
// its handler has begun.
func TestMessageTakenDuringStopIsReported(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b, dial := conn.Broker(), conn.dial
		for i := range 20 {
			ctx, stop := context.WithCancel(testContext(t))
			conn.dial = func() *redis.Client {
				c := dial()
				c.AddHook(taken{stop})
				return c
			}
			id := fmt.Sprint(i)
			enqueue(t, b, id)
			err := conn.Serve(ctx, ConsumerConfig{
				Worker:  Worker{ID: id, Classes: []string{"compute"}, Slots: 1},
				Handler: echo, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil || !errors.Is(ctx.Err(), context.Canceled) {
				t.Fatal(err, ctx.Err())
			}
			awaitEach(t, b, id)
		}
	})
}

// A worker that stops while it takes messages reports each that it has taken, so that
// none waits for somebody to miss it.
func TestStopReportsAllTakenMessages(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 4, 10, 20, 40} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			conn := mustOpen(t, startRedis(t).URL())
			b, g := conn.Broker(), newGate()
			must.Do(t, b.Enqueue(testContext(t), manyMessages(100)...))
			var entered atomic.Int64
			stopping, stop := context.WithCancel(testContext(t))
			c := serve(t, conn, "w", func(ctx context.Context, m Message) []byte {
				if entered.Add(1) == int64(after) {
					stop()
				}
				return g.handle(ctx, m)
			}, func(cfg *ConsumerConfig) { cfg.Worker.Slots = 64 })
			<-stopping.Done()
			c.stop()
			await(t, b, int(entered.Load()))
			info := must.Get(b.inspector.GetQueueInfo(queueName("compute")))(t)
			if info.Active > 0 || int64(info.Pending)+entered.Load() != 100 {
				t.Errorf("%d messages are pending, %d were handled and %d were taken by nobody, of 100", info.Pending, entered.Load(), info.Active)
			}
		})
	}
}
