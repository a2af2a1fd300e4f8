package observe

import (
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"testing"
	"time"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/dispatch"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// fixture is a graph of runs of nothing but audits, of which storage has none.
type fixture struct {
	View
	t *testing.T
}

func newFixture(t *testing.T, workers ...queue.Worker) *fixture {
	g := graph.New(slog.New(slog.DiscardHandler))
	now := time.Unix(1_700_000_000, 0)
	x := &fixture{t: t, View: View{Graph: g, Dispatcher: dispatch.New(g, plantest.Kinds), MaxTries: policy.MaxTries, Now: now, Began: now}}
	x.Dispatcher.SetWorkers(workers)
	return x
}

// audits adds a run of n audits, each for a cell, and returns it with its tasks, which
// are ready.
func (x *fixture) audits(name string, n int) (*Run, []*graph.Task) {
	b := plantest.NewBuilder()
	var audits []plan.Ref
	for i := range n {
		audit := b.Node(plantest.Standing, plantest.Params{Salt: fmt.Sprint(name, i)})
		audits = append(audits, audit)
		b.Cell(audit, audit)
	}
	r := x.begin(name, b.Done(x.t))
	var all []*graph.Task
	for _, ref := range audits {
		all = append(all, &x.Graph.Node(ref.Key).Task)
	}
	return r, all
}

// begin adds a running run of a plan.
func (x *fixture) begin(name string, p *plan.Plan) *Run {
	r := &Run{Run: x.Graph.AddRun(name), Name: name}
	x.Graph.SetState(r.Run, runs.State{Phase: runs.Running})
	x.Graph.AddPart(r.Run, p)
	x.Graph.Begin(r.Run)
	x.settle()
	return r
}

// settle has the graph settle; nothing that it looks up is there.
func (x *fixture) settle() {
	for {
		x.Graph.Settle(x.Now)
		requests := x.Graph.TakeRequests()
		if len(requests.LookUp)+len(requests.Survey) == 0 && x.Graph.Settled() {
			return
		}
		for _, ch := range requests.Survey {
			x.Graph.Surveyed(ch, ch.Goals(), plan.StoredChain{})
		}
		for _, n := range requests.LookUp {
			x.Graph.Found(n, false)
		}
	}
}

// left returns the time left of a run in seconds, or NaN if it is unknown.
func (x *fixture) left(r *Run) float64 {
	if left := x.View.Status(r).SecondsLeft; left != nil {
		return *left
	}
	return math.NaN()
}

func (x *fixture) launch(r *Run, task *graph.Task) *graph.Attempt {
	return x.Graph.Launch(task, r.Run, tasks.Compute, 1, x.Now)
}

// finish ends a task whose attempt took the given number of seconds.
func (x *fixture) finish(r *Run, task *graph.Task, seconds float64) {
	x.Graph.RemoveAttempt(x.launch(r, task))
	x.Graph.Durations(task).Add(seconds)
	x.Graph.Commit(task, nil, x.Now)
	x.settle()
}

// worker is a worker of the given number of slots that knows all kinds.
func worker(slots int) queue.Worker {
	return queue.Worker{ID: "w1", Classes: []string{string(tasks.Compute)}, Slots: slots, Kinds: plantest.Kinds.Advertised()}
}

// atWork is how far an attempt is.
type atWork struct {
	running     float64
	done, total int64
}

func TestTimeLeftCountsAudits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		done    []float64
		atWork  []atWork
		waiting int
		want    float64 // seconds; negative: nothing is known
	}{
		{"all done", []float64{3}, nil, 0, 0},
		{"nothing seen", nil, []atWork{{running: 5}}, 3, -1},
		{"siblings, on two slots", []float64{2, 2, 8}, nil, 5, 10},
		{"one alone", []float64{6}, nil, 1, 6},
		{"at work, by its siblings", []float64{6}, []atWork{{running: 4}}, 0, 2},
		{"at work, longer than its siblings", []float64{6}, []atWork{{running: 9}}, 0, -1},
		{"at work, by its progress", nil, []atWork{{running: 9, done: 3, total: 5}}, 0, 6},
	} {
		x := newFixture(t, worker(2))
		r, audits := x.audits("a", len(c.done)+len(c.atWork)+c.waiting)
		for _, seconds := range c.done {
			x.finish(r, audits[0], seconds)
			audits = audits[1:]
		}
		for _, at := range c.atWork {
			a := x.launch(r, audits[0])
			a.Running, a.Progress = at.running, queue.Progress{Done: at.done, Total: at.total}
			audits = audits[1:]
		}
		got := x.View.Status(r).SecondsLeft
		if (got == nil) != (c.want < 0) || got != nil && math.Abs(*got-c.want) > 1e-9 {
			t.Errorf("%s: %v left, want %v", c.name, got, c.want)
		}
	}
}

