package graph

import (
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
)

// AttemptID returns the name of an attempt in the queue.
func AttemptID(key storage.Key, number int) string {
	a := attempts.Attempt{Spec: tasks.Spec{Key: key}, Number: number}
	return a.ID()
}

// Launch begins an attempt at a task, charged to a run. Its number is at least the
// given one, and higher than that of the task's last attempt.
func (g *Graph) Launch(x *Task, r *Run, class tasks.Class, number int, now time.Time) *Attempt {
	x.Number = max(x.Number+1, number)
	a := &Attempt{Task: x, Number: x.Number, ID: AttemptID(x.Key, x.Number), Class: class, Run: r, Sent: now, Checked: now}
	g.move(x, send)
	x.Urgent = false
	g.at[x] = append(g.at[x], a)
	g.attempts[a.ID] = a
	g.inFlight[class]++
	r.InFlight++
	return a
}

// Land removes an attempt that was reported or is lost.
func (g *Graph) Land(a *Attempt) {
	delete(g.attempts, a.ID)
	g.inFlight[a.Class]--
	a.Run.InFlight--
	x := a.Task
	g.at[x] = slices.DeleteFunc(g.at[x], func(b *Attempt) bool { return b == a })
	if len(g.at[x]) == 0 {
		delete(g.at, x)
		if x.state == InFlight {
			g.move(x, land)
		}
	}
	g.asks.Changed = true
}

// end finishes a task, unless it has finished, and recalls its attempts.
func (g *Graph) end(x *Task) {
	if x.state != Finished {
		g.move(x, finish)
	}
	for _, a := range g.at[x] {
		g.recall(a)
	}
}

func (g *Graph) recall(a *Attempt) {
	if !a.Stopping {
		a.Stopping = true
		g.asks.Recall = append(g.asks.Recall, a)
	}
}

// recallUnwanted recalls the attempts at tasks that have no wants left.
func (g *Graph) recallUnwanted() {
	for _, a := range g.AttemptsInOrder() {
		if len(a.Task.Wants) == 0 && a.Task.state != Finished {
			g.recall(a)
		}
	}
}
