package coordinator

import (
	"errors"
	"maps"
	"slices"
	"time"

	"coalmine/internal/tracing"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/graph"
)

// spans makes the spans of rounds, tasks and attempts. Without a tracer they are off.
type spans struct {
	tracer *tracing.Tracer
	graph  *graph.Graph
	now    func() time.Time
	// nodes are the spans of standing nodes, from their first attempts to their ends.
	nodes map[*graph.Task]tracing.Span
}

func newSpans(tracer *tracing.Tracer, g *graph.Graph, now func() time.Time) spans {
	return spans{tracer: tracer, graph: g, now: now, nodes: make(map[*graph.Task]tracing.Span)}
}

// unit is the span of what a task belongs to: its round, or the task itself. It
// begins with the first attempt.
func (s *spans) unit(x *graph.Task) tracing.Span {
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

// round is the span of a step, linked to that of the step before.
func (s *spans) round(step *graph.Step) tracing.Span {
	if !step.Span.On() {
		step.Span = s.tracer.Root("round", step.Began, step.Chain.Span)
		s.describe(step.Span, step.Join)
		step.Span.Int("round", int64(step.Number))
		step.Chain.Span = step.Span
	}
	return step.Span
}

// describe says of a span whose work it is.
func (s *spans) describe(span tracing.Span, x *graph.Task) {
	var cells []string
	for _, r := range x.Wants {
		for _, c := range s.graph.CellsOf(x, r) {
			cells = append(cells, c.Plan.Name)
		}
	}
	slices.Sort(cells)
	span.Strings("run", idsOf(x.Wants))
	span.Strings("cell", slices.Compact(cells))
	span.String("kind", x.Kind())
	span.String("node", x.Key.String())
}

// attempt begins the span of an attempt.
func (s *spans) attempt(a *graph.Attempt) tracing.Span {
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

// outcome says of an attempt's span how it ended.
func (s *spans) outcome(a *graph.Attempt, o attempts.Outcome) {
	a.Span.String("result", string(o.Result))
	a.Span.String("worker", o.Worker)
	if o.Error != "" {
		a.Span.Fail(o.Error)
	}
}

// endTask ends a task's own span; that of a round ends with the round.
func (s *spans) endTask(x *graph.Task, err error) {
	s.nodes[x].End(err)
	delete(s.nodes, x)
}

// letGo forgets the spans of nodes that no run holds any more.
func (s *spans) letGo() {
	maps.DeleteFunc(s.nodes, func(x *graph.Task, _ tracing.Span) bool { return !x.Node.Held() })
}

// errGivenUp is what a trace says of a round that is not finished.
var errGivenUp = errors.New("given up: nobody wants it any more, or it is done elsewhere")

// endRound ends the span of a step that was joined or dropped.
func (s *spans) endRound(step *graph.Step, joined bool) {
	if joined {
		step.Span.End(nil)
	} else {
		step.Span.End(errGivenUp)
	}
}

func idsOf(wants []*graph.Run) []string {
	var ids []string
	for _, r := range wants {
		ids = append(ids, r.ID)
	}
	return ids
}
