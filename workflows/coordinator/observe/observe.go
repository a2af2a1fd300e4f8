// Package observe tells how things stand: the status of each run, what it waits for, how
// long it takes yet, what metrics count, and the spans of traces. It reads the graph and
// what workers say, and changes neither but for the spans that steps and chains hold.
package observe

import (
	"time"

	"coalmine/workflows/coordinator/dispatch"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// View is what there is to see at one moment.
type View struct {
	Graph      *graph.Graph
	Dispatcher *dispatch.Dispatcher
	// Queue and Store are whether the servers answer.
	Queue, Store Outage
	// Takeovers are how many tasks a worker has done with which another had died, by its id.
	Takeovers map[string]int
	// MaxTries is how often a task is tried.
	MaxTries int
	// Now is the time, and Began when this leader began to lead.
	Now, Began time.Time
}

// Outage is a service that does not answer; the zero value is one that does.
type Outage struct {
	Since time.Time
	Err   error
}

// On reports whether the service is away.
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

// Run is a run with what is seen of it beside the graph. Its exported fields are
// written by whoever follows the run.
type Run struct {
	*graph.Run
	Name string // of its experiment
	// Stored is its phase by the record in storage, and Pending says that entries are
	// on their way there.
	Stored  runs.Phase
	Pending bool
	// PlanTries is how often its plan could not be made.
	PlanTries int
	// Tidying is since when its end waits for deletions.
	Tidying time.Time
	// Tokens is the rate at which its attempts compute.
	Tokens Meter

	ended []status.Cell         // its cells, as they were when it was let go
	since map[waitFor]time.Time // since when it waits for what
}
