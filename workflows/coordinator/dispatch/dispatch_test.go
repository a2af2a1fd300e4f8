package dispatch

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"coalmine/internal/queue"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// fixture dispatches the tasks of runs that have nothing but audits.
type fixture struct {
	*Dispatcher
	t *testing.T
	g *graph.Graph
}

var now = time.Unix(1_700_000_000, 0)

func newFixture(t *testing.T, slots int) *fixture {
	g := graph.New(slog.New(slog.DiscardHandler))
	x := &fixture{Dispatcher: New(g, plantest.Kinds), t: t, g: g}
	x.SetWorkers([]queue.Worker{worker(slots, plantest.Kinds.Advertised()...)})
	return x
}

func worker(slots int, kinds ...string) queue.Worker {
	return queue.Worker{ID: fmt.Sprint(slots), Classes: []string{string(tasks.Compute)}, Slots: slots, Kinds: kinds}
}

// audits adds a run of n audits, which are ready.
func (x *fixture) audits(name string, n, priority int) *graph.Run {
	b := plantest.NewBuilder()
	for i := range n {
		audit := b.Node(plantest.Standing, plantest.Params{Salt: fmt.Sprint(name, i)})
		b.Cell(audit, audit)
	}
	r := x.g.AddRun(name)
	x.g.SetState(r, runs.State{Phase: runs.Running, Priority: priority})
	x.g.AddPart(r, b.Done(x.t))
	x.g.Begin(r)
	x.settle()
	return r
}

// settle has the graph settle; nothing that it looks up is there.
func (x *fixture) settle() {
	for {
		x.g.Settle(now)
		requests := x.g.TakeRequests()
		if requests.Recounted {
			x.Reset()
		}
		for _, ready := range requests.Offer {
			x.Offer(ready)
		}
		for _, n := range requests.LookUp {
			x.g.Found(n, false)
		}
		if len(requests.LookUp) == 0 {
			return
		}
	}
}

// dispatch returns the runs that are served, in order.
func (x *fixture) dispatch() (served []string) {
	x.Dispatch(func(task *graph.Task, r *graph.Run) {
		x.Launched(task, r)
		x.g.Launch(task, r, x.ClassOf(task), 1, now)
		served = append(served, r.ID)
	})
	return served
}

func TestHighestPriorityGoesFirstAndEqualsTakeTurns(t *testing.T) {
	t.Parallel()
	x := newFixture(t, 3)
	x.audits("a", 4, 0)
	x.audits("b", 4, 0)
	x.audits("c", 2, 5)
	if got, want := x.dispatch(), []string{"c", "c", "a", "b", "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
	if got := x.dispatch(); got != nil {
		t.Errorf("served %v though %d attempts are in flight for 3 slots", got, x.g.InFlight(tasks.Compute))
	}
}

func TestDispatchKeepsSlotAndClassLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 3, 100} {
		x := newFixture(t, 2)
		x.Limits = map[tasks.Class]int{tasks.Compute: limit}
		x.audits("a", 10, 0)
		if got, want := len(x.dispatch()), min(limit, 2*policy.PerSlot); got != want {
			t.Errorf("with a limit of %d %d attempts were sent, want %d", limit, got, want)
		}
	}
}

func TestUrgentTasksPrecedeBacklog(t *testing.T) {
	t.Parallel()
	x := newFixture(t, 1)
	r := x.audits("a", 4, 0)
	x.dispatch()
	var sent []*graph.Task
	for _, a := range x.g.AttemptsInOrder() {
		sent = append(sent, a.Task)
		x.g.RemoveAttempt(a)
	}
	slices.SortFunc(sent, func(a, b *graph.Task) int { return int(a.Rank - b.Rank) })
	if len(sent) != 2 || sent[0].Rank != 0 || sent[1].Rank != 1 {
		t.Fatalf("sent %d tasks, of ranks %d and %d", len(sent), sent[0].Rank, sent[1].Rank)
	}
	sent[1].Urgent = true
	x.g.Requeue(sent[1])
	x.settle()
	x.Dispatch(func(task *graph.Task, by *graph.Run) {
		if x.g.AnyInFlight() {
			return
		}
		x.g.Launch(task, by, x.ClassOf(task), 1, now)
		if task != sent[1] || by != r {
			t.Errorf("task of rank %d goes first, want the urgent one", task.Rank)
		}
	})
}

func TestUnsupportedTaskIsParked(t *testing.T) {
	t.Parallel()
	x := newFixture(t, 1)
	x.SetWorkers([]queue.Worker{worker(1, "other@1")})
	r := x.audits("a", 1, 0)
	var audit *graph.Task
	for task := range x.g.TasksOf(r) {
		audit = task
	}
	if got := x.dispatch(); got != nil || audit.State() != graph.Parked || x.Fleet.MissingCapability(audit) == "" {
		t.Errorf("served %v; the task is %s and lacks %q", got, audit.State(), x.Fleet.MissingCapability(audit))
	}
	if x.SetWorkers([]queue.Worker{worker(1, "other@1")}) {
		t.Error("the same workers are said to be others")
	}
	x.SetWorkers([]queue.Worker{worker(1, plantest.Kinds.Advertised()...)})
	x.settle()
	if got := x.dispatch(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("served %v after a worker came", got)
	}
}
