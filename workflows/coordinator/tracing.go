package coordinator

import (
	"slices"

	"coalmine/internal/tracing"
	"coalmine/tasks/attempts"
)

// unit is the span of what a task belongs to: its round, or the task itself. It
// begins with the first attempt.
func (t *term) unit(x *task) tracing.Span {
	if t.Tracer == nil {
		return tracing.Span{}
	}
	if s, ok := x.owner.(*step); ok {
		return t.roundSpan(s)
	}
	if !x.span.On() {
		x.span = t.Tracer.Root("task "+x.spec.Kind, t.now(), tracing.Span{})
		t.describeSpan(x.span, x)
	}
	return x.span
}

// roundSpan is the span of a step, linked to that of the step before.
func (t *term) roundSpan(s *step) tracing.Span {
	if !s.span.On() {
		s.span = t.Tracer.Root("round", s.began, s.chain.traced)
		t.describeSpan(s.span, s.join)
		s.span.Int("round", int64(s.r))
		s.chain.traced = s.span
	}
	return s.span
}

// describeSpan says of a span whose work it is.
func (t *term) describeSpan(span tracing.Span, x *task) {
	var cells []string
	for _, r := range x.wants {
		for _, c := range t.cellsOf(x, r) {
			cells = append(cells, c.plan.Name)
		}
	}
	slices.Sort(cells)
	span.Strings("run", runIDs(x.wants))
	span.Strings("cell", slices.Compact(cells))
	span.String("kind", x.spec.Kind)
	span.String("node", x.key.String())
}

// attemptSpan begins the span of an attempt.
func (t *term) attemptSpan(a *attempt) tracing.Span {
	x := a.task
	unit := t.unit(x)
	if !unit.On() {
		return unit
	}
	span := unit.Child("attempt " + x.spec.Kind)
	t.describeSpan(span, x)
	span.Int("attempt", int64(a.number))
	if s, ok := x.owner.(*step); ok {
		span.Int("round", int64(s.r))
	}
	return span
}

// traceOutcome says of an attempt's span how it ended.
func (a *attempt) traceOutcome(o attempts.Outcome) {
	a.span.String("result", string(o.Result))
	a.span.String("worker", o.Worker)
	if o.Error != "" {
		a.span.Fail(o.Error)
	}
}

// traceEnd ends a task's own span; that of a round ends with the round.
func (x *task) traceEnd(err error) {
	x.span.End(err)
	x.span = tracing.Span{}
}
