package graph

import (
	"fmt"
	"time"

	"coalmine/internal/build"
)

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

// drive takes the next possible action for a chain: survey it, choose a pass, begin a
// step, or run its tasks. It may be called at any time.
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
				panic(fmt.Sprintf("attempt %d at task %q is not in the books", a.Number, x.Label()))
			}
			if x.state != InFlight && !a.Stopping {
				panic(fmt.Sprintf("attempt %d at task %q goes on though the task is %s", a.Number, x.Label(), x.state))
			}
		}
	}
	for n := range g.nodes.all {
		if (n.Presence == Available) != (n.state == Finished) {
			panic(fmt.Sprintf("node %q is %s, and its presence %d", n.Label(), n.state, n.Presence))
		}
	}
	for _, ch := range g.chains {
		if s := ch.Current; s != nil && s.Number != ch.At+1 {
			panic(fmt.Sprintf("%q is under way while its chain is at step %d", s.Join.Label(), ch.At))
		}
	}
}
