package coordinator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/tasks/attempts"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// refusal is the answer of builds from before formats had versions to attempts that they
// cannot read.
func refusal(attempts.Attempt) *attempts.Outcome {
	return &attempts.Outcome{Result: attempts.Refused, Error: "message k.1 is not the attempt that its name says; make sure that coordinator and workers are of one version: 9 bytes that are no attempt"}
}

// withoutFormat writes a report as those builds do.
func withoutFormat(o attempts.Outcome) []byte {
	body, _ := json.Marshal(o)
	return body
}

func unread(attempts.Attempt) *attempts.Outcome {
	return &attempts.Outcome{Result: attempts.Returned, Unread: true, Error: "format 2; this build reads formats up to 1"}
}

// Workers that cannot read attempts fail nothing. A run that waits for others says who cannot help, and why.
func TestWorkersOfAnotherBuildReturnTasks(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]simWorker{
		"before formats had versions": {reads: refusal, reports: withoutFormat},
		"of an earlier format":        {reads: unread, build: "0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := oneChain(t, 31, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 6})
			stranger := w.workers[0]
			stranger.reads, stranger.reports, stranger.build = of.reads, of.reports, of.build
			id := w.submit("a", 0)
			wait, s := w.awaitWait(id, status.WaitWorker)
			if want := "no live worker: worker w1 (coalmine "; !strings.HasPrefix(wait.Detail, want) || !strings.Contains(wait.Detail, ") cannot help: it cannot read attempts in this coordinator's format") {
				w.fail("it waits for %q, want %q and a reason", wait.Detail, want)
			}
			if s.Health != status.Stuck || s.Workers[0].Build != of.build || s.Workers[0].CannotHelp == "" {
				w.fail("the run is %s, its worker %+v", s.Health, s.Workers[0])
			}
			w.hire(2)
			w.completes(id, "a")
			if troubles := w.run(id).State.Troubles; len(troubles) > 0 {
				w.fail("tasks have been charged: %+v", troubles)
			}
		})
	}
}

// A worker that knows other versions of kinds helps with those that it knows; status names the others.
func TestWorkerHelpsWithKindsItSupports(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 32, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 6})
	old := w.workers[0]
	old.build, old.kinds = "0.9", []string{"test/part@7"}
	for _, kind := range plantest.Kinds.Advertised() {
		if !strings.HasPrefix(kind, "test/part@") {
			old.kinds = append(old.kinds, kind)
		}
	}
	id := w.submit("a", 0)
	wait, s := w.awaitWait(id, status.WaitKind)
	if want := "no live worker supports test/part@1: worker w1 (coalmine 0.9) cannot help: it supports test/part@7 but not test/part@1"; wait.Detail != want {
		w.fail("it waits for %q, want %q", wait.Detail, want)
	}
	if got, want := s.Workers[0].CannotHelp, "it supports test/part@7 but not test/part@1"; got != want {
		w.fail("the worker cannot help because %q, want %q", got, want)
	}
	old.reads = func(a attempts.Attempt) *attempts.Outcome { // as a worker does that takes an unknown format
		if slices.Contains(old.kinds, fmt.Sprintf("%s@%d", a.Kind, a.Version)) {
			return &attempts.Outcome{Result: attempts.Returned, Error: "the worker shuts down"}
		}
		return &attempts.Outcome{Result: attempts.Returned, Error: "it does not know " + a.Kind}
	}
	w.hire(2)
	w.untilPhase(runs.Done, id)
	if troubles := w.run(id).State.Troubles; len(troubles) > 0 {
		w.fail("tasks have been charged: %+v", troubles)
	}
}

// Reports that cannot be read cost neither an attempt nor count as a death: finished work is found
// in storage, and the rest is tried again.
func TestUnreadableReportsFailNoTask(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(attempts.Outcome) []byte{
		"garbage":           func(attempts.Outcome) []byte { return []byte{0xff, 0} },
		"of a later format": func(attempts.Outcome) []byte { return []byte(`{"format":99,"result":{}}`) },
		"of a later result": func(o attempts.Outcome) []byte { o.Result = "postponed"; return withoutFormat(o) },
		"about another":     func(o attempts.Outcome) []byte { o.Number += 1000; return withoutFormat(o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := oneChain(t, 33, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 6})
			strange := w.workers[0]
			strange.reports = write
			handed := 0
			w.override = func(attempts.Attempt) *attempts.Outcome { // some attempts end without an output
				if handed++; handed%3 == 0 {
					return &attempts.Outcome{Result: attempts.Returned, Error: "it shuts down"}
				}
				return nil
			}
			id := w.submit("a", 0)
			w.until(func() bool { return strings.Contains(strings.Join(w.trace, "\n"), "a report cannot be read") })
			w.hire(1)
			w.untilPhase(runs.Done, id)
			if troubles := w.run(id).State.Troubles; len(troubles) > 0 {
				w.fail("tasks have been charged: %+v", troubles)
			}
		})
	}
}
