package graph

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"coalmine/internal/build"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

func newStep(ch *Chain, number int, now time.Time) *Step {
	width := ch.Shape.Width
	s := &Step{Chain: ch, Number: number, Began: now, unfinished: width, Objects: make(map[storage.Key][]storage.Blob, width)}
	label := stepLabel(ch.Shape, number)
	for j := range width {
		part := fmt.Sprintf("%s, part %d of %d", label, j+1, width)
		s.Parts = append(s.Parts, &Task{Key: ch.Shape.PartKey(number, j), Step: s, traits: traitsOf(part, &ch.Shape.Part)})
	}
	s.Join = &Task{Key: ch.Shape.Key(number), Step: s, traits: traitsOf(label, &ch.Shape.Join)}
	return s
}

func traitsOf(label string, t *plan.Template) unique.Handle[traits] {
	return newTraits(label, &tasks.Spec{Kind: t.Kind.Name, Version: t.Kind.Version, SecretKey: t.SecretKey, Class: t.Class, Terms: t.Terms})
}

// stepLabel describes a step of a chain in the words of the experiment file: a
// federated round, or a number of SGD steps.
func stepLabel(shape *plan.Chain, number int) string {
	switch rounds := max(1, shape.StepRounds); {
	case shape.Width > 0:
		return fmt.Sprintf("round %d", number)
	case rounds > 1:
		return fmt.Sprintf("steps %d to %d", (number-1)*rounds+1, number*rounds)
	}
	return fmt.Sprintf("step %d", number)
}

// advance makes the tasks of the current step ready if they can run.
func (g *Graph) advance(ch *Chain) {
	s := ch.Current
	wants, rank := ch.passWants(ch.At), ch.passRank(ch.At)
	for _, x := range s.Tasks() {
		g.setWants(x, wants, rank)
	}
	if len(wants) == 0 {
		g.withdrawn = true
		return
	}
	if !g.inputsReady(ch, wants, rank) {
		return
	}
	for _, part := range s.Parts {
		g.readyIfIdle(part)
	}
	if s.unfinished == 0 {
		g.readyIfIdle(s.Join)
	}
}

func (g *Graph) setWants(x *Task, wants []*Run, rank int32) {
	changed := !slices.Equal(x.Wants, wants)
	if changed && len(x.Wants) == 0 {
		x.inheritTroubles(wants)
	}
	x.Wants, x.Rank = wants, rank
	if changed && x.state == Ready {
		g.offer(x)
	}
}

// inheritTroubles copies a task's troubles from the runs' logs.
func (x *Task) inheritTroubles(wants []*Run) {
	for _, r := range wants {
		logged, ok := r.State.Troubles[x.Key]
		if !ok {
			continue
		}
		trouble := x.AddTrouble()
		trouble.Tries = max(trouble.Tries, logged.Tries)
		if len(logged.Deaths) > len(trouble.Deaths) {
			trouble.Deaths = slices.Clone(logged.Deaths)
		}
	}
}

// inputsReady reports whether the inputs of every task of the step are
// available, and requests the missing ones.
func (g *Graph) inputsReady(ch *Chain, wants []*Run, rank int32) bool {
	inputs := ch.inputs
	if ch.At == 0 {
		inputs = append(inputs[:len(inputs):len(inputs)], ch.origin)
	}
	ready := true
	for _, d := range inputs {
		if d.Available() {
			continue
		}
		ready = false
		for _, r := range wants {
			g.want(d, r, rank)
		}
	}
	return ready
}

// partCommitted records that a part of a step is committed.
func (g *Graph) partCommitted(s *Step, part *Task, objects []storage.Blob) {
	s.Objects[part.Key] = objects
	if s.unfinished--; s.unfinished == 0 {
		g.schedule(s.Chain) // until then, nothing else of the step depends on the part
	}
}

// joined moves a chain to the step that was just committed.
func (g *Graph) joined(s *Step) {
	ch := s.Chain
	for _, part := range s.Parts {
		g.end(part) // the join may be found done before its parts
	}
	ch.Current = nil
	ch.At = s.Number
	ch.Frontier = max(ch.Frontier, s.Number)
	ch.gain(s.Number)
	ended := false
	if cp := ch.checkpoint(s.Number); cp != nil {
		g.setAvailable(cp, true)
		ended = len(ch.passWants(s.Number)) == 0
	}
	g.requests.Joined = append(g.requests.Joined, Joined{Step: s, Ended: ended})
	g.requests.Changed = true
	g.schedule(ch)
}

// partLost reruns a part of a step because its output is gone.
func (g *Graph) partLost(s *Step, part *Task) {
	if part.state == Finished && s.Chain.Current == s {
		g.move(part, lose)
		s.unfinished++
		g.schedule(s.Chain)
	}
}

// Settle works out the consequences of all events: the wants, and the next steps of
// chains. It may be called at any time.
func (g *Graph) Settle(now time.Time) {
	for !g.Settled() {
		if g.dirty {
			g.recount()
		}
		for len(g.scheduled) > 0 {
			ch := g.scheduled[0]
			g.scheduled = g.scheduled[1:]
			ch.scheduled = false
			g.drive(ch, now)
		}
	}
	g.scheduled = nil
	if g.withdrawn {
		g.withdrawn = false
		g.recallUnwanted()
	}
	if build.Invariants {
		g.check()
	}
}

// drive takes the next possible action for a chain: it surveys the chain, chooses a pass, begins a step, or
// runs its tasks. It may be called at any time.
func (g *Graph) drive(ch *Chain, now time.Time) {
	if len(ch.Runs) == 0 {
		return
	}
	wanted := ch.Wanted()
	if wanted && !ch.Surveyed {
		g.survey(ch)
	}
	if wanted && ch.Current != nil && len(ch.passWants(ch.At)) == 0 {
		g.dropStep(ch) // another pass is wanted instead
	}
	if ch.Current == nil {
		if !wanted || !ch.Surveyed || !g.choose(ch) {
			return
		}
		ch.Current = newStep(ch, ch.At+1, now)
	}
	g.advance(ch)
}

// check panics if the parts of the graph contradict each other.
func (g *Graph) check() {
	for x := range g.Tasks() {
		if x.state == InFlight && len(g.at[x]) == 0 {
			panic(fmt.Sprintf("task %q is in flight without an attempt", x.Label()))
		}
		for _, a := range g.at[x] {
			if g.attempts[a.ID] != a {
				panic(fmt.Sprintf("attempt %d at task %q is not registered", a.Number, x.Label()))
			}
			if x.state != InFlight && !a.Stopping {
				panic(fmt.Sprintf("attempt %d at task %q is in flight, but the task is %s", a.Number, x.Label(), x.state))
			}
		}
	}
	for n := range g.nodes.all {
		if (n.Presence == Available) != (n.state == Finished) {
			panic(fmt.Sprintf("node %q is %s, but its presence is %d", n.Label(), n.state, n.Presence))
		}
	}
	for _, ch := range g.chains {
		if s := ch.Current; s != nil && s.Number != ch.At+1 {
			panic(fmt.Sprintf("%q is running, but its chain is at step %d", s.Join.Label(), ch.At))
		}
	}
}
