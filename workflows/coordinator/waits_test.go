package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// awaitWait lets the world go on until the run waits for a reason, and returns it
// with the status.
func (w *world) awaitWait(id string, reason status.WaitReason) (status.Wait, *status.Run) {
	w.t.Helper()
	var s *status.Run
	i := -1
	w.until(func() bool {
		if w.term.records.byID[id] == nil {
			return false
		}
		s = w.term.status(w.run(id))
		i = slices.IndexFunc(s.Waits, func(x status.Wait) bool { return x.Reason == reason })
		return i >= 0
	})
	if s.Reasons[i] != s.Waits[i].Detail {
		w.t.Errorf("reason %q, detail %q", s.Reasons[i], s.Waits[i].Detail)
	}
	return s.Waits[i], s
}

func TestHealthSeparatesStuckFromSlow(t *testing.T) {
	t.Parallel()
	transient := func(kind string) func(attempts.Attempt) *attempts.Outcome {
		return func(a attempts.Attempt) *attempts.Outcome {
			if a.Kind != kind || a.Number > 2 {
				return nil
			}
			return &attempts.Outcome{Result: attempts.Failed, Error: "connection reset"}
		}
	}
	for _, c := range []struct {
		reason status.WaitReason
		health status.Health
		detail string
		hinder func(w *world, id string)
		mend   func(w *world, id string)
	}{
		{status.WaitWorker, status.Stuck, "no live worker", func(w *world, _ string) { w.workers = nil }, func(w *world, _ string) { w.hire(2) }},
		{status.WaitKind, status.Stuck, "no live worker supports test/part@1", func(w *world, _ string) { w.kinds = []string{"test/standing@1"} },
			func(w *world, _ string) { w.kinds = plantest.Kinds.Advertised() }},
		{status.WaitPaused, status.Paused, "paused", func(w *world, id string) { w.steer(id, runs.Entry{Kind: runs.PauseEntry}) },
			func(w *world, id string) { w.steer(id, runs.Entry{Kind: runs.ResumeEntry}) }},
		{status.WaitRetry, status.Slow, "of 5 at", func(w *world, _ string) { w.override = transient(plantest.Standing.Name) }, func(*world, string) {}},
	} {
		t.Run(string(c.reason), func(t *testing.T) {
			t.Parallel()
			w := oneChain(t, 21, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 6})
			id := w.submit("a", 0)
			c.hinder(w, id)
			wait, s := w.awaitWait(id, c.reason)
			if s.Health != c.health || !strings.Contains(wait.Detail, c.detail) {
				t.Errorf("the run is %s: %+v", s.Health, wait)
			}
			if c.reason == status.WaitRetry && (wait.Error != "connection reset" || wait.Attempt == 0 || wait.Key == nil) {
				t.Errorf("a retry without its evidence: %+v", wait)
			}
			if later := w.clock.Add(time.Second); c.health == status.Stuck {
				w.until(func() bool { return w.clock.After(later) })
				if again, _ := w.awaitWait(id, c.reason); !again.Since.Equal(wait.Since) {
					t.Errorf("it waits since %v, a second before since %v", again.Since, wait.Since)
				}
			}
			c.mend(w, id)
			w.untilPhase(runs.Done, id)
			if s := w.term.status(w.run(id)); s.Health != "" || len(s.Waits) > 0 {
				t.Errorf("a finished run is %q and waits for %+v", s.Health, s.Waits)
			}
		})
	}
}

// A run that gets no slot says whose tasks have them, and one of a class whose
// number is limited says so; for a few seconds that is nothing worth saying.
func TestWaitForSlotNamesItsCause(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprintf("limited=%v", limited), func(t *testing.T) {
			t.Parallel()
			plans := map[string]*plan.Plan{
				"first":  plantest.Federated(t, plantest.ChainOptions{Salt: "first", Width: 6, Steps: 2}),
				"second": plantest.Federated(t, plantest.ChainOptions{Salt: "second", Width: 6, Steps: 2}),
			}
			w := newWorld(t, 22, chaos{}, plans)
			if limited {
				w.term.dispatcher.Limits = map[tasks.Class]int{tasks.Compute: 2}
			}
			w.override = func(a attempts.Attempt) *attempts.Outcome {
				if a.Kind == plantest.Part.Name && strings.Contains(string(a.Params), "first") {
					return hang
				}
				return nil
			}
			first := w.submit("first", 5)
			w.until(func() bool { return w.atWork(first) >= 2 })
			second := w.submit("second", 0)
			reason, text := status.WaitSlot, first
			if limited {
				reason, text = status.WaitLimit, "class compute"
			}
			begun := w.clock
			wait, s := w.awaitWait(second, reason)
			if s.Health != status.Slow || !strings.Contains(wait.Detail, text) || wait.Tasks < 1 {
				t.Errorf("the run is %s: %+v", s.Health, wait)
			}
			if w.clock.Sub(begun) < policy.ShortWait {
				t.Errorf("said after %v", w.clock.Sub(begun))
			}
		})
	}
}

// atWork is how many attempts of a run are known to be at work.
func (w *world) atWork(id string) int {
	if w.term.records.byID[id] == nil {
		return 0
	}
	return len(w.term.status(w.run(id)).Running)
}

func TestAttemptsCarryTheTimeout(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 24, plantest.ChainOptions{Salt: "x", Width: 1, Steps: 2})
	w.term.TaskTimeout = 90 * time.Second
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.TimeoutSeconds != 90 {
			t.Errorf("attempt at %s has a timeout of %v s", a.Kind, a.TimeoutSeconds)
		}
		return nil
	}
	w.untilPhase(runs.Done, w.submit("a", 0))
}

// A reason for which all runs wait is reported for each, with the time of its beginning.
func TestAwayServersAreReportedAsWaits(t *testing.T) {
	t.Parallel()
	full := fmt.Errorf("put: %w", storage.ErrFull)
	for _, c := range []struct {
		reason status.WaitReason
		fail   func(*term)
	}{
		{status.WaitStore, func(t *term) { t.storeFails("reading", errors.New("503")) }},
		{status.WaitSpace, func(t *term) { t.storeFails("writing", full) }},
		{status.WaitQueue, func(t *term) { t.queueFails(errors.New("no route")) }},
	} {
		w := oneChain(t, 23, plantest.ChainOptions{Salt: "x", Width: 1, Steps: 2})
		id := w.submit("a", 0)
		w.untilPhase(runs.Running, id)
		begun := w.clock
		c.fail(w.term)
		w.clock = w.clock.Add(time.Minute)
		c.fail(w.term)
		s := w.term.status(w.run(id))
		if s.Health != status.Stuck || len(s.Waits) != 1 || s.Waits[0].Reason != c.reason || !s.Waits[0].Since.Equal(begun) {
			t.Errorf("%s: the run is %s and waits for %+v", c.reason, s.Health, s.Waits)
		}
	}
}