// An audit may take longer than all that is known; the sum of audits takes no time.
func TestTimeLeftIsUnknownBeforeFirstAudit(t *testing.T) {
	t.Parallel()
	x := newFixture(t, worker(2))
	b := plantest.NewBuilder()
	model := b.Node(plantest.Standing, plantest.Params{Salt: "model"})
	other := b.Node(plantest.Standing, plantest.Params{Salt: "other"})
	audits := []plan.Ref{b.Node(plantest.Part, plantest.Params{Salt: "one"}, model), b.Node(plantest.Part, plantest.Params{Salt: "two"}, model)}
	b.Cell(b.Node(plantest.Report, plantest.Params{}, append(audits, other)...), model)
	r := x.begin("a", b.Done(t))
	task := func(ref plan.Ref) *graph.Task { return &x.Graph.Node(ref.Key).Task }
	left := func() *float64 { return x.View.Status(r).SecondsLeft }
	x.finish(r, task(model), 1)
	if got := left(); got != nil {
		t.Errorf("%v left with audits that nobody has timed", *got)
	}
	x.finish(r, task(audits[0]), 100)
	if got := left(); got == nil || *got != 100 {
		t.Errorf("%v left, want the 100 seconds of the other audit", got)
	}
	x.finish(r, task(audits[1]), 100)
	if got := left(); got == nil || *got != 1 {
		t.Errorf("%v left, want the second of the other node", got)
	}
}

// begun adds a run with a training of five steps, and its audit, for each of seconds, the duration of the training's
// finished first step. It returns their second steps.
func (x *fixture) begun(seconds ...float64) (*Run, []*graph.Task) {
	b := plantest.NewBuilder()
	origin := b.Node(plantest.Standing, plantest.Params{Salt: "origin"})
	var chains []*plan.Chain
	for i := range seconds {
		ch := b.Chain(plantest.ChainOptions{Salt: fmt.Sprint(i), Steps: 5}, origin)
		b.Cell(b.Node(plantest.Report, plantest.Params{Salt: fmt.Sprint("report", i)}, ch.At(5)), ch.At(5))
		chains = append(chains, ch)
	}
	r := x.begin("trainings", b.Done(x.t))
	x.finish(r, &x.Graph.Node(origin.Key).Task, 1)
	var steps []*graph.Task
	for i, plan := range chains {
		ch := x.Graph.Chain(plan.Recipe)
		x.finish(r, ch.Current.Join, seconds[i])
		steps = append(steps, ch.Current.Join)
	}
	return r, steps
}

// Of three trainings on two slots, two run.
func TestTimeLeftFallsWhileLongestTrainingWaits(t *testing.T) {
	t.Parallel()
	x := newFixture(t, worker(2))
	r, steps := x.begun(2, 2, 10)
	var running []*graph.Attempt
	for _, step := range steps[:2] {
		a := x.launch(r, step)
		a.Worker = "w1"
		running = append(running, a)
	}
	for seconds, want := range map[float64]float64{0: 42, 1: 41, 2: 40} {
		for _, a := range running {
			a.Running = seconds
		}
		if got := x.left(r); got != want {
			t.Errorf("after %g of the 2 seconds of the steps that occupy the slots, %v left, want %g", seconds, got, want)
		}
	}
}

