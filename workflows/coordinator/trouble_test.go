package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

func TestStoreOutagesFailNoNode(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 7, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 5})
	id := w.submit("a", 0)
	const absences = 100
	n := 0
	w.override = func(attempts.Attempt) *attempts.Outcome {
		if n == absences {
			return nil
		}
		n++
		return &attempts.Outcome{Result: attempts.StoreAway, Error: "503 slow down"}
	}
	w.until(func() bool { return n == absences })
	if said := strings.Join(w.term.status(w.run(id)).Reasons, "; "); !strings.Contains(said, "503 slow down") {
		w.fail("the run waits for: %s", said)
	}
	entries := w.run(id).record.Position()
	w.completes(id, "a")
	// A run's log is read at every start of a coordinator: an absence of hours must not fill it.
	if entries > 2 {
		w.fail("%d entries in the log after %d absences", entries, absences)
	}
}

// Only workers meet a full disk while the coordinator has nothing to write. The
// run says so once, however often its tasks are tried meanwhile.
func TestFullStoreOfWorkersIsReportedOnce(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 7, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 5})
	id := w.submit("a", 0)
	full, n := true, 0
	w.override = func(attempts.Attempt) *attempts.Outcome {
		if !full {
			return nil
		}
		n++
		return &attempts.Outcome{Result: attempts.StoreAway, StoreFull: true, Error: fmt.Sprintf("no space left for file %d", n)}
	}
	first, _ := w.awaitWait(id, status.WaitSpace)
	for tries := n; n < tries+20; {
		now, s := w.awaitWait(id, status.WaitSpace)
		if now.Detail != first.Detail || !now.Since.Equal(first.Since) || s.Health != status.Stuck || len(s.Waits) != 1 {
			w.fail("the run is %s and waits for %+v, at first for %+v", s.Health, s.Waits, first)
		}
		seen := n
		w.until(func() bool { return n > seen })
	}
	full = false
	w.untilPhase(runs.Done, id)
}

// A flush takes the heartbeats with it, so for a moment all workers look dead.
func TestFlushesDoNotMakeATaskPoisonous(t *testing.T) {
	t.Parallel()
	w, long := oneTask(t, 8, "long")
	hanging := true
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if hanging && a.Key == long.Key {
			return hang
		}
		return nil
	}
	id := w.submit("a", 0)
	for range 2 * policy.MaxMemoryDeaths {
		w.hire(1) // the one that hangs keeps its slot
		w.until(func() bool {
			n := w.term.graph.Node(long.Key)
			if n == nil || n.Number == 0 || w.clock.Before(w.silence.Add(5*time.Second)) {
				return false
			}
			_, e := (*simQueue)(w).find(graph.AttemptID(long.Key, n.Number))
			return e != nil
		})
		w.flush()
	}
	hanging = false
	w.hire(1)
	w.untilPhase(runs.Done, id)
	if w.run(id).State.CountsDead(w.workers[0].id) {
		w.fail("a living worker counts as dead")
	}
}

// A nudge is lost with the queue that it was sent through. A finished run is not
// looked at for a minute without one.
func TestRunResumedDuringQueueOutageContinues(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 3, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30})
	id := w.submit("a", 0)
	w.untilPhase(runs.Running, id)
	w.steer(id, runs.Entry{Kind: runs.CancelEntry})
	w.untilPhase(runs.Cancelled, id)
	w.away = true
	w.until(func() bool { return w.term.queueAway.On() })
	must.Do(t, w.service.Steer(context.Background(), id, runs.Entry{Kind: runs.ResumeEntry}))
	w.away = false
	back := w.clock
	w.until(func() bool { return w.run(id).State.Phase == runs.Running })
	if took := w.clock.Sub(back); took > 10*time.Second {
		w.fail("the run goes on after %s", took)
	}
	w.untilPhase(runs.Done, id)
}

// Redis that cannot save can be read: workers and attempts are asked for with success, while
// nothing can be sent and no worker can say that it lives.
func TestReadOnlyQueueIsReportedAndKeepsWorkers(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 3, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30})
	id := w.submit("a", 0)
	w.untilStep(func() bool { // something is being sent while something is at work
		sending := slices.ContainsFunc(w.term.graph.AttemptsInOrder(), func(a *graph.Attempt) bool { return !a.Acked })
		return sending && slices.ContainsFunc(w.workers, func(x *simWorker) bool { return len(x.running) > 0 })
	})
	w.refuses = errors.New("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk")
	w.until(func() bool { return w.term.queueAway.On() })
	began, lines := w.clock, len(w.trace)
	w.until(func() bool {
		if !w.term.queueAway.On() {
			w.fail("the queue counts as there while it takes nothing")
		}
		return w.clock.Sub(began) > 5*time.Minute
	})
	waits := w.term.status(w.run(id)).Waits
	if len(waits) == 0 || waits[0].Reason != status.WaitQueue || !strings.Contains(waits[0].Detail, "make room on its disk") {
		w.fail("the run waits for %+v", waits)
	}
	if said := w.trace[lines:]; len(said) > 6 {
		w.fail("%d lines in five minutes:\n%s", len(said), strings.Join(said, "\n"))
	}
	w.refuses = nil
	w.completes(id, "a")
	for _, line := range w.trace {
		if strings.Contains(line, "is gone") || strings.Contains(line, "attempt is lost") {
			w.fail("a worker that could not write counted as dead: %s", line)
		}
	}
}
