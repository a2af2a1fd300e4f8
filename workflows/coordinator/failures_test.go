package coordinator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// Invariant 8: a failure takes its cells with it and leaves the others alone;
// retry runs only the failed tasks.
func TestFailureStaysInItsCells(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	data := b.Node(plantest.Standing, plantest.Params{Salt: "data"})
	bad := b.Node(plantest.Standing, plantest.Params{Salt: "bad"}, data)
	good := b.Node(plantest.Standing, plantest.Params{Salt: "good"}, data)
	broken := b.Chain(plantest.ChainOptions{Salt: "broken", Width: 2, Steps: 5}, data)
	whole := b.Chain(plantest.ChainOptions{Salt: "whole", Width: 2, Steps: 5}, data)
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r1"}, bad), whole.At(5))
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r2"}, good), whole.At(5))
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r3"}, good), broken.At(5))
	w := newWorld(t, 5, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	refuse := true
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if refuse && (a.Key == bad.Key || a.Key == broken.PartKey(3, 1)) {
			return &attempts.Outcome{Result: attempts.Refused, Error: "the loss is NaN", Seconds: 1.5}
		}
		return nil
	}
	id := w.submit("a", 0)
	w.untilPhase(runs.Failed, id)
	outcomes := w.run(id).State.Outcomes
	if outcomes["c01"] != runs.Failed || outcomes["c02"] != runs.Done || outcomes["c03"] != runs.Failed {
		w.fail("outcomes %v, want c01 and c03 failed, c02 done", outcomes)
	}
	failure := w.run(id).State.Failures[broken.PartKey(3, 1)]
	if failure.Error != "the loss is NaN" || !slices.Equal(failure.Cells, []string{"c03"}) {
		w.fail("failure %+v", failure)
	}
	events := w.run(id).State.History.Events
	tried := slices.IndexFunc(events, func(e runs.Entry) bool {
		return e.Kind == runs.AttemptFailed && *e.Key == broken.PartKey(3, 1)
	})
	if tried < 0 || events[tried].Seconds != 1.5 || !slices.Equal(events[tried].Cells, []string{"c03"}) {
		w.fail("the history is %+v, want of the attempt that failed how long it took and whose it was", events)
	}
	// A restart does not try failed nodes again, a retry does.
	w.lead()
	w.until(func() bool { return w.term.records.byID[id] != nil && w.term.records.byID[id].claimed })
	refuse = false
	clear(w.ran)
	w.steer(id, runs.Entry{Kind: runs.RetryEntry})
	w.until(func() bool { return w.run(id).State.Phase == runs.Running })
	w.completes(id, "a")
	if w.ran[plantest.Part.Name] > 2*3+1 {
		w.fail("%d parts ran after the retry, want those of steps 3 to 5", w.ran[plantest.Part.Name])
	}
}

// The history names the failed attempt, even if a second one has begun since.
func TestFailureOfStragglerNamesItsAttempt(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 13, plantest.ChainOptions{Salt: "x", Width: 4, Steps: 6, Big: true})
	stuck := make(map[int]*execution) // by the attempt's number
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Kind != plantest.Part.Name || a.Step != 4 || a.Part != 2 || a.Number > 2 {
			return nil
		}
		_, stuck[a.Number] = (*simQueue)(w).find(a.ID())
		return hang
	}
	w.slow = func(e *execution) float64 {
		if e == stuck[1] {
			return 11
		}
		return 0.1
	}
	id := w.submit("a", 0)
	w.until(func() bool { return len(stuck) == 2 })
	worker, straggler := (*simQueue)(w).find(stuck[1].id)
	w.end(worker, straggler, attempts.Outcome{Result: attempts.Failed, Error: "connection reset"})
	var failed []runs.Entry
	w.until(func() bool {
		failed = slices.DeleteFunc(slices.Clone(w.run(id).State.History.Events), func(e runs.Entry) bool { return e.Kind != runs.AttemptFailed })
		return len(failed) > 0
	})
	if failed[0].Attempts != 1 || failed[0].Worker != worker.id {
		w.fail("the history has %+v, want attempt 1 on %s", failed[0], worker.id)
	}
	worker, second := (*simQueue)(w).find(stuck[2].id)
	w.end(worker, second, attempts.Outcome{Result: attempts.Failed, Error: "connection reset"})
	w.untilPhase(runs.Done, id)
}

