package observe

import (
	"errors"
	"maps"
	"slices"
	"time"

	"coalmine/internal/tracing"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
)

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

// unit returns the span of a task's round, or of the task itself. It begins
// with the first attempt.
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

// LetGo forgets the spans of nodes that no run holds.
func (s *Spans) LetGo() {
	maps.DeleteFunc(s.nodes, func(x *graph.Task, _ tracing.Span) bool { return !x.Node.Held() })
}

// errGivenUp is the error of a round's span that is not finished.
var errGivenUp = errors.New("given up: nobody wants it any more, or it is done elsewhere")

// EndRound ends the span of a step that was joined or dropped.
func (s *Spans) EndRound(step *graph.Step, joined bool) {
	if joined {
		step.Span.End(nil)
	} else {
		step.Span.End(errGivenUp)
	}
}
