package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"coalmine/internal/goroutines"
	"coalmine/internal/queue"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs/leadership"
)

// job is slow work; the loop applies its result.
type job func(context.Context) (apply func())

// lane separates kinds of jobs, so that they do not wait for each other.
type lane int

const (
	reading   lane = iota // storage, run logs
	sending               // the queue
	deleting              // one at a time for each chain
	compiling             // plans of runs
	lanes
)

// laneWidth is the number of concurrent jobs of each lane.
var laneWidth = [lanes]int{reading: 32, sending: 16, deleting: 4, compiling: 2}

// jobTimeout bounds a job, so that a store that hangs cannot fill a lane.
const jobTimeout = time.Minute

// jobs starts slow work, retries failed storage operations, and keeps the clock.
// Nothing else in a term reads a clock, waits, or blocks.
type jobs struct {
	now func() time.Time
	// start runs a job in the background and applies its result in the loop.
	start func(lane, job)
	log   *slog.Logger
	timers

	// queueAway and storeAway are the outages of the queue and of the store.
	queueAway, storeAway observe.Outage
	// queueLogged is the time of the last log line about the absence of the queue.
	queueLogged time.Time
	// heartbeatsFrom is the time from which a missing heartbeat counts again after the queue accepted no writes.
	heartbeatsFrom time.Time
	// queueReturned reports that the queue answers again, and may have forgotten everything.
	queueReturned bool
	// deposed is the error that ends the term: another leader, or a panic in a job.
	deposed error
	changed bool // something visible has changed
}

// after calls do after d.
func (j *jobs) after(d time.Duration, do func()) { j.timers.set(j.now().Add(d), do) }

// every calls do at once and then at intervals of d.
func (j *jobs) every(d time.Duration, do func()) {
	do()
	j.after(d, func() { j.every(d, do) })
}

func (j *jobs) tick() { j.timers.run(j.now()) }

// persist runs a storage job until it succeeds. do returns a function to apply;
// stillNeeded is asked in the loop before another try.
func (j *jobs) persist(l lane, action string, stillNeeded func() bool, do func(context.Context) (func(), error)) {
	j.persistFrom(0, l, action, stillNeeded, do)
}

func (j *jobs) persistFrom(try int, l lane, action string, stillNeeded func() bool, do func(context.Context) (func(), error)) {
	j.start(l, func(ctx context.Context) func() {
		apply, err := j.try(ctx, action, do)
		return func() {
			switch {
			case err == nil:
				j.storeAnswers()
				if apply != nil {
					apply()
				}
			case errors.Is(err, leadership.ErrDeposed):
				j.deposed = err
			default:
				j.storeFails(action, err)
				pause := policy.StorageRetries[min(try, len(policy.StorageRetries)-1)]
				j.after(pause, func() {
					if stillNeeded() {
						j.persistFrom(try+1, l, action, stillNeeded, do)
					}
				})
			}
		}
	})
}

// try calls do and turns a panic into an error.
func (j *jobs) try(ctx context.Context, action string, do func(context.Context) (func(), error)) (apply func(), err error) {
	err = goroutines.Recover(func() (err error) {
		apply, err = do(ctx)
		return err
	})
	goroutines.LogPanic(j.log, err, "doing", action)
	return apply, err
}

// always is the stillNeeded of jobs that are always needed.
func always() bool { return true }

func (j *jobs) storeFails(action string, err error) {
	if j.storeAway.Begin(j.now(), err) {
		j.log.Warn("storage does not answer; retrying", "doing", action, "error", err)
	}
	j.changed = true
}

func (j *jobs) storeAnswers() {
	if j.storeAway.End() {
		j.changed = true
	}
}

// send runs a job that reads from the queue once, and applies its result unless the queue failed.
func (j *jobs) send(do func(context.Context) (apply func(), err error)) {
	j.sendThen(j.queueAnswers, do)
}

// sendWrite is send for a job that writes to the queue.
func (j *jobs) sendWrite(do func(context.Context) (apply func(), err error)) {
	j.sendThen(j.queueTakes, do)
}

func (j *jobs) sendThen(succeeded func(), do func(context.Context) (apply func(), err error)) {
	j.start(sending, func(ctx context.Context) func() {
		apply, err := j.try(ctx, "sending", do)
		return func() {
			if err != nil {
				j.queueFails(err)
				return
			}
			succeeded()
			if apply != nil {
				apply()
			}
		}
	})
}

// queueLogEvery is the pause between log lines about an absent queue.
const queueLogEvery = time.Minute

func (j *jobs) queueFails(err error) {
	err = queue.Explain(err)
	j.changed = true
	if errors.Is(j.queueAway.Err, queue.ErrNoWrites) && !errors.Is(err, queue.ErrNoWrites) && errors.Is(err, context.DeadlineExceeded) {
		return // the known error is more specific
	}
	j.queueAway.Begin(j.now(), err)
	if j.now().Sub(j.queueLogged) < queueLogEvery {
		return
	}
	j.queueLogged = j.now()
	text := "queue does not answer; nothing is lost, retrying"
	if errors.Is(err, queue.ErrNoWrites) {
		text = "queue accepts no writes; nothing is lost, retrying"
	}
	j.log.Warn(text, "since", j.queueAway.Since.UTC().Format(time.RFC3339), "error", err)
}

// queueAnswers notes that the queue could be read. It may still accept no writes.
func (j *jobs) queueAnswers() {
	if !errors.Is(j.queueAway.Err, queue.ErrNoWrites) {
		j.queueTakes()
	}
}

// queueTakes notes that the queue accepted a write.
func (j *jobs) queueTakes() {
	if errors.Is(j.queueAway.Err, queue.ErrNoWrites) {
		j.heartbeatsFrom = j.now().Add(policy.HeartbeatPatience)
	}
	if !j.queueAway.On() {
		return
	}
	j.log.Info("queue answers again", "away", j.now().Sub(j.queueAway.Since).Round(time.Second))
	j.queueAway = observe.Outage{}
	j.changed, j.queueReturned = true, true
}

// heartbeatsMissing reports whether workers could not write heartbeats lately, so that a missing one does
// not prove a death.
func (j *jobs) heartbeatsMissing() bool {
	return errors.Is(j.queueAway.Err, queue.ErrNoWrites) || j.now().Before(j.heartbeatsFrom)
}
