package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
)

// waits is told of every wait for a wake token that begins, and counts how often a
// server asks for a task.
type waits struct {
	begun chan struct{}
	asked atomic.Int64
	lease atomic.Int64 // that was asked for last, in Unix seconds
}

func (h *waits) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *waits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h *waits) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch args := cmd.Args(); {
		case cmd.Name() == "blpop":
			h.begun <- struct{}{}
		case len(args) > 3 && args[3] == pendingKey("compute"):
			h.asked.Add(1)
			if lease, ok := args[len(args)-2].(int64); ok {
				h.lease.Store(lease)
			}
		}
		return next(ctx, cmd)
	}
}

// watchWaits observes the consumers that are started on the connection from now on.
func watchWaits(conn *Conn) *waits {
	h := &waits{begun: make(chan struct{}, 100)}
	dial := conn.dial
	conn.dial = func() *redis.Client {
		c := dial()
		c.AddHook(h)
		return c
	}
	return h
}

func TestIdleWorkerPollsOnlyWhenWoken(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		h := watchWaits(conn)
		serve(t, conn, "w", echo)
		const tokens = 10
		for range tokens {
			if !h.awaitOne(t) {
				broke(t, asksByScript, "an idle server does not wait")
			}
			must.Do(t, conn.client.LPush(testContext(t), wakeKey("compute"), 1).Err())
		}
		// Each token makes it ask twice, before the next wait and after the token. Redis
		// does not know the script at first, which costs two more.
		if n := h.asked.Load(); n > 2*tokens+2 {
			broke(t, asksByScript, fmt.Sprintf("an idle server asked %d times with %d tokens", n, tokens))
		}
		if left := time.Until(time.Unix(h.lease.Load(), 0)); left < 10*wakeWait {
			broke(t, longLease, fmt.Sprintf("it lasts %s from when the server asks", left))
		}
	})
}

// awaitOne reports whether a wait begins.
func (h *waits) awaitOne(t testing.TB) bool {
	t.Helper()
	select {
	case <-h.begun:
		return true
	case <-testContext(t).Done():
		return false
	}
}

// A worker that takes a message without having waited leaves a token. Tokens are
// bounded, and the next waiting workers take them.
func TestWakeTokensAreBounded(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, conn *Conn) {
		b := conn.Broker()
		const n = maxTokens + 50
		must.Do(t, b.Enqueue(testContext(t), manyMessages(n)...))
		left := func() int64 {
			return must.Get(conn.client.LLen(testContext(t), wakeKey("compute")).Result())(t)
		}
		if n := left(); n != maxTokens {
			t.Errorf("there are %d tokens, want %d", n, maxTokens)
		}
		serve(t, conn, "w", echo)
		await(t, b, n)
		must.Await(t, "the tokens are taken", func() bool { return left() == 0 })
	})
}

func manyMessages(n int) []Message {
	var messages []Message
	for i := range n {
		messages = append(messages, compute(fmt.Sprintf("m%03d", i)))
	}
	return messages
}
