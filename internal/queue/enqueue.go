package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// taskType is asynq's type name of all messages.
const taskType = "attempt"

// noTimeout stands for no timeout: asynq always has one, half an hour by default.
const noTimeout = 10 * 365 * 24 * time.Hour

// Enqueue puts the messages into the queues of their classes, in order, and wakes
// workers for them. It does not change a message with an ID that is already pending or
// running. After an error some may have been sent.
func (b *Broker) Enqueue(ctx context.Context, messages ...Message) error {
	if len(messages) == 0 {
		return nil
	}
	for _, m := range messages {
		if m.ID == "" || m.Class == "" || strings.ContainsAny(m.ID, " \n") {
			return fmt.Errorf("message %q of class %q: want an ID without spaces, and a class", m.ID, m.Class)
		}
	}
	rest, err := b.enqueueTogether(ctx, messages)
	if err != nil {
		return fmt.Errorf("enqueuing %d messages, the first %s: %w", len(messages), messages[0].ID, err)
	}
	if len(rest) == 0 {
		return nil
	}
	client := asynq.NewClientFromRedisClient(b.conn.client)
	for _, m := range rest {
		if err := b.enqueueAlone(ctx, client, m); err != nil {
			return fmt.Errorf("enqueuing %s: %w", m.ID, err)
		}
	}
	return b.wake(ctx, rest)
}

// enqueueTogether makes asynq enqueue the messages and wakes one worker for each, in
// one round trip. It returns the messages that were not accepted: their IDs conflict,
// or Redis does not yet have the script.
func (b *Broker) enqueueTogether(ctx context.Context, messages []Message) (rest []Message, err error) {
	c := &pipelineClient{UniversalClient: b.conn.client, pipe: b.conn.client.Pipeline()}
	// An asynq client registers each queue once. A new client registers it again: for
	// the inspector, a queue does not exist if a flush removed its name.
	client := asynq.NewClientFromRedisClient(c)
	for _, m := range messages {
		if err := enqueueOnce(ctx, client, m); err != nil {
			return nil, err
		}
	}
	pushTokens(ctx, c.pipe, messages)
	if _, err := c.pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return nil, err
	}
	for i, sent := range c.sent {
		if taken, err := sent.Bool(); err != nil || !taken {
			rest = append(rest, messages[i])
		}
	}
	return rest, nil
}

func enqueueOnce(ctx context.Context, client *asynq.Client, m Message) error {
	_, err := client.EnqueueContext(ctx, asynq.NewTask(taskType, m.Payload),
		asynq.TaskID(m.ID), asynq.Queue(queueName(m.Class)), asynq.MaxRetry(0), asynq.Timeout(noTimeout))
	return err
}

// pipelineClient is the Redis client of an asynq client that enqueues several tasks. asynq needs a round
// trip for each; this client collects them in a pipeline and reports each as accepted.
type pipelineClient struct {
	redis.UniversalClient
	pipe redis.Pipeliner
	sent []*redis.Cmd // by task
}

// EvalSha implements redis.Scripter, with which asynq enqueues a task.
func (c *pipelineClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	c.sent = append(c.sent, c.pipe.EvalSha(ctx, sha, keys, args...))
	taken := redis.NewCmd(ctx)
	taken.SetVal(int64(1))
	return taken
}

// SAdd implements redis.SetCmdable, with which asynq registers its queues.
func (c *pipelineClient) SAdd(ctx context.Context, key string, members ...any) *redis.IntCmd {
	return c.pipe.SAdd(ctx, key, members...)
}

// enqueueAlone gives a message to asynq, and replaces a finished one with the same ID.
func (b *Broker) enqueueAlone(ctx context.Context, client *asynq.Client, m Message) error {
	err := enqueueOnce(ctx, client, m)
	if !errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	if makesWay, err := b.discard(m); err != nil || !makesWay {
		return err
	}
	if err := enqueueOnce(ctx, client, m); !errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	return nil // another process has just sent it
}

// discard deletes asynq's record of a finished message, and reports whether it is
// gone. A pending or active message stays.
func (b *Broker) discard(m Message) (bool, error) {
	queue := queueName(m.Class)
	switch state, err := b.state(queue, m.ID); {
	case err != nil, state == asynq.TaskStatePending, state == asynq.TaskStateActive:
		return false, err
	case state == gone:
		return true, nil
	}
	if err := b.inspector.DeleteTask(queue, m.ID); err != nil && !isGone(err) {
		return false, err
	}
	return true, nil
}
