package status

import (
	"slices"
	"time"

	"coalmine/storage"
)

// Health says how an unfinished run gets on.
type Health string

// The states of health.
const (
	// Working: nothing holds it up but the work.
	Working Health = "working"
	// Slow: something holds it up that passes by itself.
	Slow Health = "slow"
	// Stuck: it does not go on until a user acts, or until an unreachable
	// service comes back.
	Stuck Health = "stuck"
	// Paused: somebody has paused it.
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
	// WaitKind: for a worker that knows a kind of task, in its version.
	WaitKind WaitReason = "no-worker-for-kind"
	// WaitKey: for a worker that holds the secret key of a training.
	WaitKey WaitReason = "no-worker-with-key"
	// WaitPlan: for its plan, which failed to be made and is tried again.
	WaitPlan WaitReason = "plan"
	// WaitRetry: for another attempt at a task that has failed.
	WaitRetry WaitReason = "retry"
	// WaitTakeover: for another attempt at a task whose worker has died.
	WaitTakeover WaitReason = "worker-died"
	// WaitReturned: for another attempt at a task that a worker has handed back.
	WaitReturned WaitReason = "handed-back"
	// WaitStraggler: for an attempt that takes far longer than its siblings.
	WaitStraggler WaitReason = "straggler"
	// WaitLimit: for others of a class whose number is limited.
	WaitLimit WaitReason = "class-limit"
	// WaitSlot: for a slot, which all have work.
	WaitSlot WaitReason = "no-free-slot"
	// WaitTidying: for the deletion of old rounds, at its end.
	WaitTidying WaitReason = "tidying"
)

// Blocks reports whether the reason holds up everything that it concerns until
// somebody acts or something comes back.
func (r WaitReason) Blocks() bool {
	return slices.Contains([]WaitReason{WaitCoordinator, WaitQueue, WaitStore, WaitSpace, WaitWorker, WaitKind, WaitKey}, r)
}

// Wait is one thing that holds a run up.
type Wait struct {
	Reason WaitReason `json:"cause"`
	// Since when, as far as this leader has seen.
	Since time.Time `json:"since,omitzero"`
	// Detail is for people.
	Detail string `json:"detail"`
	// Tasks is how many tasks it concerns; 0 for the run as a whole.
	Tasks int `json:"tasks,omitempty"`
	// Key, Attempt and Error are those of the task, where it is just one that
	// failed or is slow; Worker is who runs it.
	Key     *storage.Key `json:"key,omitempty"`
	Attempt int          `json:"attempt,omitempty"`
	Error   string       `json:"error,omitempty"`
	Worker  string       `json:"worker,omitempty"`
}

// HealthOf judges by the reasons for which an unfinished run waits, and by whether
// any of its tasks runs.
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