func TestTimeLeftFallsWithinStep(t *testing.T) {
	t.Parallel()
	x := newFixture(t, worker(2))
	r, steps := x.begun(10)
	a := x.launch(r, steps[0])
	a.Worker, a.Running = "w1", 6
	if got := x.left(r); got != 34 {
		t.Errorf("%v left, want 34 after 6 seconds of the second of five steps", got)
	}
	a.Progress = queue.Progress{Done: 30, Total: 60} // slower than the first step
	if got := x.left(r); got != 36 {
		t.Errorf("%v left, want 36 in the middle of the second of five steps", got)
	}
}

// The tail of a training is timed by its own steps, not by another training's.
func TestTimeLeftOfTailFollowsItsTraining(t *testing.T) {
	t.Parallel()
	x, b := newFixture(t, worker(2)), plantest.NewBuilder()
	origin := b.Node(plantest.Standing, plantest.Params{Salt: "origin"})
	ch := b.Chain(plantest.ChainOptions{Salt: "chain", Steps: 1}, origin)
	ch.StepRounds = 10
	tail := b.Node(plantest.Standing, plantest.Params{Salt: "tail"}, ch.At(1))
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "report"}, origin), tail)
	b.Cells[0].Chain, b.Cells[0].Tail = ch, plan.Tail{After: 1, Rounds: 5, Node: tail}
	r := x.begin("run", b.Done(t))
	x.finish(r, &x.Graph.Node(origin.Key).Task, 100) // a node of the same kind
	x.finish(r, x.Graph.Chain(ch.Recipe).Current.Join, 8)
	if got := x.left(r); got != 4 {
		t.Errorf("%v left, want 4 for 5 steps after 10 that took 8 seconds", got)
	}
	x.launch(r, &x.Graph.Node(tail.Key).Task).Running = 5
	if got := x.left(r); got != 0 {
		t.Errorf("%v left, want 0 for steps that take longer than expected", got)
	}
}

// A training without a chain is known from its own progress.
func TestTimeLeftIsUnknownBeforeTrainingHasProgress(t *testing.T) {
	t.Parallel()
	x, b := newFixture(t, worker(2)), plantest.NewBuilder()
	chain := b.Chain(plantest.ChainOptions{Salt: "chain", Steps: 2}, b.Node(plantest.Standing, plantest.Params{Salt: "origin"}))
	b.Cell(chain.At(2), chain.At(2))
	model := b.Node(plantest.Report, plantest.Params{Salt: "model"}, chain.Origin)
	b.Cell(model, model)
	b.Cells[1].Tail = plan.Tail{Rounds: 24, Node: model}
	audit := b.Node(plantest.Part, plantest.Params{Salt: "audit"}, model) // of unknown duration
	b.Cell(audit, model)
	r := x.begin("run", b.Done(t))
	x.finish(r, &x.Graph.Node(chain.Origin.Key).Task, 1)
	x.finish(r, x.Graph.Chain(chain.Recipe).Current.Join, 3)
	if got := x.left(r); !math.IsNaN(got) {
		t.Errorf("%v left with a training that nobody has timed", got)
	}
	a := x.launch(r, &x.Graph.Node(model.Key).Task)
	a.Worker, a.Running, a.Progress = "w1", 8, queue.Progress{Done: 8, Total: 24}
	if got := x.left(r); got != 16 {
		t.Errorf("%v left, want the 16 seconds of the other training", got)
	}
	x.finish(r, x.Graph.Chain(chain.Recipe).Current.Join, 3)
	if got := x.left(r); got != 16 {
		t.Errorf("%v left after the first training, want the 16 seconds of the other", got)
	}
}

func TestTaskIsQueuedUntilWorkerIsKnown(t *testing.T) {
	t.Parallel()
	x := newFixture(t, worker(2))
	r, audits := x.audits("a", 1)
	if got := x.View.taskState(audits[0]); got != Ready {
		t.Errorf("%s, want %s", got, Ready)
	}
	a := x.launch(r, audits[0])
	if got := x.View.taskState(audits[0]); got != Queued {
		t.Errorf("%s, want %s", got, Queued)
	}
	a.Worker = "w1"
	if got := x.View.taskState(audits[0]); got != Running {
		t.Errorf("%s, want %s", got, Running)
	}
}