// A broken worker fails every task at once, so it is always free for second attempts, and a small one dies of
// them. Neither must use up the tries of a task that is at work on a healthy worker.
func TestSecondAttemptsDoNotEndAStraggler(t *testing.T) {
	t.Parallel()
	full, half := queue.Memory{Used: 2 << 30, Limit: 2 << 30}, queue.Memory{Used: 1 << 30, Limit: 2 << 30}
	returned := func(n int) time.Duration { return policy.ReturnedPause(storage.Key{}, n) }
	for _, c := range []struct {
		name   string
		result attempts.Result // "" if their workers die
		memory queue.Memory
		least  int // number of second attempts in five minutes
		most   int
		pause  func(int) time.Duration
	}{
		{"they fail", attempts.Failed, full, policy.MaxTries - 1, policy.MaxTries - 1, policy.Backoff},
		{"their workers run out of memory", "", full, policy.MaxMemoryDeaths - 1, policy.MaxMemoryDeaths - 1, policy.DeathPause},
		{"their workers die", "", half, 9, 13, policy.DeathPause},
		{"they are handed back", attempts.Returned, full, 30, 65, returned},
		{"the store fails them", attempts.StoreAway, full, 30, 65, returned},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := oneChain(t, 13, plantest.ChainOptions{Salt: "x", Width: 4, Steps: 6, Big: true})
			w.resident = c.memory
			for _, x := range w.workers {
				x.slots = 1 // the worker of a second attempt has no other
				w.hire(1)
			}
			var stuck *execution
			var seconds []time.Time
			first := func(a attempts.Attempt) bool { return a.Number == 1 }
			straggles := func(a attempts.Attempt) bool { return a.Kind == plantest.Part.Name && a.Step == 4 && a.Part == 2 }
			w.kills = func(a attempts.Attempt) bool {
				if c.result != "" || !straggles(a) || first(a) {
					return false
				}
				seconds = append(seconds, w.clock)
				return true
			}
			w.override = func(a attempts.Attempt) *attempts.Outcome {
				switch {
				case !straggles(a):
					return nil
				case first(a):
					_, stuck = (*simQueue)(w).find(a.ID())
					return hang
				}
				seconds = append(seconds, w.clock)
				return &attempts.Outcome{Result: c.result, Error: "no such device"}
			}
			w.slow = func(e *execution) float64 {
				if e == stuck {
					return 11
				}
				return 0.1
			}
			id := w.submit("a", 0)
			w.until(func() bool { return len(seconds) > 0 && w.clock.Sub(seconds[0]) > 5*time.Minute })
			if len(seconds) < c.least || len(seconds) > c.most {
				w.fail("%d second attempts, want %d to %d", len(seconds), c.least, c.most)
			}
			for i, at := range seconds[1:] {
				if pause := at.Sub(seconds[i]); pause < c.pause(i+1) {
					w.fail("attempt %d came %s after the one before, want at least %s", i+3, pause, c.pause(i+1))
				}
			}
			worker, straggler := (*simQueue)(w).find(stuck.id)
			straggler.next = func() { // it computes after all
				w.kills, w.override = nil, nil
				w.compute(worker, straggler)
			}
			w.untilPhase(runs.Done, id)
			w.checkTruth("a")
		})
	}
}

// An operator may see a failure, and have its node tried again, before the
// coordinator has written that the run has failed.
func TestRetryDuringEndOfRunCounts(t *testing.T) {
	t.Parallel()
	w, refused := oneTask(t, 6, "refused")
	refuse, id := true, ""
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if refuse && a.Key == refused.Key {
			return &attempts.Outcome{Result: attempts.Refused, Error: "the source is gone"}
		}
		return nil
	}
	id = w.submit("a", 0)
	w.store.before = func() {
		run, err := w.service.Get(context.Background(), id)
		if err != nil || !refuse || len(run.State.Failures) == 0 {
			return
		}
		if run.State.Phase != runs.Running {
			t.Fatalf("the run is %s already", run.State.Phase)
		}
		refuse = false
		must.Do(t, w.service.Steer(context.Background(), id, runs.Entry{Kind: runs.RetryEntry}))
	}
	w.until(func() bool { return w.phase(id) == runs.Done })
	w.settle()
	w.checkTruth("a")
}

