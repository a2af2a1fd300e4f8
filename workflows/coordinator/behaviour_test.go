package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/retention"
)

// objects counts the objects in the store under a prefix.
func (w *world) objects(prefix string) int {
	return len(w.names(prefix))
}

func (w *world) run(id string) *run {
	w.t.Helper()
	r := w.term.records.byID[id]
	if r == nil {
		w.fail("no run %s", id)
	}
	return r
}

// Invariant 9: after N rounds at most N/100 objects and a constant, at the end
// and on the way, and with as many tasks in memory at step 1,000 as at step 1.
func TestLongTrainingKeepsFewObjects(t *testing.T) {
	t.Parallel()
	const rounds, width = 1000, 4
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "long", Width: width, Steps: rounds, Keep: []int{250, 500}, Every: 50, KeepLast: 3, Big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"long": p})
	id := w.submit("long", 0)
	most, looked := 0, 0
	w.until(func() bool {
		frontier := rounds
		for _, ch := range w.term.graph.Chains() {
			frontier = ch.Frontier
		}
		if frontier < looked+7 && frontier < rounds {
			return false
		}
		looked = frontier
		// Commits of the open segment, boundaries with their Parquet blob, kept
		// checkpoints with two blobs at most, parts of two steps, a few nodes.
		allowed := 100 + 2*rounds/100*frontier/rounds + 3*6 + 4*(width+1) + 20
		got := w.objects("commits/") + w.objects("blobs/")
		if got > allowed {
			w.fail("%d objects at step %d, want at most %d", got, frontier, allowed)
		}
		most = max(most, len(w.term.graph.Nodes())+len(w.term.graph.AttemptsInOrder())+len(w.term.timers.heap))
		r := w.term.records.byID[id]
		return r != nil && r.State.Phase == runs.Done && len(r.outbox) == 0
	})
	w.settle()
	w.checkTruth("long")
	w.checkLeftovers(0, "long")
	if most > 60 {
		w.fail("%d things in memory at one time, want them independent of the rounds", most)
	}
	// 10 boundaries with 2 objects each; 3 kept and 3 rolling checkpoints, of
	// which some are boundaries, with 2; data, origin, audits, report.
	if got := w.objects("commits/") + w.objects("blobs/"); got > rounds/100*2+6*2+12 {
		w.fail("%d objects are left after %d rounds", got, rounds)
	}
}

// Checkpoints that a node gathers stay until it has, though nobody claims them, and then go.
func TestGatheredCheckpointsAreDeletedAfterReading(t *testing.T) {
	t.Parallel()
	const rounds, each = 450, 100
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: rounds, Keep: []int{120}, Every: 30, KeepLast: 2, Gather: each, Big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"x": p})
	id := w.submit("x", 0)
	most := 0
	w.until(func() bool {
		for _, ch := range w.term.graph.Chains() {
			most = max(most, len(ch.Have))
		}
		r := w.term.records.byID[id]
		return r != nil && r.State.Phase == runs.Done && len(r.outbox) == 0
	})
	w.settle()
	w.checkTruth("x")
	w.checkLeftovers(0, "x")
	// The updates of the group that is being read, of the one under way, and the claimed
	// ones.
	if most < each || most > 2*each+10 {
		w.fail("at most %d checkpoints were there at a time, want those of one or two groups of %d", most, each)
	}
	if ran := w.ran[plantest.Join.Name]; ran != rounds {
		w.fail("%d steps ran, want %d", ran, rounds)
	}
}

// Invariant 6: gathered updates are made again from the kept checkpoints, and leave nothing.
func TestLostGatheredUpdatesAreRecomputed(t *testing.T) {
	t.Parallel()
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 240, Keep: []int{90}, Gather: 50, Big: true})
	audit := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 240, Keep: []int{90, 230}, Gather: 50, Big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"first": p, "second": audit})
	w.untilPhase(runs.Done, w.submit("first", 0))
	w.settle()
	w.checkLeftovers(0, "first")
	for _, n := range p.Nodes {
		if n.Label == "node gather 101" {
			for _, name := range w.names("blobs/" + n.Key.String() + "/") {
				must.Do(t, w.memory.Delete(context.Background(), name))
			}
		}
	}
	before := w.ran[plantest.Join.Name]
	w.untilPhase(runs.Done, w.submit("second", 0))
	w.settle()
	if ran, want := w.ran[plantest.Join.Name]-before, 140; ran != want {
		w.fail("%d steps ran, want %d: 91 to 230, among them the 101 to 150 that are gathered again", ran, want)
	}
	w.checkTruth("first", "second")
	w.checkLeftovers(0, "first", "second")
}