// A run that keeps all slots busy by itself is not held up, though some of its tasks
// wait for a slot, and though no heartbeat has told yet that a worker has one.
func TestRunUsingAllSlotsIsNotSlow(t *testing.T) {
	t.Parallel()
	for _, limited := range []bool{false, true} {
		x := newFixture(t, worker(2))
		if limited {
			x.Dispatcher.Limits = map[tasks.Class]int{tasks.Compute: 2}
		}
		r, audits := x.audits("alone", 5)
		x.launch(r, audits[0])
		x.launch(r, audits[1])
		var s *status.Run
		look := func(r *Run) {
			x.View.Status(r)
			x.Now = x.Now.Add(2 * policy.ShortWait)
			s = x.View.Status(r)
		}
		if look(r); s.Health != status.Working || len(s.Waits) > 0 {
			t.Errorf("limited %v: alone it is %s and waits for %+v", limited, s.Health, s.Waits)
		}
		other, _ := x.audits("other", 1)
		want := status.WaitSlot
		if limited {
			want = status.WaitLimit
		}
		if look(other); s.Health != status.Slow || len(s.Waits) != 1 || s.Waits[0].Reason != want {
			t.Errorf("limited %v: a run behind it is %s and waits for %+v, want %s", limited, s.Health, s.Waits, want)
		}
		if look(r); s.Health != status.Working {
			t.Errorf("limited %v: beside a run that waits it is %s and waits for %+v", limited, s.Health, s.Waits)
		}
	}
}

func TestStragglerIsReportedWithSiblingTimes(t *testing.T) {
	t.Parallel()
	x := newFixture(t, worker(4))
	r, audits := x.audits("a", 5)
	for _, audit := range audits[:3] {
		x.finish(r, audit, 2)
	}
	a := x.launch(r, audits[3])
	a.Worker, a.Running = "w1", 9
	if s := x.View.Status(r); len(s.Waits) > 0 {
		t.Errorf("after 9 s beside siblings of 2 s it waits for %+v", s.Waits)
	}
	a.Running = 11
	s := x.View.Status(r)
	if len(s.Waits) != 1 || s.Waits[0].Reason != status.WaitStraggler || s.Waits[0].Worker != "w1" || !s.Waits[0].Since.Equal(x.Now.Add(-11*time.Second)) {
		t.Errorf("after 11 s it waits for %+v", s.Waits)
	}
	if s.Health != status.Slow {
		t.Errorf("it is %s", s.Health)
	}
	// A worker reports its seconds of work with a delay.
	x.Now = x.Now.Add(3 * time.Second)
	a.Running = 13
	if later := x.View.Status(r); !reflect.DeepEqual(later.Waits, s.Waits) {
		t.Errorf("the reason changes with the seconds, from %+v to %+v", s.Waits, later.Waits)
	}
}

func TestStatusCountsTasksAndListsRunning(t *testing.T) {
	t.Parallel()
	x := newFixture(t, worker(4))
	r, audits := x.audits("a", 4)
	x.finish(r, audits[0], 2)
	a := x.launch(r, audits[1])
	a.Worker, a.Running, a.Progress = "w1", 3, queue.Progress{Done: 1, Total: 2}
	s := x.View.Status(r)
	if s.Nodes != (status.Counts{Total: 4, Done: 1, Running: 1, Ready: 2}) {
		t.Errorf("counts %+v", s.Nodes)
	}
	if len(s.Running) != 1 || s.Running[0].Key != audits[1].Key || s.Running[0].Seconds != 3 || s.Running[0].Total != 2 {
		t.Errorf("at work %+v", s.Running)
	}
	for i, want := range []runs.Phase{runs.Done, runs.Running, runs.Queued, runs.Queued} {
		if s.Cells[i].Phase != want {
			t.Errorf("cell %s is %s, want %s", s.Cells[i].Cell, s.Cells[i].Phase, want)
		}
	}
	if len(s.Workers) != 1 || s.Workers[0].Slots != 4 {
		t.Errorf("workers %+v", s.Workers)
	}
	if len(s.Queues) != 1 || s.Queues[0].Slots != 4 || s.Queues[0].Running != 1 || s.Queues[0].Ready != 2 || s.Queues[0].Queued != 0 {
		t.Errorf("queues %+v", s.Queues)
	}
	x.View.SaveCells(r)
	x.Graph.SetState(r.Run, runs.State{Phase: runs.Cancelled})
	x.Graph.Release(r.Run)
	if s := x.View.Status(r); s.Cells[0].Phase != runs.Done || s.Cells[1].Phase != runs.Cancelled || s.Health != "" {
		t.Errorf("after its end: cells %+v, health %q", s.Cells, s.Health)
	}
}

