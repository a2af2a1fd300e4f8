// Package observe reports the state of runs: their status, the reasons for waiting, the
// remaining time, metrics, and the spans of traces. It reads the graph and the workers'
// heartbeats, and only changes the spans of steps and chains.
package observe

import (
	"time"

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
	// Takeovers counts, by worker id, the tasks that the worker has finished after another
	// died with them.
	Takeovers map[string]int
	// MaxTries is the number of tries of a task.
	MaxTries int
	// Now is the time, and Began the start of this leader's term.
	Now, Began time.Time
}

// Outage describes a service that does not answer; the zero value, one that does.
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

// Run is a run with its observed state outside the graph. The follower of the
// run writes its exported fields.
type Run struct {
	*graph.Run
	Name string // of its experiment
	// Stored is its phase by the record in storage, and Pending reports unwritten
	// entries.
	Stored  runs.Phase
	Pending bool
	// PlanTries counts the failed attempts to make its plan.
	PlanTries int
	// Tidying is the time since which its end waits for deletions.
	Tidying time.Time
	// Tokens is the rate at which its attempts compute.
	Tokens Meter

	ended []status.Cell         // its cells, saved by LetGo
	since map[waitFor]time.Time // start of each wait
}