// A leader that dies between reading and deleting leaves checkpoints that its successor
// finds.
func TestSuccessorDeletesReadCheckpoints(t *testing.T) {
	t.Parallel()
	for what, reached := range map[string]func(*retired) bool{
		"while it looks":   func(l *retired) bool { return l.seeking > 0 },
		"before it begins": func(l *retired) bool { return len(l.pending) > 40 },
		"half way": func(l *retired) bool {
			return 10 < len(l.pending) && len(l.pending) < 30 && l.pending[0].What == retention.WholeStep
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 260, Gather: 50, Big: true})
			w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"x": p})
			id := w.submit("x", 0)
			for range 3 {
				w.untilStep(func() bool {
					for _, l := range w.term.deletions.lists {
						return reached(l)
					}
					return false
				})
				w.lead()
			}
			w.completes(id, "x")
			w.checkLeftovers(0, "x")
			if ran := w.ran[plantest.Join.Name]; ran > 260+3 {
				w.fail("%d steps ran, want 260 and at most one more for each restart", ran)
			}
		})
	}
}

// Invariant 6: older checkpoints are replayed from the nearest that is kept.
func TestOldCheckpointsAreReplayedFromTheNearest(t *testing.T) {
	t.Parallel()
	first := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 330, Keep: []int{120, 250}, Big: true})
	audits := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 330, Keep: []int{140, 145, 305}, Big: true})
	w := newWorld(t, 1, chaos{}, map[string]*plan.Plan{"first": first, "audits": audits})
	w.untilPhase(runs.Done, w.submit("first", 0))
	before := w.ran[plantest.Join.Name]
	w.untilPhase(runs.Done, w.submit("audits", 0))
	w.settle()
	if ran, want := w.ran[plantest.Join.Name]-before, 25+55; ran != want {
		w.fail("%d steps ran, want %d: 121 to 145 and 251 to 305", ran, want)
	}
	w.checkTruth("first", "audits")
	w.checkLeftovers(0, "first", "audits")
}

func TestReplayResumesAfterRestart(t *testing.T) {
	t.Parallel()
	for _, at := range []int{37, 100, 163, 199} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			first := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 330, Big: true})
			audit := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 330, Keep: []int{220}, Big: true})
			w := newWorld(t, uint64(at), chaos{}, map[string]*plan.Plan{"first": first, "audit": audit})
			w.untilPhase(runs.Done, w.submit("first", 0))
			before := w.ran[plantest.Join.Name]
			id := w.submit("audit", 0)
			w.until(func() bool {
				for _, ch := range w.term.graph.Chains() {
					return ch.At >= at && ch.At < ch.Frontier
				}
				return false
			})
			w.lead()
			w.untilPhase(runs.Done, id)
			w.settle()
			if ran := w.ran[plantest.Join.Name] - before; ran > 220+3 {
				w.fail("%d steps ran for a replay of 220 that was interrupted at %d", ran, at)
			}
			w.checkTruth("first", "audit")
			w.checkLeftovers(0, "first", "audit")
		})
	}
}

func TestSecondRunIsFullyCached(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 1, plantest.ChainOptions{Salt: "x", Width: 3, Steps: 20, Keep: []int{5, 10}, Big: true})
	first := w.submit("a", 0)
	w.untilPhase(runs.Done, first)
	w.settle()
	clear(w.ran)
	second := w.submit("a", 0)
	if second != first+".2" {
		w.fail("the second run is %s, want %s.2", second, first)
	}
	w.untilPhase(runs.Done, second)
	if len(w.ran) > 0 {
		w.fail("tasks ran though all is cached: %v", w.ran)
	}
}

// Invariant 5: equal nodes of different runs are one node.
func TestRunsShareEqualNodes(t *testing.T) {
	t.Parallel()
	o := plantest.ChainOptions{Salt: "x", Width: 3, Steps: 30, Keep: []int{10}, Big: true}
	a, b := plantest.Federated(t, o), plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 3, Steps: 30, Keep: []int{20}, Big: true})
	w := newWorld(t, 4, chaos{}, map[string]*plan.Plan{"a": a, "b": b})
	w.untilPhase(runs.Done, w.submit("a", 0), w.submit("b", 0))
	w.settle()
	w.checkTruth("a", "b")
	for name, n := range w.store.rounds {
		if n > 1 {
			w.fail("%s was committed %d times", name, n)
		}
	}
	if w.ran[plantest.Join.Name] != 30 {
		w.fail("%d joins ran for 30 steps", w.ran[plantest.Join.Name])
	}
}