func TestTransientErrorsAreRetriedToLimit(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{4, 5} {
		w, flaky := oneTask(t, 6, "flaky")
		n := 0
		w.override = func(a attempts.Attempt) *attempts.Outcome {
			if a.Key == flaky.Key && n < failures {
				n++
				return &attempts.Outcome{Result: attempts.Failed, Error: "connection reset"}
			}
			return nil
		}
		id := w.submit("a", 0)
		w.until(func() bool { return n == 3 && len(w.term.graph.AttemptsInOrder())+len(w.run(id).outbox) == 0 })
		w.lead() // tries are counted across terms
		if failures < 5 {
			w.untilPhase(runs.Done, id)
			continue
		}
		w.untilPhase(runs.Failed, id)
		if got := w.run(id).State.Failures[flaky.Key]; !strings.Contains(got.Error, "failed 5 times") || !strings.Contains(got.Error, "connection reset") {
			w.fail("failure %+v", got)
		}
	}
}

// A program that ends by itself with the same message twice in a row would do so again; an end by a signal,
// or another message, says nothing about the next attempt.
func TestRepeatedExitMessageFailsTask(t *testing.T) {
	t.Parallel()
	exit := func(message string) attempts.Outcome {
		return attempts.Outcome{Result: attempts.Failed, Error: message, Exit: message}
	}
	further := attempts.Outcome{Result: attempts.Failed, Error: "a", Exit: "a", Kept: true}
	signal := attempts.Outcome{Result: attempts.Failed, Error: "killed"}
	for name, c := range map[string]struct {
		ends []attempts.Outcome
		n    int // attempts
	}{
		"alike":              {[]attempts.Outcome{exit("a"), exit("a"), exit("a")}, 2},
		"alike at last":      {[]attempts.Outcome{exit("a"), exit("b"), exit("b"), exit("b")}, 3},
		"never alike":        {[]attempts.Outcome{exit("a"), exit("b"), exit("a"), exit("b"), exit("a")}, policy.MaxTries},
		"a signal between":   {[]attempts.Outcome{exit("killed"), signal, exit("killed"), signal, exit("killed")}, policy.MaxTries},
		"with progress":      {[]attempts.Outcome{further, further, further, exit("a"), exit("a"), exit("a")}, 5},
		"always by a signal": {[]attempts.Outcome{signal, signal, signal, signal, signal}, policy.MaxTries},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, broken := oneTask(t, 7, "broken")
			n := 0
			w.override = func(a attempts.Attempt) *attempts.Outcome {
				if a.Key != broken.Key {
					return nil
				}
				n++
				return &c.ends[n-1]
			}
			w.untilPhase(runs.Failed, w.submit("a", 0))
			if n != c.n {
				w.fail("%d attempts, want %d", n, c.n)
			}
		})
	}
}

// A training that leaves with a new checkpoint has not failed, any number of times; one without
// progress fails after five times in a row.
func TestAttemptsWithProgressCountAsNoTries(t *testing.T) {
	t.Parallel()
	w, leaving := oneTask(t, 8, "leaving")
	kept := []bool{false, false, false, false, true, false, true, true, false, false, false, false}
	n := 0
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Key == leaving.Key && n < len(kept) {
			n++
			return &attempts.Outcome{Result: attempts.Failed, Error: "exit status 75", Kept: kept[n-1]}
		}
		return nil
	}
	id := w.submit("a", 0)
	w.untilStep(func() bool { return n == 10 && len(w.term.graph.AttemptsInOrder())+len(w.run(id).outbox) == 0 })
	w.lead() // tries are counted across terms
	w.untilPhase(runs.Done, id)
}

// Even with progress, a task that never ends is given up. Attempts that a worker without its store hands back are
// no part of that.
func TestEndlessTaskIsGivenUp(t *testing.T) {
	t.Parallel()
	w, endless := oneTask(t, 9, "endless")
	n, away := 0, 50
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		switch {
		case a.Key != endless.Key:
			return nil
		case away > 0:
			away--
			return &attempts.Outcome{Result: attempts.StoreAway, Error: "no answer"}
		}
		n++
		return &attempts.Outcome{Result: attempts.Failed, Error: "exit status 75", Kept: true}
	}
	w.untilPhase(runs.Failed, w.submit("a", 0))
	if want := policy.MaxFurther - 1 + policy.MaxTries; n != want {
		w.fail("%d attempts, want %d", n, want)
	}
}

