package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Broker is the coordinator's side of the queue. It is safe for concurrent use. Any error means
// that Redis did not answer as expected; the call may be repeated.
type Broker struct {
	conn      *Conn
	inspector *asynq.Inspector

	mu      sync.Mutex
	popping *pop // of reports, in progress; nil if there is none
}

// Broker returns a new broker on the connection.
func (c *Conn) Broker() *Broker {
	return &Broker{conn: c, inspector: asynq.NewInspectorFromRedisClient(c.client)}
}

// Withdraw removes a message that no worker has taken yet, and reports whether it did.
func (b *Broker) Withdraw(_ context.Context, id string) (bool, error) {
	queues, err := b.queues()
	if err != nil {
		return false, err
	}
	for _, queue := range queues {
		if withdrawn, err := b.withdraw(queue, id); withdrawn || err != nil {
			return withdrawn, err
		}
	}
	return false, nil
}

func (b *Broker) withdraw(queue, id string) (bool, error) {
	// asynq would also delete an archived task with a running handler.
	state, err := b.state(queue, id)
	if err != nil || state != asynq.TaskStatePending {
		return false, err
	}
	err = b.inspector.DeleteTask(queue, id)
	if err == nil {
		return true, nil
	}
	// asynq refuses to delete an active task with an unspecific error.
	if state, stateErr := b.state(queue, id); stateErr == nil && state != asynq.TaskStatePending {
		return false, nil
	}
	return false, fmt.Errorf("withdrawing %s from queue %s: %w", id, queue, err)
}

// gone is the state of a message that asynq does not have.
const gone asynq.TaskState = 0

func (b *Broker) state(queue, id string) (asynq.TaskState, error) {
	info, err := b.inspector.GetTaskInfo(queue, id)
	if isGone(err) {
		return gone, nil
	}
	if err != nil {
		return gone, fmt.Errorf("asking for the state of %s in queue %s: %w", id, queue, err)
	}
	return info.State, nil
}

// isGone reports whether an error means that asynq does not have a task.
func isGone(err error) bool {
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}

// queues returns the queues of all classes that were ever enqueued.
func (b *Broker) queues() ([]string, error) {
	queues, err := b.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("reading the queues in use: %w", err)
	}
	queues = slices.DeleteFunc(queues, func(name string) bool { return !isQueue(name) })
	slices.Sort(queues)
	return queues, nil
}

// stopTTL is the lifetime of a stop request that its worker has not read.
const stopTTL = time.Minute

// Stop asks the workers that run the messages to stop them; they check every second. The
// handler's context ends with the cause ErrStopped. Enqueue withdraws the request.
func (b *Broker) Stop(ctx context.Context, ids ...string) error {
	_, err := b.conn.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.Set(ctx, stopKey(id), 1, stopTTL)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("asking to stop %d attempts: %w", len(ids), err)
	}
	return nil
}

// drainTTL is the lifetime of a drain request that its worker has not read.
const drainTTL = 10 * time.Minute

// Drain asks a worker to take no more messages, to finish the running ones, and
// to exit. The worker checks every second.
func (b *Broker) Drain(ctx context.Context, workerID string) error {
	if err := b.conn.client.Set(ctx, drainKey(workerID), 1, drainTTL).Err(); err != nil {
		return fmt.Errorf("asking worker %s to drain: %w", workerID, err)
	}
	return nil
}

// Known returns the messages that are pending, or that a live worker lists as running. In between, until
// a worker's next heartbeat, a message is unknown: ask twice before counting it as lost.
func (b *Broker) Known(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	if len(ids) == 0 {
		return known, nil
	}
	// Pending messages come first: a message taken before the second query may be listed by then,
	// and one taken after the first is already known.
	alive, err := b.pending()
	if err != nil {
		return nil, err
	}
	workers, err := b.Workers(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		for _, r := range w.Running {
			alive[r.ID] = true
		}
	}
	for _, id := range ids {
		if alive[id] {
			known[id] = true
		}
	}
	return known, nil
}

// everyPending is a page size that holds all messages of a queue: there are about as many
// messages as slots.
const everyPending = 1 << 20