func TestPausedRunStopsAndResumes(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 2, plantest.ChainOptions{Salt: "x", Width: 3, Steps: 60, Big: true})
	id := w.submit("a", 0)
	w.until(func() bool { return w.ran[plantest.Join.Name] >= 10 })
	w.steer(id, runs.Entry{Kind: runs.PauseEntry})
	w.until(func() bool { return w.run(id).State.Phase == runs.Paused && !w.term.graph.AnyInFlight() })
	if s := w.term.status(w.run(id)); !slices.Equal(s.Reasons, []string{"paused"}) {
		w.fail("reasons %v", s.Reasons)
	}
	before := w.ran[plantest.Part.Name]
	end := w.clock.Add(time.Minute)
	w.until(func() bool { return w.clock.After(end) })
	if w.ran[plantest.Part.Name] != before {
		w.fail("%d parts ran while the run was paused", w.ran[plantest.Part.Name]-before)
	}
	w.steer(id, runs.Entry{Kind: runs.ResumeEntry})
	w.completes(id, "a")
}

func TestCancelKeepsNodesOfOtherRuns(t *testing.T) {
	t.Parallel()
	a := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 50, Keep: []int{20}, Big: true})
	b := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30, Keep: []int{10}, Big: true})
	w := newWorld(t, 3, chaos{}, map[string]*plan.Plan{"a": a, "b": b})
	first, second := w.submit("a", 0), w.submit("b", 0)
	w.until(func() bool { return w.ran[plantest.Join.Name] >= 5 })
	w.steer(first, runs.Entry{Kind: runs.CancelEntry})
	w.completes(second, "b")
	if got := w.phase(first); got != runs.Cancelled {
		w.fail("the cancelled run is %s", got)
	}
	if w.ran[plantest.Join.Name] > 31 {
		w.fail("%d steps ran, though only 30 are wanted after the cancel", w.ran[plantest.Join.Name])
	}
}

func TestHigherPriorityGoesFirstAndEqualsShare(t *testing.T) {
	t.Parallel()
	plans := make(map[string]*plan.Plan)
	for _, name := range []string{"a", "b", "c"} {
		b := plantest.NewBuilder()
		var needs []plan.Ref
		for i := range 30 {
			needs = append(needs, b.Node(plantest.Standing, plantest.Params{Salt: fmt.Sprint(name, i)}))
		}
		b.Cell(b.Node(plantest.Report, plantest.Params{Salt: name}, needs...), needs[0])
		plans[name] = b.Done(t)
	}
	w := newWorld(t, 11, chaos{}, plans)
	var order []string
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Kind == plantest.Standing.Name {
			order = append(order, a.Runs[0][:1])
		}
		return nil
	}
	w.workers = nil
	ids := []string{w.submit("a", 0), w.submit("b", 0), w.submit("c", 5)}
	w.until(func() bool {
		could := 0
		for _, n := range w.term.graph.Nodes() {
			if n.State() == graph.Ready {
				could++
			}
		}
		return could == 90
	})
	w.until(func() bool { return slices.Contains(w.term.status(w.run(ids[0])).Reasons, "no live worker") })
	w.hire(2)
	w.untilPhase(runs.Done, ids...)
	count := func(of string, in []string) (n int) {
		for _, x := range in {
			if x == of {
				n++
			}
		}
		return n
	}
	if got := count("c", order[:30]); got < 28 {
		w.fail("%d of the first 30 tasks were of the higher priority: %v", got, order)
	}
	if got := count("a", order[30:60]); got < 12 || got > 18 {
		w.fail("%d of 30 tasks were of one of two equal runs: %v", got, order)
	}
}

func TestATaskWaitsForAWorkerThatMayRunIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options    plantest.ChainOptions
		take, give func(*world) // the ability of the workers
		reason     string
	}{
		"kind": {
			plantest.ChainOptions{}, func(w *world) { w.kinds = []string{"test/standing@1"} }, func(w *world) { w.kinds = plantest.Kinds.Advertised() },
			"no live worker supports test/part@1: worker w1 (coalmine of an unknown version) cannot help: it does not support test/part@1",
		},
		"secret key": {
			plantest.ChainOptions{SecretKey: "5ec4e7"}, func(*world) {}, func(w *world) { w.keys = []string{"5ec4e7"} }, "has the secret key 5ec4e7",
		},
		"commands": {
			plantest.ChainOptions{Class: tasks.Commands}, func(*world) {}, func(w *world) { w.classes = append(w.classes, string(tasks.Commands)) },
			"no live worker runs commands of experiments: start one with --allow-commands",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.options.Salt, c.options.Width, c.options.Steps = "x", 2, 3
			w := oneChain(t, 12, c.options)
			c.take(w)
			began := w.clock
			id := w.submit("a", 0)
			w.untilPhase(runs.Running, id)
			w.until(func() bool {
				said := strings.Contains(strings.Join(w.term.status(w.run(id)).Reasons, "\n"), c.reason)
				if said && name == "commands" && w.clock.Sub(began) <= policy.HeartbeatPatience {
					w.fail("said %v after the beginning, when workers may not have been heard", w.clock.Sub(began))
				}
				return said && !w.term.graph.AnyInFlight()
			})
			if w.ran[plantest.Part.Name] > 0 {
				w.fail("%d tasks ran on workers that may not run them", w.ran[plantest.Part.Name])
			}
			c.give(w)
			w.completes(id, "a")
		})
	}
}

