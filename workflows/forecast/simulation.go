// These files predict the time of a plan on a cluster. They run the coordinator's own scheduling (packages graph and
// dispatch) on a simulated clock: the caller defines the durations of tasks, which compute nothing.
//
// The workers form two pools, of cores and of GPUs, that take tasks in the order of the queue. No task
// fails, and the workers stay the same.

package forecast

import (
	"cmp"
	"container/heap"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"coalmine/internal/lists"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/coordinator/dispatch"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Cluster is a cluster that runs a plan.
type Cluster struct {
	// Cores is the number of slots of all workers, each a core; at least 1.
	Cores int
	// GPUs is the number of further slots, for tasks of the class gpu. If it is 0, these tasks run on Cores.
	GPUs int
	// Registry holds the kinds of tasks that the workers execute.
	Registry tasks.Registry
	// Seconds returns the time of a task in seconds, including its inputs and outputs.
	Seconds func(*graph.Task) float64
}

// Outcome is the result of a simulation.
type Outcome struct {
	// Time is the time from the submission to the last commit.
	Time time.Duration
	// Busy is the fraction of the slots' time in which tasks ran, in [0, 1].
	Busy float64
}

// most is the approximate limit on simulated training tasks. Of longer trainings, several steps are simulated as one.
const most = 100_000

// Run simulates the missing nodes of a plan. It does not change the plan.
func (c Cluster) Run(p *plan.Plan, x *Explanation) (Outcome, error) {
	coarse := coarsen(p, most)
	s := &simulation{cluster: c, coarse: coarse, known: x, graph: graph.New(slog.New(slog.DiscardHandler)), start: time.Unix(0, 0), pools: [2]pool{{free: c.Cores}, {free: c.GPUs}}}
	s.dispatcher = dispatch.New(s.graph, c.Registry)
	s.dispatcher.SetWorkers([]queue.Worker{c.worker(p)})
	r := s.graph.AddRun("simulated")
	s.graph.SetState(r, runs.State{Phase: runs.Running})
	s.graph.AddPart(r, coarse.plan)
	s.graph.Begin(r)
	s.run()
	for _, cell := range r.Cells {
		if !cell.Done() {
			return Outcome{}, fmt.Errorf("simulating the plan on %d cores: cell %s has not ended after %v; this is a bug in Coalmine", c.Cores, cell.Plan.Name, s.now)
		}
	}
	return s.outcome(), nil
}

// worker returns a worker for all kinds, with all slots.
func (c Cluster) worker(p *plan.Plan) queue.Worker {
	w := queue.Worker{Slots: c.Cores, ClassSlots: map[string]int{}, Kinds: c.Registry.Advertised(), Classes: c.Registry.Classes()}
	if c.GPUs > 0 {
		w.ClassSlots[string(tasks.GPU)] = c.GPUs
	}
	keys := map[string]bool{}
	hold := func(key string) {
		if key != "" && !keys[key] {
			keys[key] = true
			w.Keys = append(w.Keys, key)
		}
	}
	for _, n := range p.Nodes {
		hold(n.SecretKey)
	}
	for _, ch := range p.Chains {
		hold(ch.Join.SecretKey)
	}
	return w
}

// simulation is one execution of a plan.
type simulation struct {
	cluster    Cluster
	coarse     coarsePlan
	known      *Explanation
	graph      *graph.Graph
	dispatcher *dispatch.Dispatcher

	start   time.Time
	now     float64 // seconds since the start
	busy    float64 // seconds of all slots
	pools   [2]pool // of cores, and of GPUs
	running agenda
}

// pool holds the number of free slots of some classes, and the attempts that wait for one.
type pool struct {
	free    int
	waiting []*graph.Attempt
}

func (s *simulation) poolOf(a *graph.Attempt) *pool {
	if a.Class == tasks.GPU && s.cluster.GPUs > 0 {
		return &s.pools[1]
	}
	return &s.pools[0]
}

func (s *simulation) run() {
	for {
		s.settle()
		s.fill()
		if len(s.running) == 0 {
			return
		}
		s.now = s.running[0].at
		for len(s.running) > 0 && s.running[0].at == s.now {
			s.finish(heap.Pop(&s.running).(event))
		}
	}
}

// settle answers the requests of the graph as the coordinator does, but from the explanation of storage.
func (s *simulation) settle() {
	for again := true; again; {
		s.graph.Settle(s.time())
		asks := s.graph.TakeRequests()
		again = len(asks.LookUp)+len(asks.Survey) > 0 || !s.graph.Settled()
		if asks.Recounted {
			s.dispatcher.Reset()
		}
		for _, x := range asks.Offer {
			s.dispatcher.Offer(x)
		}
		for _, n := range asks.LookUp {
			s.graph.Found(n, s.known.Nodes[n.Key].Disposition == Cached)
		}
		for _, ch := range asks.Survey {
			goals := ch.Goals()
			s.graph.Surveyed(ch, goals, s.survey(ch, goals))
		}
	}
}

// survey returns the state of a chain in storage: the outputs that no pass produces, and those from which
// passes start.
func (s *simulation) survey(ch *graph.Chain, goals []int) plan.StoredChain {
	known := s.known.Chains[ch.Recipe]
	found := plan.StoredChain{Frontier: s.coarse.round(known.Frontier)}
	there := map[int]bool{}
	for _, pass := range known.Passes {
		if from := s.coarse.round(pass.From); from > 0 {
			there[from] = true
		}
	}
	for _, goal := range goals {
		if !s.made(known.Passes, goal) {
			there[goal] = true
		}
	}
	found.Checkpoints = slices.Sorted(maps.Keys(there))
	return found
}

// made reports whether a pass produces a step.
func (s *simulation) made(passes []Pass, step int) bool {
	return slices.ContainsFunc(passes, func(p Pass) bool {
		return s.coarse.round(p.From) < step && step <= s.coarse.round(p.To)
	})
}

// fill dispatches tasks, and starts them on free slots.
func (s *simulation) fill() {
	s.dispatcher.Dispatch(func(x *graph.Task, r *graph.Run) {
		class := s.dispatcher.ClassOf(x)
		a := s.graph.Launch(x, r, class, 1, s.time())
		p := s.poolOf(a)
		p.waiting = append(p.waiting, a)
		s.dispatcher.Launched(x, r)
	})
	for i := range s.pools {
		for p := &s.pools[i]; len(p.waiting) > 0 && p.free > 0; p.free-- {
			a := p.waiting[0]
			p.waiting = p.waiting[1:]
			seconds := s.cluster.Seconds(a.Task) * s.coarse.repeats(a.Task)
			s.busy += seconds
			heap.Push(&s.running, event{s.now + seconds, a, seconds})
		}
	}
}

// finish commits an attempt.
func (s *simulation) finish(e event) {
	s.poolOf(e.attempt).free++
	s.graph.Durations(e.attempt.Task).Add(e.seconds)
	s.dispatcher.UseTime(e.attempt.Task, e.seconds)
	s.graph.RemoveAttempt(e.attempt)
	s.graph.Commit(e.attempt.Task, nil, s.time())
}

func (s *simulation) time() time.Time { return s.start.Add(duration(s.now)) }

func (s *simulation) outcome() Outcome {
	o := Outcome{Time: duration(s.now)}
	if s.now > 0 {
		o.Busy = s.busy / s.now / float64(s.cluster.Cores+s.cluster.GPUs)
	}
	return o
}

// event is the end of an attempt.
type event struct {
	at      float64 // seconds since the start
	attempt *graph.Attempt
	seconds float64
}

// agenda is a heap of future events. Attempts that end at the same time end in the order of their ids.
type agenda []event

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].at, a[j].at), cmp.Compare(a[i].attempt.ID, a[j].attempt.ID)) < 0
}
func (a *agenda) Push(x any) { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// duration converts seconds. It limits them to half the longest duration.
func duration(seconds float64) time.Duration {
	return time.Duration(math.Min(seconds*float64(time.Second), math.MaxInt64/2))
}

// coarsePlan is a plan in which one step stands for several steps of a training.
type coarsePlan struct {
	plan *plan.Plan
	// of holds the chains of the original plan, by recipe.
	of     map[storage.Key]*plan.Chain
	chains map[storage.Key]*plan.Chain
	each   int // original steps of a coarse step
}

// coarsen copies a plan. The copy has about most training tasks, or fewer.
func coarsen(p *plan.Plan, most int) coarsePlan {
	number := 0.0
	for _, ch := range p.Chains {
		number += float64(ch.Steps) * float64(ch.Width+1)
	}
	c := coarsePlan{of: p.Chains, chains: map[storage.Key]*plan.Chain{}, each: max(1, int(math.Ceil(number/float64(most))))}
	for recipe, ch := range p.Chains {
		c.chains[recipe] = &plan.Chain{Recipe: recipe, Steps: c.round(ch.Steps), StepRounds: ch.StepRounds, Width: ch.Width}
	}
	c.plan = &plan.Plan{Nodes: map[storage.Key]*plan.Node{}, Chains: c.chains}
	for recipe, ch := range p.Chains {
		c.chains[recipe].Origin = c.ref(ch.Origin)
		c.chains[recipe].Part, c.chains[recipe].Join = c.template(ch.Part), c.template(ch.Join)
		c.chains[recipe].Keep = lists.Map(ch.Keep, c.round)
	}
	for key, n := range p.Nodes {
		c.plan.Nodes[key] = &plan.Node{Spec: n.Spec, Label: n.Label, Needs: lists.Map(n.Needs, c.ref)}
	}
	for i := range p.Cells {
		cell := p.Cells[i]
		cell.Report, cell.Model = c.ref(cell.Report), c.ref(cell.Model)
		c.plan.Cells = append(c.plan.Cells, cell)
	}
	return c
}

// round returns the coarse step that contains a step.
func (c *coarsePlan) round(step int) int { return (step + c.each - 1) / c.each }

func (c *coarsePlan) ref(r plan.Ref) plan.Ref {
	if r.Chain == nil {
		return r
	}
	return c.chains[r.Chain.Recipe].At(c.round(r.Step))
}

func (c *coarsePlan) template(t plan.Template) plan.Template {
	t.Needs = lists.Map(t.Needs, c.ref)
	return t
}

// repeats returns the number of original tasks that a task represents.
func (c *coarsePlan) repeats(x *graph.Task) float64 {
	ch := x.Chain()
	if ch == nil {
		return 1
	}
	return float64(c.of[ch.Recipe].Steps) / float64(c.chains[ch.Recipe].Steps)
}
