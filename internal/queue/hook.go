package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"coalmine/internal/sleep"
)

// dequeueHook turns asynq's poll of an empty queue into a wait. It sits on the
// Redis client of one asynq server, recognises the script by which the server
// takes a task, and when that finds nothing, blocks in BLPOP until Enqueue pushes
// a wake token, then tries once more. Redis hands each token to one waiter, so a
// new task wakes one server and not all of them.
//
// asynq asks for one task at a time, and a round trip costs more than a short task.
// So the hook takes several with each, up to the free slots, and hands them out one
// by one: half of what waited after the last round trip, for others take tasks too
// and few tasks are to spread over the workers.
//
// A server that takes tasks without having waited takes as many tokens along, or
// those left over would wake it for nothing later. A token is always taken before
// the task: whoever has one looks for a task after that, so none is left lying.
//
// asynq computes the lease of a task before the script is sent, so one wait must
// be short against the 30 seconds of a lease.
//
// The script by which asynq ends a task that was handled is not sent at all: the
// consumer has ended it in the round trip that carried the report.
type dequeueHook struct {
	// The keys by which the scripts are recognised.
	pending, paused, active, lease string

	wakes  string        // the list of tokens
	plain  *redis.Client // without this hook
	waiter *redis.Client // for BLPOP alone; closed to end a wait
	slots  chan struct{} // one element per running handler
	// begins is how many tasks have been handed out whose handler is yet to begin.
	begins atomic.Int64

	// appetite is how many tasks the next round trip asks for, fetched what came
	// of the last one and asynq has not asked for yet. They belong to asynq's one
	// goroutine that takes tasks.
	appetite int
	fetched  []any
	// hand has an element while a round trip is under way or fetched is not empty.
	hand chan struct{}

	// stopped ends waits, cut the round trip for tasks.
	stopped, cut context.Context
	stop         func()
}

const (
	// wakeWait bounds one wait for a token: a lost token delays a task by this much.
	// BLPOP takes whole seconds.
	wakeWait = 2 * time.Second
	// errorPause keeps asynq, which tries again at once, from spinning while
	// Redis is away.
	errorPause = 250 * time.Millisecond
	// maxAppetite bounds how many tasks one round trip asks for. More hardly
	// costs less.
	maxAppetite = 32
	// handGrace is how long a stop waits until what was fetched is handed out. What
	// is then left nobody runs, and the coordinator sends it again.
	handGrace = time.Second
)

func newDequeueHook(class string, plain, waiter *redis.Client, slots int) *dequeueHook {
	h := &dequeueHook{
		pending:  asynqKey(class, "pending"),
		paused:   asynqKey(class, "paused"),
		active:   asynqKey(class, "active"),
		lease:    asynqKey(class, "lease"),
		wakes:    wakeKey(class),
		plain:    plain,
		waiter:   waiter,
		slots:    make(chan struct{}, slots),
		appetite: 1,
		hand:     make(chan struct{}, 1),
	}
	var endWaits, cut context.CancelFunc
	h.stopped, endWaits = context.WithCancel(context.Background())
	h.cut, cut = context.WithCancel(context.Background())
	h.stop = sync.OnceFunc(func() {
		endWaits()
		_ = waiter.Close() // interrupts the BLPOP, which a context cannot
		select {
		case h.hand <- struct{}{}: // for good: nothing more is fetched
		case <-time.After(handGrace):
		}
		cut()
	})
	return h
}

// DialHook implements redis.Hook.
func (h *dequeueHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (h *dequeueHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (h *dequeueHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		script, isScript := cmd.(*redis.Cmd)
		switch {
		case isScript && h.isScript(cmd, 4, h.pending, h.paused):
			return h.dequeue(script)
		case isScript && h.isScript(cmd, 5, h.active, h.lease):
			return nil // the task is done
		}
		return next(ctx, cmd)
	}
}

// passOn wakes another server after a stop, in case this one had a token in hand.
func (h *dequeueHook) passOn() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = h.plain.LPush(ctx, h.wakes, 1).Err() // or that server wakes by itself a little later
}

// isScript recognises EVAL or EVALSHA <script> <keys> <first> <second> …. Of those
// that asynq sends, number of keys and first two keys tell which it is.
func (h *dequeueHook) isScript(cmd redis.Cmder, keys int, first, second string) bool {
	args := cmd.Args()
	if len(args) < 5 || (cmd.Name() != "evalsha" && cmd.Name() != "eval") {
		return false
	}
	return args[2] == keys && args[3] == first && args[4] == second
}

// dequeue answers with a task that was fetched before, or fetches more.
func (h *dequeueHook) dequeue(cmd *redis.Cmd) error {
	if len(h.fetched) > 0 {
		h.handOut(cmd)
		return nil
	}
	if !h.awaitSlot() {
		return h.empty(cmd)
	}
	err := h.try(cmd, 0)
	for end := time.Now().Add(wakeWait); errors.Is(err, redis.Nil) && time.Now().Before(end) && h.awaitToken(); {
		err = h.try(cmd, 1)
	}
	return err
}

// try asks once, with so many tokens in hand.
func (h *dequeueHook) try(cmd *redis.Cmd, tokens int) error {
	cmd.SetErr(nil)
	err := h.fetch(cmd, tokens)
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"):
		return err
	case sleep.For(h.stopped, errorPause) != nil:
		return h.empty(cmd)
	}
	return err
}

// empty makes the command look as if the queue were empty.
func (h *dequeueHook) empty(cmd redis.Cmder) error {
	cmd.SetErr(redis.Nil)
	return redis.Nil
}

// awaitSlot waits until a handler more may run, and reports whether that is so.
// asynq counts for itself, but believes a handler gone whose lease was lost.
func (h *dequeueHook) awaitSlot() bool {
	timer := time.NewTimer(wakeWait)
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		<-h.slots
		return h.stopped.Err() == nil
	case <-timer.C:
	case <-h.stopped.Done():
	}
	return false
}

// awaitToken waits for a wake token and reports whether one came.
func (h *dequeueHook) awaitToken() bool {
	if h.stopped.Err() != nil {
		return false
	}
	err := h.waiter.BLPop(h.stopped, wakeWait, h.wakes).Err()
	if err != nil && !errors.Is(err, redis.Nil) {
		_ = sleep.For(h.stopped, errorPause)
	}
	return err == nil && h.stopped.Err() == nil
}
