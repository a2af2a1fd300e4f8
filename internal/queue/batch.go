package queue

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// batch sends the scripts by which asynq enqueues tasks in one round trip, where
// asynq would take one for each. It travels in the context of a call; batchHook,
// which sits on the client that asynq enqueues with, finds it there.
type batch struct {
	pipe    redis.Pipeliner
	scripts []*redis.Cmd
}

type batchKey struct{}

// send has asynq enqueue the messages and wakes as many workers, in one round
// trip. It returns the messages that were not taken: their IDs conflict, or Redis
// has to be told the script first.
func (b *Broker) send(ctx context.Context, messages []Message) (rest []Message, err error) {
	batch := &batch{pipe: b.conn.client.Pipeline()}
	collecting := context.WithValue(ctx, batchKey{}, batch)
	for _, m := range messages {
		if err := b.enqueue(collecting, m); err != nil {
			return nil, err
		}
	}
	wake(ctx, batch.pipe, messages)
	if _, err := batch.pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return nil, err
	}
	for i, script := range batch.scripts {
		if taken, err := script.Bool(); err != nil || !taken {
			rest = append(rest, messages[i])
		}
	}
	return rest, nil
}

// enqueue has asynq enqueue a message.
func (b *Broker) enqueue(ctx context.Context, m Message) error {
	_, err := b.asynq.EnqueueContext(ctx, asynq.NewTask(taskType, m.Payload),
		asynq.TaskID(m.ID), asynq.Queue(queueName(m.Class)), asynq.MaxRetry(0), asynq.Timeout(noTimeout))
	return err
}

// maxTokens bounds the wake tokens of a class. Servers take one with every task,
// so that there are about as many as pending tasks; withdrawn ones leave theirs.
const maxTokens = 256

// wake pushes a token for each message, and takes back what was asked about
// earlier ones of the same IDs.
func wake(ctx context.Context, pipe redis.Pipeliner, messages []Message) {
	tokens := make(map[string][]any)
	var stops []string
	for _, m := range messages {
		tokens[m.Class] = append(tokens[m.Class], 1)
		stops = append(stops, stopKey(m.ID))
	}
	pipe.Del(ctx, stops...)
	for class, ones := range tokens {
		pipe.SAdd(ctx, classesKey, class)
		pipe.LPush(ctx, wakeKey(class), ones...)
		pipe.LTrim(ctx, wakeKey(class), 0, maxTokens-1)
	}
}

// wakeFor is wake for a message that was sent alone.
func (b *Broker) wakeFor(ctx context.Context, m Message) error {
	_, err := b.conn.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		wake(ctx, p, []Message{m})
		return nil
	})
	if err != nil {
		return fmt.Errorf("waking a worker for %s: %w", m.ID, err)
	}
	return nil
}

// batchHook puts the scripts of calls that have a batch into it.
type batchHook struct{}

// DialHook implements redis.Hook.
func (batchHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (batchHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (batchHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		batch, collecting := ctx.Value(batchKey{}).(*batch)
		script, isScript := cmd.(*redis.Cmd)
		if !collecting || !isScript {
			return next(ctx, cmd)
		}
		script.SetVal(int64(1)) // what asynq takes for success, until Redis has said it
		batch.scripts = append(batch.scripts, script)
		return batch.pipe.Process(ctx, cmd)
	}
}