// command is a plan of one command on workers of a class, with terms.
func command(t *testing.T, class tasks.Class, terms string, salts ...string) *plan.Plan {
	b := plantest.NewBuilder()
	for _, salt := range salts {
		trained := b.Node(plantest.Standing, plantest.Params{Salt: salt})
		b.Nodes[trained.Key].Class, b.Nodes[trained.Key].Terms = class, json.RawMessage(terms)
		b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "report of " + salt}, trained), trained)
	}
	return b.Done(t)
}

// The limits of a command are no part of its key: a file with more of it counts from then on,
// also while the run of the older one is at work, and in whichever order a new leader finds the
// two.
func TestCommandTermsComeFromNewestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 14, chaos{}, map[string]*plan.Plan{
		"older, named last": command(t, tasks.GPU, `{"seconds":60}`, "x"), "newer": command(t, tasks.Commands, `{"seconds":90000}`, "x"),
	})
	older := w.submit("older, named last", 0)
	w.untilPhase(runs.Running, older)
	w.until(func() bool {
		return slices.Contains(w.term.status(w.run(older)).Reasons, "no live worker runs commands of experiments on a gpu: start one with --class gpu --allow-commands")
	})
	w.clock = w.clock.Add(time.Second)
	newer := w.submit("newer", 0)
	w.untilPhase(runs.Running, newer)
	w.until(func() bool { return w.run(newer).Live() })
	w.lead()
	w.classes = append(w.classes, string(tasks.Commands))
	var sent attempts.Attempt
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if len(a.Terms) > 0 {
			sent = a
		}
		return nil
	}
	w.untilPhase(runs.Done, older, newer)
	if string(sent.Terms) != `{"seconds":90000}` || sent.Class != tasks.Commands {
		w.fail("the command had the terms %s and the class %q", sent.Terms, sent.Class)
	}
	if want := w.term.TaskTimeout.Seconds() + 90000; sent.TimeoutSeconds != want {
		w.fail("the attempt had %v s, want the %v of a task and of its limit", sent.TimeoutSeconds, want)
	}
}

// Trainings by commands are of any length: a long one beside short ones is at work once.
func TestSlowCommandGetsNoSecondAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 15, chaos{}, map[string]*plan.Plan{"a": command(t, tasks.Commands, `{}`, "a", "b", "c", "d", "long")})
	w.classes = append(w.classes, string(tasks.Commands))
	w.hire(2)
	ran := map[string]int{}
	begun := time.Time{}
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if len(a.Terms) == 0 {
			return nil
		}
		ran[string(a.Params)]++
		if strings.Contains(string(a.Params), "long") {
			begun = w.clock
			return hang
		}
		return nil
	}
	w.seconds = func(attempts.Attempt) float64 { return 0.1 }
	w.slow = func(*execution) float64 { return 1000 }
	w.submit("a", 0)
	w.until(func() bool { return !begun.IsZero() && len(ran) == 5 && w.clock.Sub(begun) > time.Minute })
	for params, n := range ran {
		if n != 1 {
			w.fail("the command %s ran %d times", params, n)
		}
	}
}

func TestStragglerGetsSecondAttempt(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 13, plantest.ChainOptions{Salt: "x", Width: 4, Steps: 6, Big: true})
	var stuck *execution
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Kind == plantest.Part.Name && a.Step == 4 && a.Part == 2 && a.Number == 1 {
			_, stuck = (*simQueue)(w).find(a.ID())
			return hang
		}
		return nil
	}
	w.slow = func(e *execution) float64 {
		if e == stuck {
			return 11
		}
		return 0.1
	}
	id := w.submit("a", 0)
	w.untilPhase(runs.Done, id)
	if stuck == nil || !stuck.stopped {
		w.fail("the straggler was not stopped once the second attempt was done")
	}
	w.checkTruth("a")
}

func TestCoordinatorSurvivesStorageFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		p := plantest.Random(t, rand.New(rand.NewPCG(seed, 4)))
		w := newWorld(t, seed, chaos{}, map[string]*plan.Plan{"a": p})
		id := w.submit("a", 0)
		w.faults = 200
		w.untilPhase(runs.Done, id)
		w.faults = 0
		w.settle()
		w.checkTruth("a")
	}
}

func TestDeposedLeaderDeletesNothing(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 14, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 40, Big: true})
	w.submit("a", 0)
	for w.ran[plantest.Join.Name] < 5 {
		w.step()
	}
	if _, _, err := w.archive.NextEpoch(context.Background(), storage.Epoch{Holder: "another"}); err != nil {
		t.Fatal(err)
	}
	var deleted []string
	for w.term.deposed == nil {
		before := w.names("")
		w.step()
		for _, name := range before {
			if _, err := w.memory.Head(context.Background(), name); errors.Is(err, storage.ErrNotFound) {
				deleted = append(deleted, name)
			}
		}
	}
	if len(deleted) > 0 {
		w.fail("deleted under an old epoch: %v", deleted)
	}
}

func TestRunWithInconsistentPlanIsRejected(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	n := b.Node(plantest.Standing, plantest.Params{Salt: "n"})
	b.Cell(n, plan.Ref{Key: storage.Key{Digest: storage.DigestOf([]byte("nowhere"))}})
	w := newWorld(t, 15, chaos{}, map[string]*plan.Plan{"a": &b.Plan})
	id := w.submit("a", 0)
	w.untilPhase(runs.Failed, id)
	if s := w.term.status(w.run(id)); !strings.Contains(s.Error, "which the plan does not contain") {
		w.fail("error %q", s.Error)
	}
}

func TestRunWithPanickingPlannerIsRejected(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 15, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 2})
	compile := w.term.Compile
	w.term.Compile = func(ctx context.Context, r *runs.Run) (plan.Parts, error) {
		switch r.Spec.Name {
		case "whole":
			panic("a fault in planning")
		case "part":
			return func() (*plan.Plan, error) { panic("a fault in planning") }, nil
		}
		return compile(ctx, r)
	}
	whole, part, sound := w.submit("whole", 0), w.submit("part", 0), w.submit("a", 0)
	w.untilPhase(runs.Failed, whole)
	w.untilPhase(runs.Failed, part)
	w.untilPhase(runs.Done, sound)
	for _, id := range []string{whole, part} {
		if s := w.term.status(w.run(id)); !strings.Contains(s.Error, "a fault in planning") {
			w.fail("error %q", s.Error)
		}
	}
}

func TestRemovedRunIsReleased(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 16, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 40})
	id := w.submit("a", 0)
	w.until(func() bool { return w.ran[plantest.Join.Name] > 3 })
	must.Do(t, w.archive.DeleteRun(context.Background(), id))
	w.until(func() bool { return w.term.records.byID[id] == nil && !w.term.graph.AnyInFlight() })
	if len(w.term.graph.Nodes())+len(w.term.graph.Chains())+w.term.ledger.Chains() > 0 {
		w.fail("%d nodes, %d chains, %d claims are still held", len(w.term.graph.Nodes()), len(w.term.graph.Chains()), w.term.ledger.Chains())
	}
}

// Nothing is deleted while the needs of some run are unknown. Once that run is gone
// the deletions go on, and a run that has waited for them ends.
func TestDeletionsResumeAfterRemovalOfUnplannedRun(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 17, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 5})
	compile := w.term.Compile
	w.term.Compile = func(ctx context.Context, r *runs.Run) (plan.Parts, error) {
		if r.Spec.Name == "unplanned" {
			return nil, errors.New("not yet")
		}
		return compile(ctx, r)
	}
	unplanned := w.submit("unplanned", 0)
	w.until(func() bool { return w.term.records.byID[unplanned] != nil })
	id := w.submit("a", 0)
	w.until(func() bool { return w.term.records.byID[id] != nil && !w.run(id).Tidying.IsZero() })
	if w.run(unplanned).claimed {
		w.fail("it is known what the run without a plan keeps")
	}
	waited := w.run(id).Tidying
	must.Do(t, w.archive.DeleteRun(context.Background(), unplanned))
	w.term.records.nudged()
	w.untilPhase(runs.Done, id)
	if took := w.clock.Sub(waited); took > policy.TidyPatience/2 {
		w.fail("the run ends %s after its last cell", took)
	}
	w.settle()
	w.checkTruth("a")
}
