package forecast

import (
	"fmt"
	"math"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

// Two federated trainings in five parts, and one of SGD in tasks of ten steps.
const file = `
name: simulated
data: {source: a.jsonl, users: {words: 50}, vocabulary: {size: 50}}
training: {cohort: 10, chunks: 5, rounds: 30}
audit: {utility: true, every: 10}
grid:
  axes:
    training: [{}, {client: {learning_rate: 0.1}}, {algorithm: sgd, rounds: 300, steps_per_task: 10}]
`

func planned(t *testing.T, sets ...string) *plan.Plan {
	t.Helper()
	return must.Get(compile.Plan(plantest.Resolve(t, file, []storage.Digest{storage.DigestOf([]byte("the text"))}, sets...)))(t)
}

func explained(t *testing.T, p *plan.Plan) *Explanation {
	t.Helper()
	store := must.Get(dir.Open(t.TempDir()))(t)
	return must.Get(Explain(t.Context(), p, storage.NewArchive(store)))(t)
}

// seconds of parts, joins and standing nodes.
func seconds(x *graph.Task) float64 {
	switch {
	case x.Step == nil:
		return 0.5
	case x == x.Step.Join:
		return 1
	}
	return 3
}

func simulate(t *testing.T, p *plan.Plan, x *Explanation, cores int) Outcome {
	t.Helper()
	return must.Get(Cluster{Cores: cores, Registry: compile.Registry(), Seconds: seconds}.Run(p, x))(t)
}

// work is the time of all tasks one after the other.
func work(p *plan.Plan) (total float64) {
	for _, ch := range p.Chains {
		total += float64(ch.Steps) * float64(3*ch.Width+1)
	}
	return total + 0.5*float64(len(p.Nodes))
}

// One core is never idle, and its time is that of all tasks.
func TestOneCoreRunsTasksSequentially(t *testing.T) {
	t.Parallel()
	p := planned(t)
	o := simulate(t, p, explained(t, p), 1)
	if want := work(p); math.Abs(o.Time.Seconds()-want) > 1e-6 || math.Abs(o.Busy-1) > 1e-9 {
		t.Errorf("%+v, want %v s", o, want)
	}
}

// However many cores there are, a training goes step by step: 30 rounds of a part and a join,
// after import, encode, balance and partition; and the last measurement, its sum and the report
// follow.
func TestManyCoresWaitForTheLongestTraining(t *testing.T) {
	t.Parallel()
	p := planned(t)
	o := simulate(t, p, explained(t, p), 1000)
	want := 4*0.5 + 30*(3+1) + 3*0.5
	if math.Abs(o.Time.Seconds()-want) > 1e-6 {
		t.Errorf("%v, want %v s", o.Time, want)
	}
	if spent := o.Busy * o.Time.Seconds() * 1000; math.Abs(spent-work(p)) > 1e-6*spent {
		t.Errorf("the cores worked %v s, want %v", spent, work(p))
	}
}

// A grid of one training in one part uses one of two cores: only its measurements overlap with the training. A
// second training halves the time.
func TestSecondCoreNeedsSecondTraining(t *testing.T) {
	t.Parallel()
	for _, training := range []string{"chunks: 1", "algorithm: sgd, rounds: 300, steps_per_task: 10"} {
		p := planned(t, fmt.Sprintf("grid.axes.training=[{%s}]", training), "audit.every=null")
		one, two := simulate(t, p, explained(t, p), 1), simulate(t, p, explained(t, p), 2)
		if one.Time.Seconds() < 30 || two.Time < one.Time*90/100 || two.Busy > 0.55 {
			t.Errorf("%s: %+v on one core, %+v on two", training, one, two)
		}
		p = planned(t, fmt.Sprintf("grid.axes.training=[{%s}, {%s, client: {learning_rate: 0.1}}]", training, training), "audit.every=null")
		one, two = simulate(t, p, explained(t, p), 1), simulate(t, p, explained(t, p), 2)
		if two.Time > one.Time*55/100 || two.Busy < 0.9 {
			t.Errorf("%s, twice: %+v on one core, %+v on two", training, one, two)
		}
	}
}

// In between no cluster beats its cores or the critical path, nor one of half the cores.
func TestMoreCoresTakeNoLonger(t *testing.T) {
	t.Parallel()
	p := planned(t)
	x := explained(t, p)
	longest, before := simulate(t, p, x, 1000).Time, time.Duration(math.MaxInt64)
	for cores := 1; cores <= 64; cores *= 2 {
		o := simulate(t, p, x, cores)
		if least := work(p) / float64(cores); o.Time.Seconds() < least-1e-6 || o.Time < longest || o.Time > before {
			t.Errorf("%d cores: %v; half as many take %v, the work alone %v s", cores, o.Time, before, least)
		}
		before = o.Time
	}
}

// Of a training that is coarsened, steps stand for others: the time stays nearly the same.
func TestLongTrainingIsSimulatedInFewerSteps(t *testing.T) {
	t.Parallel()
	p := planned(t, "grid=null", "training.rounds=100000", "audit.every=25000")
	o := simulate(t, p, explained(t, p), 3)
	// Five parts on three cores are two after each other, then the join.
	want := 100_000 * (2*3 + 1.0)
	if math.Abs(o.Time.Seconds()-want) > 1e-3*want {
		t.Errorf("%v, want about %v s", o.Time, want)
	}
}

// Cached nodes do not run again: none runs, or only the second half of a training.
func TestCachedNodesTakeNoTime(t *testing.T) {
	t.Parallel()
	p := planned(t, "grid=null")
	x := explained(t, p)
	for recipe, ch := range x.Chains {
		if len(ch.Passes) != 1 || ch.Passes[0] != (Pass{From: 0, To: 30}) {
			t.Fatalf("passes %v of %s", ch.Passes, recipe)
		}
		ch.Frontier, ch.Passes = 20, []Pass{{From: 20, To: 30}}
	}
	for key, n := range x.Nodes {
		n.Disposition = Cached
		x.Nodes[key] = n
	}
	report := x.Nodes[p.Cells[0].Report.Key]
	report.Disposition = ToRun
	x.Nodes[p.Cells[0].Report.Key] = report
	if o := simulate(t, p, x, 100); o.Time != 40*time.Second+500*time.Millisecond && o.Time != 40*time.Second {
		t.Errorf("the second half takes %v", o.Time)
	}
	report.Disposition = Cached
	x.Nodes[p.Cells[0].Report.Key] = report
	for _, ch := range x.Chains {
		ch.Frontier, ch.Passes = 30, nil
	}
	if o := simulate(t, p, x, 100); o.Time != 0 || o.Busy != 0 {
		t.Errorf("nothing takes %+v", o)
	}
}

// The parts of a round run on the one GPU one after the other, with any number of cores.
func TestTasksOfTheClassGPUShareTheGPUs(t *testing.T) {
	t.Parallel()
	p := planned(t, "grid=null", "model={kind: cifg-lstm}", "training.engine=pytorch", "training.pytorch={class: gpu}")
	x := explained(t, p)
	for gpus, perRound := range map[int]float64{1: 5*3 + 1, 2: 3*3 + 1, 5: 3 + 1, 0: 2*3 + 1} {
		o, err := Cluster{Cores: 3, GPUs: gpus, Registry: compile.Registry(), Seconds: seconds}.Run(p, x)
		if want := 30 * perRound; err != nil || o.Time.Seconds() < want || o.Time.Seconds() > want+6 {
			t.Errorf("%d GPUs: %v, %v; want the %g s of 30 rounds, and up to 6 s of other tasks", gpus, o.Time, err, want)
		}
	}
}
