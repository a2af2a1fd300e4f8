package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/goroutines"
)

// maxTokens limits the wake tokens of a class. A worker that finds tasks without waiting leaves their
// tokens, each of which costs another worker a check of an empty queue.
const maxTokens = 256

// pushTokens pushes a wake token for each message, and removes stop requests for
// earlier messages with the same IDs.
func pushTokens(ctx context.Context, pipe redis.Pipeliner, messages []Message) {
	tokens := make(map[string][]any)
	var stops []string
	for _, m := range messages {
		tokens[m.Class] = append(tokens[m.Class], 1)
		stops = append(stops, stopKey(m.ID))
	}
	pipe.Del(ctx, stops...)
	for class, ones := range tokens {
		pipe.LPush(ctx, wakeKey(class), ones...)
		pipe.LTrim(ctx, wakeKey(class), 0, maxTokens-1)
	}
}

// wake pushes the tokens of individually enqueued messages.
func (b *Broker) wake(ctx context.Context, messages []Message) error {
	_, err := b.conn.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		pushTokens(ctx, p, messages)
		return nil
	})
	if err != nil {
		return fmt.Errorf("waking workers for %d messages, the first %s: %w", len(messages), messages[0].ID, err)
	}
	return nil
}

// wakingClient is the Redis client of one asynq server. It turns the server's poll of
// an empty queue into a wait: it reports an empty queue only after it has blocked in
// BLPOP for a wake token and checked once more.
//
// Redis gives each token to one waiter, so a new task wakes only one server. A token
// is taken before the check, so no token is lost while a task waits.
//
// asynq computes the lease of a task before it asks, so a wait must be short compared
// with the 30 seconds of a lease.
type wakingClient struct {
	redis.UniversalClient
	pending string        // asynq's key of the pending tasks
	tokens  string        // the key of the wake tokens
	waiter  *redis.Client // only for BLPOP; closed to end a wait

	stopped context.Context // ends waits
	stop    func()
}

const (
	// wakeWait limits one wait for a token: a lost token delays a task by this long.
	// BLPOP takes whole seconds.
	wakeWait = 2 * time.Second
	// errorPause prevents asynq, which retries at once, from spinning while Redis is away.
	errorPause = 250 * time.Millisecond
)

func newWakingClient(class string, client, waiter *redis.Client) *wakingClient {
	c := &wakingClient{UniversalClient: client, pending: pendingKey(class), tokens: wakeKey(class), waiter: waiter}
	var endWaits context.CancelFunc
	c.stopped, endWaits = context.WithCancel(context.Background())
	c.stop = sync.OnceFunc(func() {
		endWaits()
		_ = waiter.Close() // interrupts the BLPOP, which a context cannot
	})
	return c
}

// pendingKey returns asynq's key of the pending tasks of a class. It is the first key
// of the script that fetches a task, and of no other script that answers nil.
func pendingKey(class string) string { return "asynq:{" + queueName(class) + "}:pending" }

// EvalSha implements redis.Scripter, with which asynq runs its scripts.
func (c *wakingClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	answer := c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	if len(keys) == 0 || keys[0] != c.pending {
		return answer
	}
	switch err := answer.Err(); {
	case err == nil, redis.HasErrorPrefix(err, "NOSCRIPT"):
	case !errors.Is(err, redis.Nil):
		_ = goroutines.Sleep(c.stopped, errorPause)
	case c.awaitToken():
		return c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	return answer
}

// awaitToken waits for a wake token and reports whether one came.
func (c *wakingClient) awaitToken() bool {
	if c.stopped.Err() != nil {
		return false
	}
	err := c.waiter.BLPop(c.stopped, wakeWait, c.tokens).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		_ = goroutines.Sleep(c.stopped, errorPause)
	}
	return err == nil
}
