package observe

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"coalmine/internal/queue"
	"coalmine/internal/readable"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// Status describes a run.
func (v *View) Status(r *Run) *status.Run {
	s := &status.Run{
		Run: r.ID, Name: r.Name, Phase: r.State.Phase, Error: r.State.Error,
		Submitted: r.State.Submitted, Started: r.State.Started, Finished: r.State.Finished,
		TokensPerSecond: r.Tokens.Rate(v.Now), LastProgress: r.Progressed,
	}
	if s.Phase.Finished() && r.Pending {
		s.Phase = r.Stored // other processes see the end once it is stored
	}
	for _, key := range plan.SortedKeys(r.State.Failures) {
		s.Failures = append(s.Failures, status.Failure{Key: key, Failure: r.State.Failures[key]})
	}
	s.Nodes.Failed = len(s.Failures)
	s.Workers = v.workers(r.Run)
	v.addWaits(s, r)
	if !r.Live() {
		s.Cells = r.endedCells()
		return s
	}
	s.Running = v.running(r.Run)
	v.countNodes(&s.Nodes, r.Run)
	s.Queues = v.queues(r.Run)
	s.Cells, s.RateUnit = v.cells(r.Run), rateUnit(r.Run)
	if s.Health != status.Stuck && s.Health != status.Paused {
		s.SecondsLeft = v.secondsLeft(r.Run)
	}
	return s
}

// rateUnit names the targets of a run's models in the plural.
func rateUnit(r *graph.Run) string {
	unit := ""
	for _, c := range r.Cells {
		switch target := readable.Plural(cmp.Or(c.Plan.Target, "token")); {
		case unit == "":
			unit = target
		case unit != target:
			return "targets"
		}
	}
	return unit
}

// wantedKinds returns one task of each kind that a run still wants, in order.
func (v *View) wantedKinds(r *graph.Run) []*graph.Task {
	type kind struct {
		name    string
		version int
	}
	kinds := make(map[kind]*graph.Task)
	if r.Live() {
		for x := range v.Graph.TasksOf(r) {
			if x.State() != graph.Finished && x.WantedBy(r) {
				kinds[kind{x.Kind(), x.Version()}] = x
			}
		}
	}
	return slices.SortedFunc(maps.Values(kinds), func(a, b *graph.Task) int {
		return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), cmp.Compare(a.Version(), b.Version()))
	})
}

// cannotHelp explains why a worker's build cannot run tasks of a run, "" if it can. It ignores whether the
// worker allows commands of experiments.
func (v *View) cannotHelp(w *queue.Worker, wanted []*graph.Task) string {
	fleet := &v.Dispatcher.Fleet
	if why := fleet.Useless[w.ID]; why != "" {
		return why
	}
	var all []string
	for _, x := range wanted {
		why := fleet.Unknown(w, x.Kind(), x.Version())
		if why != "" && (x.Class() == "" || slices.Contains(w.Classes, string(x.Class()))) {
			all = append(all, why)
		}
	}
	return strings.Join(all, ", ")
}

func (v *View) workers(r *graph.Run) []status.Worker {
	var workers []status.Worker
	wanted := v.wantedKinds(r)
	for i := range v.Dispatcher.Fleet.Workers {
		w := &v.Dispatcher.Fleet.Workers[i]
		one := status.WorkerOf(w)
		one.CannotHelp, one.Takeovers = v.cannotHelp(w, wanted), v.Takeovers[w.ID]
		workers = append(workers, one)
	}
	return workers
}

// SaveCells saves the cells of a live run, before the graph releases its plan.
func (v *View) SaveCells(r *Run) {
	if r.Live() {
		r.ended = v.cells(r.Run)
	}
}

// SeenLive reports whether the run's cells were saved by SaveCells.
func (r *Run) SeenLive() bool { return r.ended != nil }

// endedCells returns the cells of a run that is not live, with their results. It uses the cells saved by
// SaveCells in this term, if any.
func (r *Run) endedCells() []status.Cell {
	cells := slices.Clone(r.ended)
	if len(cells) == 0 {
		for _, name := range slices.Sorted(maps.Keys(r.State.Outcomes)) {
			cells = append(cells, status.Cell{Cell: name})
		}
	}
	for i := range cells {
		c := &cells[i]
		c.Phase, c.Now = cmp.Or(r.State.Outcomes[c.Cell], c.Phase), ""
		if c.Phase == runs.Done {
			c.Step = c.Steps
		} else if c.Phase != runs.Failed {
			c.Phase = r.State.Phase
		}
	}
	return cells
}

// wantedAttempts returns the attempts that a run wants, ordered by id.
func (v *View) wantedAttempts(r *graph.Run) []*graph.Attempt {
	return slices.DeleteFunc(v.Graph.AttemptsInOrder(), func(a *graph.Attempt) bool { return a.Stopping || !a.Task.WantedBy(r) })
}