func TestTaskThatKillsWorkersFails(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	poison, fine := b.Node(plantest.Standing, plantest.Params{Salt: "poison"}), b.Node(plantest.Standing, plantest.Params{Salt: "fine"})
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r1"}, poison), fine)
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r2"}, fine), fine)
	w := newWorld(t, 7, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	w.kills = func(a attempts.Attempt) bool { return a.Key == poison.Key }
	id := w.submit("a", 0)
	w.untilPhase(runs.Failed, id)
	failure := w.run(id).State.Failures[poison.Key]
	if got := failure.Error; !strings.Contains(got, "its worker died 3 times near its memory limit (at most 3): w") || strings.Count(got, " at 1.9 GiB of 2.0 GiB") != 3 {
		w.fail("evidence %q", got)
	}
	for i, d := range failure.Deaths {
		if d.Attempt != i+1 || d.MemoryBytes != simMemory.Used || d.MemoryLimitBytes != simMemory.Limit {
			w.fail("death %d: %+v", i+1, d)
		}
	}
	if len(failure.Deaths) != 3 {
		w.fail("%d deaths in the failure, want 3", len(failure.Deaths))
	}
	if w.deaths != 3 {
		w.fail("%d workers died, want 3", w.deaths)
	}
	if w.run(id).State.Outcomes["c02"] != runs.Done {
		w.fail("outcomes %v", w.run(id).State.Outcomes)
	}
}

// Machines that are taken away cost a task nothing, as long as it does not end each of its workers.
func TestDeathsFarFromMemoryLimitCountLess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		memory queue.Memory
		deaths int
		phase  runs.Phase
		error  string
	}{
		{"taken away", queue.Memory{Used: 1 << 30, Limit: 2 << 30}, policy.MaxDeaths - 1, runs.Done, ""},
		{"without a limit", queue.Memory{Used: 1 << 40}, policy.MaxDeaths - 1, runs.Done, ""},
		{"ends every worker", queue.Memory{Used: 1 << 30, Limit: 2 << 30}, policy.MaxDeaths, runs.Failed, "its worker died 20 times for other reasons (at most 20): w"},
		{"fills its container", queue.Memory{Used: 1 << 20, Limit: 2 << 30, GroupUsed: 19 << 20, GroupLimit: 20 << 20}, policy.MaxMemoryDeaths, runs.Failed, "at 19 MiB of 20 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, unlucky := oneTask(t, 7, "unlucky")
			w.resident = c.memory
			deaths := 0
			w.kills = func(a attempts.Attempt) bool {
				if a.Key != unlucky.Key || deaths == c.deaths {
					return false
				}
				deaths++
				return true
			}
			id := w.submit("a", 0)
			wait, _ := w.awaitWait(id, status.WaitTakeover)
			if !regexp.MustCompile(`: its worker died 1 time (near its memory limit \(at most 3\)|for other reasons \(at most 20\))$`).MatchString(wait.Detail) {
				w.fail("it waits for %q", wait.Detail)
			}
			w.untilPhase(c.phase, id)
			if got := w.run(id).State.Failures[unlucky.Key].Error; deaths != c.deaths || !strings.Contains(got, c.error) {
				w.fail("%d deaths, evidence %q", deaths, got)
			}
		})
	}
}

func TestLogLinesNameRunAndAttempt(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	deadly, flaky := b.Node(plantest.Standing, plantest.Params{Salt: "deadly"}), b.Node(plantest.Standing, plantest.Params{Salt: "flaky"})
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r"}, deadly), flaky)
	w := newWorld(t, 13, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	w.kills = func(a attempts.Attempt) bool { return a.Key == deadly.Key }
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Key == flaky.Key && a.Number == 1 {
			return &attempts.Outcome{Result: attempts.Failed, Error: "connection reset"}
		}
		return nil
	}
	id := w.submit("a", 0)
	w.untilPhase(runs.Failed, id)
	said := 0
	for _, line := range w.trace {
		if !strings.Contains(line, " node=") {
			continue
		}
		said++
		for _, attribute := range []string{" run=" + id, " label=", " kind=", " attempt="} {
			if !strings.Contains(line, attribute) {
				w.fail("no%s in %q", attribute, line)
			}
		}
	}
	if said < 5 { // three lost attempts, one that failed, one node given up
		w.fail("%d lines about nodes, want 5", said)
	}
}