func TestRateCountsTargetsOfModels(t *testing.T) {
	t.Parallel()
	for want, targets := range map[string][]string{"tokens": {"token", "token"}, "examples": {"example", "example"}, "targets": {"token", "example"}} {
		x := newFixture(t, worker(2))
		r, _ := x.audits("a", 2)
		for i, target := range targets {
			r.Cells[i].Plan.Target = target
		}
		if got := x.View.Status(r).RateUnit; got != want {
			t.Errorf("models of %v: %q, want %q", targets, got, want)
		}
	}
}

// A program that trains tells of its rounds before its model is there.
func TestRoundsReportedByProgramAreShown(t *testing.T) {
	t.Parallel()
	x, b := newFixture(t, worker(4)), plantest.NewBuilder()
	model := b.Node(plantest.Standing, plantest.Params{Salt: "model"})
	b.Cell(model, model)
	b.Cells[0].Tail = plan.Tail{Rounds: 24, Node: model}
	r := &Run{Run: x.Graph.AddRun("run"), Name: "run"}
	x.Graph.SetState(r.Run, runs.State{Phase: runs.Running})
	x.Graph.AddPart(r.Run, b.Done(t))
	x.Graph.Begin(r.Run)
	x.settle()
	a := x.launch(r, &x.Graph.Node(model.Key).Task)
	a.Worker, a.Progress = "w1", queue.Progress{Done: 7, Total: 24, Metrics: map[string]float64{"loss": 3.5}}
	if c := x.View.Status(r).Cells[0]; c.Step != 7 || c.Steps != 24 || c.Metrics["loss"] != 3.5 {
		t.Errorf("%d of %d rounds are behind it with the numbers %v, want 7 of 24 with a loss of 3.5", c.Step, c.Steps, c.Metrics)
	}
	a.Progress.Total = 3 // something else than rounds
	if c := x.View.Status(r).Cells[0]; c.Step != 0 || c.Metrics != nil {
		t.Errorf("%d rounds with the numbers %v are behind a training that tells of none", c.Step, c.Metrics)
	}
}

// A step that is at work says whose training it is, of many cells of the first ones.
func TestRunningStepsNameTheirCells(t *testing.T) {
	t.Parallel()
	x, b := newFixture(t), plantest.NewBuilder()
	origin := b.Node(plantest.Standing, plantest.Params{Salt: "origin"})
	shared := b.Chain(plantest.ChainOptions{Salt: "shared", Steps: 2}, origin)
	own := b.Chain(plantest.ChainOptions{Salt: "own", Steps: 2}, origin)
	b.Cell(origin, own.At(2))
	for i := range status.AttemptCells + 5 {
		b.Cell(b.Node(plantest.Standing, plantest.Params{Salt: fmt.Sprint("report", i)}), shared.At(2))
	}
	b.Cell(origin, origin)
	r := x.Graph.AddRun("run")
	x.Graph.SetState(r, runs.State{Phase: runs.Running})
	x.Graph.AddPart(r, b.Done(t))
	x.Graph.Begin(r)
	cells := trainings(x.Graph, r)
	if got := cells[x.Graph.Chain(own.Recipe)]; len(got) != 1 || got[0] != "c01" {
		t.Errorf("the training of the first cell is that of %v", got)
	}
	if got := cells[x.Graph.Chain(shared.Recipe)]; len(got) != status.AttemptCells || got[0] != "c02" {
		t.Errorf("the training of many cells is that of %v", got)
	}
	if got := cells[nil]; len(got) > 0 {
		t.Errorf("what is no step is the training of %v", got)
	}
}
