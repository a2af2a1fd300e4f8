package status

import (
	"slices"
	"time"

	"coalmine/storage"
)

// Health is the health of an unfinished run.
type Health string

// The states of health.
const (
	// Working: nothing holds it up.
	Working Health = "working"
	// Slow: it is held up by a reason that passes by itself.
	Slow Health = "slow"
	// Stuck: it does not progress until a user acts, or an unreachable service
	// is back.
	Stuck Health = "stuck"
	// Paused: a user has paused it.
	Paused Health = "paused"
)

// WaitReason is the reason for which a run waits.
type WaitReason string

// The reasons for waiting, the gravest first.
const (
	// WaitPaused: to be resumed.
	WaitPaused WaitReason = "paused"
	// WaitCoordinator: for a process that leads.
	WaitCoordinator WaitReason = "no-coordinator"
	// WaitQueue and WaitStore: for a server that does not answer.
	WaitQueue WaitReason = "queue-away"
	WaitStore WaitReason = "store-away"
	// WaitSpace: for room in the store.
	WaitSpace WaitReason = "store-full"
	// WaitWorker: for any worker that takes tasks.
	WaitWorker WaitReason = "no-worker"
	// WaitKind: for a worker that supports a kind of task in its version.
	WaitKind WaitReason = "no-worker-for-kind"
	// WaitKey: for a worker that holds the secret key of a training.
	WaitKey WaitReason = "no-worker-with-key"
	// WaitPlan: for its plan; making it failed and is retried.
	WaitPlan WaitReason = "plan"
	// WaitRetry: for another attempt at a task that has failed.
	WaitRetry WaitReason = "retry"
	// WaitTakeover: for another attempt at a task after the death of its worker.
	WaitTakeover WaitReason = "worker-died"
	// WaitReturned: for another attempt at a task that a worker has handed back.
	WaitReturned WaitReason = "handed-back"
	// WaitStraggler: for an attempt that takes far longer than its siblings.
	WaitStraggler WaitReason = "straggler"
	// WaitLimit: for other tasks of a class with a limited number.
	WaitLimit WaitReason = "class-limit"
	// WaitSlot: for a slot; all are occupied.
	WaitSlot WaitReason = "no-free-slot"
	// WaitTidying: for the deletion of old rounds, at its end.
	WaitTidying WaitReason = "tidying"
)

// Blocks reports whether the reason holds up its tasks until a user acts or a
// service is back.
func (r WaitReason) Blocks() bool {
	return slices.Contains([]WaitReason{WaitCoordinator, WaitQueue, WaitStore, WaitSpace, WaitWorker, WaitKind, WaitKey}, r)
}

// Wait is a reason that holds a run up.
type Wait struct {
	Reason WaitReason `json:"cause"`
	// Since is its begin, as seen by this leader.
	Since time.Time `json:"since,omitzero"`
	// Detail is a text for display.
	Detail string `json:"detail"`
	// Tasks is the number of affected tasks; 0 for the run as a whole.
	Tasks int `json:"tasks,omitempty"`
	// Key, Attempt and Error are set for a single failed or slow task; Worker
	// runs it.
	Key     *storage.Key `json:"key,omitempty"`
	Attempt int          `json:"attempt,omitempty"`
	Error   string       `json:"error,omitempty"`
	Worker  string       `json:"worker,omitempty"`
}

// HealthOf returns the health of an unfinished run from the reasons for which it
// waits, and from whether a task runs.
func HealthOf(waits []Wait, atWork bool) Health {
	blocked := slices.ContainsFunc(waits, func(w Wait) bool { return w.Reason.Blocks() })
	away := slices.ContainsFunc(waits, func(w Wait) bool { return w.Reason == WaitStore || w.Reason == WaitSpace })
	switch {
	case len(waits) == 0:
		return Working
	case waits[0].Reason == WaitPaused:
		return Paused
	case away, blocked && !atWork:
		return Stuck
	}
	return Slow
}