// The first of two parts that fail takes the wants of the other with it.
func TestUnwantedFailureIsNotLoggedAsError(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	data := b.Node(plantest.Standing, plantest.Params{Salt: "data"})
	broken := b.Chain(plantest.ChainOptions{Salt: "broken", Width: 2, Steps: 5}, data)
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r"}, data), broken.At(5))
	w := newWorld(t, 14, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Key == broken.PartKey(3, 0) || a.Key == broken.PartKey(3, 1) {
			return &attempts.Outcome{Result: attempts.Refused, Error: "the loss is NaN"}
		}
		return nil
	}
	id := w.submit("a", 0)
	w.untilPhase(runs.Failed, id)
	w.settle()
	errors := 0
	for _, line := range w.trace {
		if strings.HasPrefix(line, "ERROR ") {
			errors++
			if !strings.Contains(line, " run="+id) {
				w.fail("an error without its run: %q", line)
			}
		}
	}
	if errors != 1 {
		w.fail("%d errors, want that of the one part", errors)
	}
}

func TestLostTaskRunsElsewhereWithinFourSeconds(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	n := b.Node(plantest.Standing, plantest.Params{Salt: "n"})
	b.Cell(n, n)
	w := newWorld(t, 8, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	var died, ran time.Time
	w.kills = func(attempts.Attempt) bool {
		if died.IsZero() {
			died = w.clock
			return true
		}
		ran = w.clock
		return false
	}
	w.untilPhase(runs.Done, w.submit("a", 0))
	if took := ran.Sub(died); took > 4*time.Second {
		w.fail("it took %s", took)
	}
}

func TestVanishingInputFailsWithEvidence(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	input := b.Node(plantest.Standing, plantest.Params{Salt: "input", Big: true})
	c := b.Chain(plantest.ChainOptions{Salt: "x", Width: 2, Steps: 3, Big: true}, input)
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r"}, input), input)
	b.Cell(c.At(3), c.At(3))
	w := newWorld(t, 9, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	vanish := func(key storage.Key) *attempts.Outcome {
		if commit, err := w.archive.Committed(context.Background(), key); err == nil {
			must.Do(t, w.archive.DeleteBlobs(context.Background(), commit))
		}
		return nil
	}
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		switch {
		case a.Kind == plantest.Report.Name:
			return vanish(input.Key)
		case a.Kind == plantest.Part.Name && a.Step == 3:
			return vanish(c.Key(2))
		}
		return nil
	}
	id := w.submit("a", 0)
	w.untilPhase(runs.Failed, id)
	if len(w.run(id).State.Failures) != 2 {
		w.fail("failures %v", w.run(id).State.Failures)
	}
	for _, f := range w.run(id).State.Failures {
		if want := fmt.Sprintf("was recomputed %d times and is still missing", policy.MaxMissing); !strings.Contains(f.Error, want) {
			w.fail("evidence %q, want %q", f.Error, want)
		}
	}
}

// An attempt that the queue did not take is sent again under its own number.
func TestUnsentAttemptKeepsItsNumber(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	node := b.Node(plantest.Standing, plantest.Params{Salt: "sent"})
	b.Cell(node, node)
	w := newWorld(t, 3, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	var numbers []int
	w.override = func(a attempts.Attempt) *attempts.Outcome { numbers = append(numbers, a.Number); return nil }
	w.refuses = errors.New("OOM command not allowed")
	id := w.submit("a", 0)
	w.untilStep(func() bool { return w.term.queueAway.On() })
	w.refuses = nil
	w.untilPhase(runs.Done, id)
	if !slices.Equal(numbers, []int{1}) {
		w.fail("attempts %v reached a worker, want the first", numbers)
	}
}

// While storage is being asked for an attempt's outcome, it is not asked again.
func TestOutcomeIsLookedUpOnceAtATime(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	node := b.Node(plantest.Standing, plantest.Params{Salt: "looked for"})
	b.Cell(node, node)
	w := newWorld(t, 4, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	w.submit("a", 0)
	w.untilStep(func() bool {
		sent := w.term.graph.AttemptsInOrder()
		return len(sent) == 1 && sent[0].Acked && len(w.jobs)+len(w.applying) == 0
	})
	for range 2 {
		w.clock = w.clock.Add(policy.RecheckEvery)
		w.term.recheckAttempts()
	}
	if len(w.jobs) != 1 {
		w.fail("storage is asked by %d jobs, want 1", len(w.jobs))
	}
}