func (v *View) running(r *graph.Run) []status.Attempt {
	var running []status.Attempt
	trained := trainings(v.Graph, r)
	for _, a := range v.wantedAttempts(r) {
		if a.Worker != "" {
			running = append(running, status.Attempt{
				Key: a.Task.Key, Label: a.Task.Label(), Kind: a.Task.Kind(), Attempt: a.Number,
				Worker: a.Worker, Seconds: a.Running, Done: a.Progress.Done, Total: a.Progress.Total,
				Cells: trained[a.Task.Chain()],
			})
		}
	}
	return running
}

// trainings returns, for each chain, the names of the first cells that it trains.
func trainings(g *graph.Graph, r *graph.Run) map[*graph.Chain][]string {
	cells := make(map[*graph.Chain][]string)
	for _, c := range r.Cells {
		if c.Plan.Chain == nil {
			continue
		}
		if ch := g.Chain(c.Plan.Chain.Recipe); ch != nil && len(cells[ch]) < status.AttemptCells {
			cells[ch] = append(cells[ch], c.Plan.Name)
		}
	}
	return cells
}

func (v *View) countNodes(n *status.Counts, r *graph.Run) {
	for x := range v.Graph.TasksOf(r) {
		n.Total++
		switch v.taskState(x) {
		case "":
			n.Done++
		case Running:
			n.Running++
		case Ready, Queued:
			n.Ready++
		default:
			n.Waiting++
		}
	}
}

// queues counts the tasks of a run that could run, by class.
func (v *View) queues(r *graph.Run) []status.Queue {
	counts := counts{}
	for x := range v.Graph.TasksOf(r) {
		if state := v.taskState(x); state != "" && state != Blocked {
			counts.add(v.Dispatcher.ClassOf(x), state)
		}
	}
	var queues []status.Queue
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		n := counts[class]
		queues = append(queues, status.Queue{
			Class: class, Slots: v.Dispatcher.Fleet.Slots[class],
			Ready: n[Ready], Queued: n[Queued], Running: n[Running], Retrying: n[Retrying], Parked: n[Parked],
		})
	}
	return queues
}

func (v *View) cells(r *graph.Run) []status.Cell {
	cells := make([]status.Cell, 0, len(r.Cells))
	nodes, chains := v.labels(r)
	for _, c := range r.Cells {
		cells = append(cells, v.cell(c, nodes, chains))
	}
	return cells
}

// labels returns the labels of a run's running attempts, by node and chain.
func (v *View) labels(r *graph.Run) (nodes map[*graph.Node]string, chains map[*graph.Chain]string) {
	nodes, chains = make(map[*graph.Node]string), make(map[*graph.Chain]string)
	for _, a := range v.wantedAttempts(r) {
		if a.Worker == "" {
			continue // in the queue
		}
		if ch := a.Task.Chain(); ch != nil {
			chains[ch] = a.Task.Label()
		} else {
			nodes[a.Task.Node] = a.Task.Label()
		}
	}
	return nodes, chains
}

func (v *View) cell(c *graph.Cell, nodes map[*graph.Node]string, chains map[*graph.Chain]string) status.Cell {
	reported := v.reported(c)
	s := status.Cell{
		Cell: c.Plan.Name, Label: c.Plan.Label, Phase: runs.Queued,
		Step: max(v.roundsDone(c), int(reported.Done)), Steps: c.Plan.Rounds(), Unit: c.Plan.Unit, StepRounds: 1,
		Metrics: reported.Metrics,
	}
	for _, d := range c.Targets {
		s.Now = cmp.Or(nodes[d.Node], s.Now)
	}
	if p := c.Plan.Chain; p != nil {
		s.Now = cmp.Or(chains[v.Graph.Chain(p.Recipe)], s.Now)
	}
	switch {
	case c.Failed:
		s.Phase = runs.Failed
	case c.Done():
		s.Phase = runs.Done
	case s.Now != "" || s.Step > 0:
		s.Phase = runs.Running
	}
	return s
}

// roundsDone returns the finished part of a cell's training, in the training's unit.
func (v *View) roundsDone(c *graph.Cell) int {
	model := v.Graph.Node(c.Plan.Model.Key)
	trained := model != nil && model.Presence == graph.Available
	p := c.Plan.Chain
	if p == nil {
		return c.Plan.RoundsDone(0, trained)
	}
	ch, last := v.Graph.Chain(p.Recipe), c.Plan.ChainSteps()
	if ch.Has(last) {
		return c.Plan.RoundsDone(last, trained)
	}
	return c.Plan.RoundsDone(ch.At, trained)
}

// reported returns the progress reported by the program that trains the model of a cell; zero if no program trains
// it.
func (v *View) reported(c *graph.Cell) (p queue.Progress) {
	model := v.Graph.Node(c.Plan.Model.Key)
	if model == nil || c.Plan.Chain != nil {
		return p
	}
	for a := range v.Graph.Attempts() {
		if a.Task.Node == model && a.Progress.Total == int64(c.Plan.Rounds()) && a.Progress.Done >= p.Done {
			p = a.Progress
		}
	}
	return p
}