// pending returns the IDs of the messages that no worker has taken.
func (b *Broker) pending() (map[string]bool, error) {
	queues, err := b.queues()
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, queue := range queues {
		infos, err := b.inspector.ListPendingTasks(queue, asynq.PageSize(everyPending))
		if err != nil && !isGone(err) {
			return nil, fmt.Errorf("reading the pending tasks of queue %s: %w", queue, err)
		}
		for _, info := range infos {
			ids[info.ID] = true
		}
	}
	return ids, nil
}

// Workers returns the live workers, ordered by ID: those whose heartbeat is at most three seconds
// old. If a heartbeat cannot be read, as from another build, only the ID is set.
func (b *Broker) Workers(ctx context.Context) ([]Worker, error) {
	ids, err := b.conn.client.SMembers(ctx, workersKey).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the workers: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = workerKey(id)
	}
	beats, err := b.conn.client.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the heartbeats of %d workers: %w", len(ids), err)
	}
	var workers []Worker
	for i, beat := range beats {
		var w Worker
		text, live := beat.(string)
		if live {
			w.Unreadable = json.Unmarshal([]byte(text), &w) != nil
			w.ID = ids[i]
			workers = append(workers, w)
		} else if err := b.conn.client.SRem(ctx, workersKey, ids[i]).Err(); err != nil {
			return nil, fmt.Errorf("removing the dead worker %s: %w", ids[i], err)
		}
	}
	return workers, nil
}

// Keys of this package. Two deployments share a Redis by using two databases.
const (
	workersKey = "coalmine:workers" // set of worker ids
	reportsKey = "coalmine:reports" // list, oldest first
	probeKey   = "coalmine:probe"   // see Conn.Ping
)

func workerKey(id string) string      { return "coalmine:worker:" + id }
func stopKey(id string) string        { return "coalmine:stop:" + id }
func drainKey(id string) string       { return "coalmine:drain:" + id }
func leaseKey(name string) string     { return "coalmine:lease:" + name }
func publishedKey(name string) string { return "coalmine:published:" + name }
func enderKey(id string) string       { return "coalmine:ender:" + id }
func wakeKey(class string) string     { return "coalmine:wake:" + class }

const queuePrefix = "coalmine-"

// queueName returns asynq's name for a class.
func queueName(class string) string { return queuePrefix + class }

// isQueue reports whether an asynq queue belongs to this package.
func isQueue(name string) bool { return strings.HasPrefix(name, queuePrefix) }

// The scripts serve only rare cases: the embedded server starts a Lua machine for each call.

// leaseScript takes or renews the lease KEYS[1] for the holder ARGV[1].
var leaseScript = redis.NewScript(`
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then
	return 0
end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1`)

// releaseScript releases the lease KEYS[1] if ARGV[1] holds it.
var releaseScript = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("DEL", KEYS[1])
end
return 0`)

// Lease takes the named lease for holder, or renews it, for ttl, and reports
// whether holder has it now. It elects the leader while Redis keeps its data;
// storage also fences the operations that must never happen twice.
func (b *Broker) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	held, err := leaseScript.Run(ctx, b.conn.client, []string{leaseKey(name)}, holder, ttl.Milliseconds()).Bool()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, fmt.Errorf("taking the lease %q: %w", name, Explain(err))
	}
	return held, nil
}

// Release releases the named lease if holder has it.
func (b *Broker) Release(ctx context.Context, name, holder string) error {
	if err := releaseScript.Run(ctx, b.conn.client, []string{leaseKey(name)}, holder).Err(); err != nil {
		return fmt.Errorf("releasing the lease %q: %w", name, err)
	}
	return nil
}

// Publish keeps data under name for ttl, for any process to read.
func (b *Broker) Publish(ctx context.Context, name string, data []byte, ttl time.Duration) error {
	if err := b.conn.client.Set(ctx, publishedKey(name), data, ttl).Err(); err != nil {
		return fmt.Errorf("publishing %q: %w", name, err)
	}
	return nil
}

// Published returns the value published under name, or nil if there is none or it has expired.
func (b *Broker) Published(ctx context.Context, name string) ([]byte, error) {
	data, err := b.conn.client.Get(ctx, publishedKey(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the published %q: %w", name, err)
	}
	return data, nil
}
