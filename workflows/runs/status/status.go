// Package status holds the status of runs as data: a coordinator publishes it, and commands, the API and
// the page show it. Other programs read its JSON: fields may be added but not renamed.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Run is the status of a run, for display.
type Run struct {
	Run   string     `json:"run"`
	Name  string     `json:"experiment"`
	Phase runs.Phase `json:"state"`
	// Gate is "failed" if a cell of a finished run exceeds a limit of audit.fail_if, "met" if none
	// does, and "" without limits.
	Gate string `json:"gate,omitempty"`
	// Error is the reason why the run as a whole has failed.
	Error string `json:"error,omitempty"`
	// Unreadable reports whether the record of the run cannot be read. Then only Run and Error are known,
	// and Phase is Failed.
	Unreadable bool `json:"unreadable,omitempty"`

	Submitted time.Time `json:"submitted,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`

	Cells    []Cell    `json:"cells"`
	Nodes    Counts    `json:"nodes"`
	Running  []Attempt `json:"running,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	// TokensPerSecond is the mean over the last half minute. RateUnit names the counted targets in the plural:
	// tokens, examples for models of images or labels, or targets if cells differ; "" if the run is not live.
	TokensPerSecond float64 `json:"tokens_per_second"`
	RateUnit        string  `json:"rate_unit,omitempty"`
	// SecondsLeft estimates the remaining time from the durations of the tasks so far. It is nil if they do
	// not suffice.
	SecondsLeft *float64 `json:"seconds_left"`
	Workers     []Worker `json:"workers"`
	// Queues holds the queues of the classes of the run's runnable tasks. It is nil if the run is not live.
	Queues []Queue `json:"queues,omitempty"`
	// FromStorage reports whether the progress of the cells was read from storage, because no coordinator
	// reports it. Running tasks are then unknown.
	FromStorage bool `json:"from_storage,omitempty"`
	// AgeSeconds is the age of LastProgress when it was read from storage, in whole minutes or,
	// from an hour, in whole hours, so that the status of an idle run rarely changes.
	AgeSeconds int64 `json:"age_seconds,omitempty"`
	// Health tells how the run progresses. It is empty for a finished run.
	Health Health `json:"pace,omitempty"`
	// LastProgress is the time of the last commit of a wanted output that this
	// leader, or the reader of storage, has seen.
	LastProgress time.Time `json:"last_progress,omitzero"`
	// Waits lists the reasons for waiting, the most severe first; Reasons lists their details only.
	Waits   []Wait   `json:"waits,omitempty"`
	Reasons []string `json:"reasons,omitempty"`

	// Priority orders runs: the higher goes first. Pinned runs and cells are exempt from retention and
	// removal. Users set Note and Tags.
	Priority    int      `json:"priority,omitempty"`
	Pinned      bool     `json:"pinned,omitempty"`
	PinnedCells []string `json:"pinned_cells,omitempty"`
	Note        string   `json:"note,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

// Rate returns the rate with its unit, such as "1200 tokens/s", or "" if the rate is 0.
func (r *Run) Rate() string {
	if r.TokensPerSecond <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %s/s", r.TokensPerSecond, cmp.Or(r.RateUnit, "tokens"))
}

// Counts are numbers of standing nodes and of the tasks of current steps. Done nodes were wanted and are available.
type Counts struct {
	Total   int `json:"total"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Ready   int `json:"ready"`
	Waiting int `json:"waiting"`
	Failed  int `json:"failed"`
}

// Cell is the status of a cell.
type Cell struct {
	Cell  string     `json:"cell"`
	Label string     `json:"label"`
	Phase runs.Phase `json:"state"` // queued, running, done or failed; cancelled if its run was cancelled first
	// Step and Steps are the position and the length of the cell's training in Unit: rounds, or steps of SGD.
	Step  int       `json:"step"`
	Steps int       `json:"steps"`
	Unit  plan.Unit `json:"unit,omitempty"`
	// StepRounds is 1, for programs that multiply by it.
	StepRounds int `json:"step_rounds,omitempty"`
	// Metrics are the losses and the own metrics of the last round that a training program has reported,
	// named as the columns of results. It is nil if no program trains at the moment.
	Metrics map[string]float64 `json:"metrics,omitempty"`
	// Now lists the tasks that run for the cell at the moment.
	Now string `json:"now,omitempty"`
	// Breaches names the limits of audit.fail_if that the cell exceeds, once the run has finished.
	Breaches []string `json:"breaches,omitempty"`
}

// Attempt is an attempt at a task.
type Attempt struct {
	Key     storage.Key `json:"key"`
	Label   string      `json:"label"`
	Kind    string      `json:"kind"`
	Attempt int         `json:"attempt"`
	Worker  string      `json:"worker,omitempty"`
	Seconds float64     `json:"seconds"`
	Done    int64       `json:"done,omitempty"`
	Total   int64       `json:"total,omitempty"`
	// Cells lists the first AttemptCells cells that share the training of a step; nil for other tasks.
	Cells []string `json:"cells,omitempty"`
}

// AttemptCells is the maximum number of listed cells of an attempt.
const AttemptCells = 20

// Failure is a node that was given up for the run.
type Failure struct {
	Key storage.Key `json:"key"`
	runs.Failure
}

// Worker is a live worker.
type Worker struct {
	ID       string `json:"id"`
	Host     string `json:"host"`
	Slots    int    `json:"slots"`
	Running  int    `json:"running"`
	Draining bool   `json:"draining,omitempty"`
	// Build is the version of the worker's program, or empty if unknown.
	Build string `json:"build,omitempty"`
	// CannotHelp is the reason why the worker's build cannot run tasks of the run, or of any run.
	CannotHelp string `json:"cannot_help,omitempty"`
	// MemoryBytes is the memory of the worker's process, MemoryLimitBytes its limit; 0 if there is none.
	MemoryBytes      int64 `json:"memory_bytes,omitempty"`
	MemoryLimitBytes int64 `json:"memory_limit_bytes,omitempty"`
	// Attempts is the number of attempts that ended on the worker since it began. Takeovers is the number
	// of those at tasks with which another worker had died under this leader.
	Attempts  int64 `json:"attempts,omitempty"`
	Takeovers int   `json:"takeovers,omitempty"`
	// Tokens counts the tokens processed since the worker began; TokensPerSecond is the recent rate.
	Tokens          int64   `json:"tokens,omitempty"`
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	// CacheHits and CacheMisses count lookups of inputs in all caches of the worker.
	CacheHits   int64 `json:"cache_hits,omitempty"`
	CacheMisses int64 `json:"cache_misses,omitempty"`
	// ClassSlots holds the numbers of slots that differ from Slots, by class. Devices are the GPUs of the
	// worker's tasks.
	ClassSlots map[string]int `json:"class_slots,omitempty"`
	Devices    []queue.Device `json:"devices,omitempty"`
}

// WorkerOf returns the status of a worker from its heartbeat.
func WorkerOf(w *queue.Worker) Worker {
	return Worker{
		ID: w.ID, Host: w.Host, Slots: w.Slots, Running: len(w.Running), Draining: w.Draining, Build: w.Build,
		MemoryBytes: w.Memory.Used, MemoryLimitBytes: w.Memory.Limit,
		Attempts: w.Work.Ended, Tokens: w.Work.Tokens, TokensPerSecond: w.Work.TokensPerSecond,
		CacheHits: w.Work.CacheHits, CacheMisses: w.Work.CacheMisses,
		ClassSlots: w.ClassSlots, Devices: w.Devices,
	}
}

// Queue counts the tasks of a run that need slots of one class.
type Queue struct {
	Class tasks.Class `json:"class"`
	// Slots is the number of slots of all workers that take tasks.
	Slots int `json:"slots"`
	// Ready tasks wait for a place in the queue, Queued ones wait in it for a slot, Running ones run,
	// Retrying ones wait after a failed attempt, and Parked ones wait for a worker that supports them.
	Ready    int `json:"ready"`
	Queued   int `json:"queued"`
	Running  int `json:"running"`
	Retrying int `json:"retrying"`
	Parked   int `json:"parked"`
}

// PublishedName is the name under which the status of a run is published as
// JSON, for processes other than the coordinator's.
func PublishedName(run string) string { return "status/" + run }

// Fleet lists the workers of all runs, and the tasks that wait for a slot.
type Fleet struct {
	Workers []FleetWorker `json:"workers"`
	// Queues lists the classes of workers and of tasks, including those without tasks.
	Queues []Queue `json:"queues"`
	// Waits lists the reasons for missing information: no worker lives, the queue does not answer, or no
	// process leads.
	Waits []Wait `json:"waits"`
}

// FleetWorker is a live worker and its tasks.
type FleetWorker struct {
	Worker
	Classes []tasks.Class `json:"classes"`
	Tasks   []FleetTask   `json:"tasks"`
}

// FleetTask is a running attempt, with the first run that wants it.
type FleetTask struct {
	Run string `json:"run"`
	Attempt
}

// Add counts the tasks of another queue of the same class.
func (q *Queue) Add(other Queue) {
	q.Ready += other.Ready
	q.Queued += other.Queued
	q.Running += other.Running
	q.Retrying += other.Retrying
	q.Parked += other.Parked
}

// Health is the health of an unfinished run.
type Health string

// The states of health.
const (
	// Working means that nothing holds the run up.
	Working Health = "working"
	// Slow means that the run is held up by a reason that passes by itself.
	Slow Health = "slow"
	// Stuck means that the run does not progress until a user acts or a service is back.
	Stuck Health = "stuck"
	// Paused means that a user has paused the run.
	Paused Health = "paused"
)

// WaitReason is the reason why a run waits.
type WaitReason string

// The reasons for waiting, the most severe first.
const (
	// WaitPaused waits to be resumed.
	WaitPaused WaitReason = "paused"
	// WaitCoordinator waits for a process that leads.
	WaitCoordinator WaitReason = "no-coordinator"
	// WaitQueue and WaitStore wait for a server that does not answer.
	WaitQueue WaitReason = "queue-away"
	WaitStore WaitReason = "store-away"
	// WaitSpace waits for room in the store.
	WaitSpace WaitReason = "store-full"
	// WaitWorker waits for any worker that takes tasks.
	WaitWorker WaitReason = "no-worker"
	// WaitKind waits for a worker that supports a kind of task in its version.
	WaitKind WaitReason = "no-worker-for-kind"
	// WaitKey waits for a worker that holds the secret key of a training.
	WaitKey WaitReason = "no-worker-with-key"
	// WaitPlan waits for the run's plan; making it failed and is retried.
	WaitPlan WaitReason = "plan"
	// WaitRetry waits for another attempt at a task that has failed.
	WaitRetry WaitReason = "retry"
	// WaitTakeover waits for another attempt at a task after the death of its worker.
	WaitTakeover WaitReason = "worker-died"
	// WaitReturned waits for another attempt at a task that a worker has handed back.
	WaitReturned WaitReason = "handed-back"
	// WaitStraggler waits for an attempt that takes far longer than its siblings.
	WaitStraggler WaitReason = "straggler"
	// WaitLimit waits for other tasks of a class with a limited number.
	WaitLimit WaitReason = "class-limit"
	// WaitSlot waits for a slot; all are occupied.
	WaitSlot WaitReason = "no-free-slot"
	// WaitTidying waits, at the end of the run, for the deletion of old rounds.
	WaitTidying WaitReason = "tidying"
)

// Blocks reports whether the reason holds up its tasks until a user acts or a service is back.
func (r WaitReason) Blocks() bool {
	return slices.Contains([]WaitReason{WaitCoordinator, WaitQueue, WaitStore, WaitSpace, WaitWorker, WaitKind, WaitKey}, r)
}

// Wait is a reason that holds a run up.
type Wait struct {
	Reason WaitReason `json:"cause"`
	// Since is the beginning of the wait, as seen by this leader.
	Since time.Time `json:"since,omitzero"`
	// Detail is a text for display.
	Detail string `json:"detail"`
	// Tasks is the number of affected tasks; 0 for the run as a whole.
	Tasks int `json:"tasks,omitempty"`
	// Key, Attempt and Error are set for a single failed or slow task; Worker runs it.
	Key     *storage.Key `json:"key,omitempty"`
	Attempt int          `json:"attempt,omitempty"`
	Error   string       `json:"error,omitempty"`
	Worker  string       `json:"worker,omitempty"`
}

// HealthOf returns the health of an unfinished run. atWork reports whether one of its tasks runs.
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
