// Package observe reports the state of runs: their status, the reasons for waiting, the
// remaining time, metrics, and the spans of traces. It reads the graph and the workers'
// heartbeats, and only changes the spans of steps and chains.
package observe

import (
	"errors"
	"maps"
	"slices"
	"time"

	"coalmine/internal/tracing"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/dispatch"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// View is the observable state at one moment.
type View struct {
	Graph      *graph.Graph
	Dispatcher *dispatch.Dispatcher
	// Queue and Store are the outages of the servers.
	Queue, Store Outage
	// Takeovers counts, by worker id, the tasks that the worker has finished after another worker died with them.
	Takeovers map[string]int
	// MaxTries is the number of tries of a task.
	MaxTries int
	// Now is the time, and Began the start of this leader's term.
	Now, Began time.Time
}

// Outage describes the outage of a service. The zero value means that the service answers.
type Outage struct {
	Since time.Time
	Err   error
}

// On reports whether the service does not answer.
func (o *Outage) On() bool { return !o.Since.IsZero() }

// Begin notes an error, and reports whether it is the first.
func (o *Outage) Begin(now time.Time, err error) (first bool) {
	o.Err = err
	if o.On() {
		return false
	}
	o.Since = now
	return true
}

// End notes that the service answers, and reports whether it was away.
func (o *Outage) End() bool {
	was := o.On()
	*o = Outage{}
	return was
}

// Run is a run with the observed state that the graph does not hold. The coordinator's term writes its
// exported fields.
type Run struct {
	*graph.Run
	Name string // of its experiment
	// Stored is its phase by the record in storage. Pending reports whether entries are yet to be written.
	Stored  runs.Phase
	Pending bool
	// PlanTries counts the failed attempts to make its plan.
	PlanTries int
	// Tidying is the time since when its end has waited for deletions, zero if it does not wait.
	Tidying time.Time
	// Tokens is the rate at which its attempts process tokens.
	Tokens Meter

	ended []status.Cell         // its cells, saved by SaveCells
	since map[waitFor]time.Time // start of each wait
}

// Spans makes the spans of rounds, tasks and attempts. Without a tracer it makes none.
type Spans struct {
	tracer *tracing.Tracer
	graph  *graph.Graph
	now    func() time.Time
	// nodes are the spans of standing nodes, from their first attempts to their ends.
	nodes map[*graph.Task]tracing.Span
}

// NewSpans returns the spans of a graph. A nil tracer disables them.
func NewSpans(tracer *tracing.Tracer, g *graph.Graph, now func() time.Time) Spans {
	return Spans{tracer: tracer, graph: g, now: now, nodes: make(map[*graph.Task]tracing.Span)}
}

// unit returns the span of a task's round, or of the task itself. It begins with the first attempt.
func (s *Spans) unit(x *graph.Task) tracing.Span {
	if s.tracer == nil {
		return tracing.Span{}
	}
	if x.Step != nil {
		return s.round(x.Step)
	}
	span, began := s.nodes[x]
	if !began {
		span = s.tracer.Root("task "+x.Kind(), s.now(), tracing.Span{})
		s.nodes[x] = span
		s.describe(span, x)
	}
	return span
}

// round returns the span of a step, linked to the span of the step before.
func (s *Spans) round(step *graph.Step) tracing.Span {
	if !step.Span.On() {
		step.Span = s.tracer.Root("round", step.Began, step.Chain.Span)
		s.describe(step.Span, step.Join)
		step.Span.Int("round", int64(step.Number))
		step.Chain.Span = step.Span
	}
	return step.Span
}

// describe sets the attributes of a span from its task.
func (s *Spans) describe(span tracing.Span, x *graph.Task) {
	var cells []string
	for _, r := range x.Wants {
		for _, c := range s.graph.CellsOf(x, r) {
			cells = append(cells, c.Plan.Name)
		}
	}
	slices.Sort(cells)
	span.Strings("run", x.RunIDs())
	span.Strings("cell", slices.Compact(cells))
	span.String("kind", x.Kind())
	span.String("node", x.Key.String())
}

// Attempt begins the span of an attempt.
func (s *Spans) Attempt(a *graph.Attempt) tracing.Span {
	x := a.Task
	unit := s.unit(x)
	if !unit.On() {
		return unit
	}
	span := unit.Child("attempt " + x.Kind())
	s.describe(span, x)
	span.Int("attempt", int64(a.Number))
	if x.Step != nil {
		span.Int("round", int64(x.Step.Number))
	}
	return span
}

// Outcome sets the result of an attempt's span.
func (s *Spans) Outcome(a *graph.Attempt, o attempts.Outcome) {
	a.Span.String("result", string(o.Result))
	a.Span.String("worker", o.Worker)
	if o.Error != "" {
		a.Span.Fail(o.Error)
	}
}

// EndTask ends a task's own span; the span of a round ends with the round.
func (s *Spans) EndTask(x *graph.Task, err error) {
	s.nodes[x].End(err)
	delete(s.nodes, x)
}

// Prune forgets the spans of nodes that no run holds.
func (s *Spans) Prune() {
	maps.DeleteFunc(s.nodes, func(x *graph.Task, _ tracing.Span) bool { return !x.Node.Held() })
}

// errGivenUp is the error of the span of an unfinished round.
var errGivenUp = errors.New("dropped: no run wants the step any more, or another term has committed it")

// EndRound ends the span of a step that was joined or dropped.
func (s *Spans) EndRound(step *graph.Step, joined bool) {
	if joined {
		step.Span.End(nil)
	} else {
		step.Span.End(errGivenUp)
	}
}
