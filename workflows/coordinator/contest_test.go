package coordinator

import (
	"encoding/json"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/tasks/attempts"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

// contest is a world of one worker on a clock of its own, in which trainings compete
// for the slots: tasks begin in the order of the queue, take the time that their
// training's tasks take, and nothing else takes any.
type contest struct {
	*world
	worker  *simWorker
	widths  map[string]int           // of the trainings, by their names
	lengths map[string]time.Duration // of their tasks
	ends    map[*execution]time.Time
	used    map[string]time.Duration // of slots, by name
}

func newContest(t testing.TB, slots int, rivals []rival) *contest {
	plans := make(map[string]*plan.Plan)
	c := &contest{
		widths: make(map[string]int), lengths: make(map[string]time.Duration),
		ends: make(map[*execution]time.Time), used: make(map[string]time.Duration),
	}
	for _, r := range rivals {
		plans[r.name] = alone(t, r.name, r.width)
		c.widths[r.name], c.lengths[r.name] = r.width, r.length
	}
	c.world = newWorld(t, 1, chaos{}, plans)
	c.worker = &simWorker{id: "w0", slots: slots}
	c.workers = []*simWorker{c.worker}
	c.seconds = func(a attempts.Attempt) float64 { return c.length(a).Seconds() }
	return c
}

func nameOf(a attempts.Attempt) string {
	var p plantest.Params
	if err := json.Unmarshal(a.Params, &p); err != nil {
		panic(err)
	}
	return p.Salt
}

// length is how long an attempt takes. Preparation takes no time, and joining the
// parts of a round little.
func (c *contest) length(a attempts.Attempt) time.Duration {
	name := nameOf(a)
	if c.widths[name] > 0 && a.Kind == plantest.Join.Name {
		return c.lengths[name] / 20
	}
	return c.lengths[name]
}

// pass lets time pass.
func (c *contest) pass(d time.Duration) {
	for until := c.clock.Add(d); ; {
		c.calm()
		next := until
		if at, ok := c.term.nextTimer(); ok && at.Before(next) {
			next = at
		}
		var first *execution
		for _, e := range c.worker.running {
			if end := c.ends[e]; first == nil && !end.After(next) || first != nil && end.Before(next) {
				first, next = e, end
			}
		}
		if next.After(c.clock) {
			c.clock = next
		}
		if first != nil {
			c.finish(first)
		} else if !c.clock.Before(until) {
			return
		}
		c.term.tick()
		c.term.settle()
	}
}

// calm does everything that takes no time.
func (c *contest) calm() {
	for {
		switch {
		case len(c.jobs) > 0:
			c.runJob()
		case len(c.applying) > 0:
			c.apply()
		case len(c.reports) > 0:
			c.report()
		case len(c.pending) > 0 && len(c.worker.running) < c.worker.slots:
			c.begin()
		default:
			return
		}
		c.term.settle()
	}
}

// begin has the worker take the oldest message.
func (c *contest) begin() {
	m := c.pending[0]
	c.pending = c.pending[1:]
	attempt := must.Get(attempts.DecodeAttempt(m.Payload))(c.t)
	e := &execution{id: m.ID, attempt: attempt}
	e.next = func() { c.lookFirst(c.worker, e) }
	c.worker.running = append(c.worker.running, e)
	c.ends[e] = c.clock.Add(c.length(e.attempt))
}

func (c *contest) finish(e *execution) {
	delete(c.ends, e)
	c.used[nameOf(e.attempt)] += c.length(e.attempt)
	for e.next != nil {
		c.work(c.worker, e)
	}
}
