package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Broker is the coordinator's side of the queue. Its methods may be called from
// several goroutines at once. Any error means that Redis did not answer as it
// should; the call may be repeated.
type Broker struct {
	conn  *Conn
	asynq *asynq.Client

	mu      sync.Mutex
	popping *pop // of reports, under way; nil if none is
}

// Broker returns a new broker on the connection.
func (c *Conn) Broker() *Broker {
	return &Broker{conn: c, asynq: asynq.NewClientFromRedisClient(c.client)}
}

// taskType is asynq's name for what all messages are.
const taskType = "attempt"

// noTimeout stands for "none": asynq knows only timeouts, and takes half an
// hour where none is given.
const noTimeout = 10 * 365 * 24 * time.Hour

// Enqueue puts the messages into the queues of their classes, in their order, and
// wakes workers for them. A message whose ID is already pending or running stays
// as it is; what is left of an earlier run of the same ID is removed first. After
// an error some may have been sent.
func (b *Broker) Enqueue(ctx context.Context, messages ...Message) error {
	if len(messages) == 0 {
		return nil
	}
	for _, m := range messages {
		if m.ID == "" || m.Class == "" || strings.ContainsAny(m.ID, " \n") {
			return fmt.Errorf("message %q of class %q: want an ID without spaces, and a class", m.ID, m.Class)
		}
	}
	rest, err := b.send(ctx, messages)
	if err != nil {
		return fmt.Errorf("enqueuing %d messages, the first %s: %w", len(messages), messages[0].ID, err)
	}
	for _, m := range rest {
		if err := b.enqueueAlone(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) enqueueAlone(ctx context.Context, m Message) error {
	err := b.enqueue(ctx, m)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		err = b.enqueueAgain(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("enqueuing %s: %w", m.ID, err)
	}
	return b.wakeFor(ctx, m)
}

// enqueueAgain resolves a conflict of IDs.
func (b *Broker) enqueueAgain(ctx context.Context, m Message) error {
	const over = "archived completed retry scheduled"
	found, err := b.conn.remove(ctx, m.Class, m.ID, over)
	switch {
	case err != nil, found == statePending:
		return err
	case found == stateActive:
		return b.replaceUnlessAlive(ctx, m)
	}
	return b.enqueueOnce(ctx, m)
}

// replaceUnlessAlive sends the message if no live worker runs the one that looks
// active. Its worker was killed, or the answer to its dequeue was lost.
func (b *Broker) replaceUnlessAlive(ctx context.Context, m Message) error {
	known, err := b.Known(ctx, []string{m.ID})
	if err != nil || known[m.ID] {
		return err
	}
	if _, err := b.conn.remove(ctx, m.Class, m.ID, "any"); err != nil {
		return err
	}
	return b.enqueueOnce(ctx, m)
}

// enqueueOnce is content if somebody else has just sent the message.
func (b *Broker) enqueueOnce(ctx context.Context, m Message) error {
	if err := b.enqueue(ctx, m); !errors.Is(err, asynq.ErrTaskIDConflict) {
		return err
	}
	return nil
}

// Withdraw removes a message that no worker has taken yet, and reports whether
// it did.
func (b *Broker) Withdraw(ctx context.Context, id string) (bool, error) {
	withdrawn := false
	err := b.eachClass(ctx, func(class string) error {
		found, err := b.conn.remove(ctx, class, id, string(statePending))
		withdrawn = withdrawn || found == statePending
		return err
	})
	return withdrawn, err
}

// Forget drops every trace of messages in the queue, running ones included. It
// is for those whose worker died: nothing but asynq's slow recoverer would clean
// up after them.
func (b *Broker) Forget(ctx context.Context, ids ...string) error {
	return b.eachClass(ctx, func(class string) error {
		for _, id := range ids {
			if _, err := b.conn.remove(ctx, class, id, "any"); err != nil {
				return err
			}
		}
		return nil
	})
}

func (b *Broker) eachClass(ctx context.Context, do func(class string) error) error {
	classes, err := b.conn.client.SMembers(ctx, classesKey).Result()
	if err != nil {
		return fmt.Errorf("reading the classes in use: %w", err)
	}
	slices.Sort(classes)
	for _, class := range classes {
		if err := do(class); err != nil {
			return err
		}
	}
	return nil
}

// stopTTL is how long a stop request waits for its worker to see it.
const stopTTL = time.Minute

// Stop asks the workers that run the messages to stop them; they look every
// second. The handler's context ends with the cause ErrStopped. Enqueue takes the
// request back.
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

// drainTTL is how long a request to drain waits for its worker to see it.
const drainTTL = 10 * time.Minute

// Drain asks a worker to take no more messages, to finish what it has, and to
// end. It looks every second.
func (b *Broker) Drain(ctx context.Context, workerID string) error {
	if err := b.conn.client.Set(ctx, drainKey(workerID), 1, drainTTL).Err(); err != nil {
		return fmt.Errorf("asking worker %s to drain: %w", workerID, err)
	}
	return nil
}

// asynqLease is how long asynq leases a task to a server, which then renews the
// lease every five seconds.
const asynqLease = 30 * time.Second

// Known returns those of the messages that are pending or being run by a live
// worker. One that was taken in the last seconds counts even if no heartbeat
// lists it yet.
func (b *Broker) Known(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	if len(ids) == 0 {
		return known, nil
	}
	workers, err := b.Workers(ctx)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for _, w := range workers {
		for _, r := range w.Running {
			if wanted[r.ID] {
				known[r.ID] = true
			}
		}
	}
	err = b.eachClass(ctx, func(class string) error { return b.addQueued(ctx, class, ids, known) })
	return known, err
}

// addQueued adds to known the ids that are pending in a class, or were leased so
// lately that their worker may not have written a heartbeat since.
func (b *Broker) addQueued(ctx context.Context, class string, ids []string, known map[string]bool) error {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	keys := []string{asynqKey(class, "t:"), asynqKey(class, "lease")}
	found, err := statesScript.Run(ctx, b.conn.client, keys, args...).StringSlice()
	if err != nil || len(found) != 2*len(ids) {
		return fmt.Errorf("asking for the states of %d tasks in queue %s: %w", len(ids), class, err)
	}
	fresh := float64(time.Now().Add(asynqLease - heartbeatTTL).Unix())
	for i, id := range ids {
		expiry, _ := strconv.ParseFloat(found[2*i+1], 64)
		switch state(found[2*i]) {
		case statePending:
			known[id] = true
		case stateActive:
			known[id] = known[id] || expiry >= fresh
		}
	}
	return nil
}

// Workers returns the live workers, ordered by ID: those whose heartbeat is at
// most three seconds old.
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
		if live && json.Unmarshal([]byte(text), &w) == nil {
			workers = append(workers, w)
		} else if err := b.conn.client.SRem(ctx, workersKey, ids[i]).Err(); err != nil {
			return nil, fmt.Errorf("removing the dead worker %s: %w", ids[i], err)
		}
	}
	return workers, nil
}
