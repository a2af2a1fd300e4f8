// Package status holds the status of runs as data: a coordinator publishes it, and
// commands, API and page show it. Its JSON is read by other programs: fields may be
// added, none renamed.
package status

import (
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Run is how a run stands, for people and for the pages they look at.
type Run struct {
	Run   string     `json:"run"`
	Name  string     `json:"experiment"`
	Phase runs.Phase `json:"state"`
	// Gate is "failed" if a cell of a finished run is beyond a limit of audit.fail_if, "met" if all
	// are within theirs, and "" without limits.
	Gate string `json:"gate,omitempty"`
	// Error says why the run as a whole has failed.
	Error string `json:"error,omitempty"`
	// Unreadable says that the record of the run cannot be read: only Run and Error are known, and Phase
	// is Failed.
	Unreadable bool `json:"unreadable,omitempty"`

	Submitted time.Time `json:"submitted,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`

	Cells    []Cell    `json:"cells"`
	Nodes    Counts    `json:"nodes"`
	Running  []Attempt `json:"running,omitempty"`
	Failures []Failure `json:"failures,omitempty"`
	// TokensPerSecond is the mean over the last half minute.
	TokensPerSecond float64 `json:"tokens_per_second"`
	// SecondsLeft is an estimate from the tasks so far, of trainings and of all else,
	// such as audits; nil if there is nothing to estimate from yet.
	SecondsLeft *float64 `json:"seconds_left"`
	Workers     []Worker `json:"workers"`
	// Queues are those of the classes of which the run has tasks that could run; none of a run
	// that is not live.
	Queues []Queue `json:"queues,omitempty"`
	// FromStorage is set if no coordinator reports the progress of the cells: it was
	// read from storage, and running tasks are unknown.
	FromStorage bool `json:"from_storage,omitempty"`
	// AgeSeconds is how old LastProgress was when it was read from storage: whole minutes, from
	// an hour on whole hours, so that a run on which nobody works has no news all the time.
	AgeSeconds int64 `json:"age_seconds,omitempty"`
	// Health tells a stuck run from a slow one; "" for a run that has finished.
	Health Health `json:"pace,omitempty"`
	// LastProgress is when an output that the run wants was last committed, as far
	// as this leader, or the reader of storage, has seen.
	LastProgress time.Time `json:"last_progress,omitzero"`
	// Waits are the reasons that hold the run up, the gravest first; Reasons are
	// their details alone.
	Waits   []Wait   `json:"waits,omitempty"`
	Reasons []string `json:"reasons,omitempty"`

	// Priority among runs: the higher goes first. Pinned runs, and cells, are kept from
	// retention and removal. Note and Tags are those that users have set.
	Priority    int      `json:"priority,omitempty"`
	Pinned      bool     `json:"pinned,omitempty"`
	PinnedCells []string `json:"pinned_cells,omitempty"`
	Note        string   `json:"note,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

// Counts are numbers of standing nodes and of the tasks of current steps. Done
// nodes are those that had been asked for and are available.
type Counts struct {
	Total   int `json:"total"`
	Done    int `json:"done"`
	Running int `json:"running"`
	Ready   int `json:"ready"`
	Waiting int `json:"waiting"`
	Failed  int `json:"failed"`
}

// Cell is how a cell stands.
type Cell struct {
	Cell  string     `json:"cell"`
	Label string     `json:"label"`
	Phase runs.Phase `json:"state"` // queued, running, done or failed
	// Step of Steps is where the cell's training stands, in rounds or in steps of SGD,
	// as Unit says.
	Step  int       `json:"step"`
	Steps int       `json:"steps"`
	Unit  plan.Unit `json:"unit,omitempty"`
	// StepRounds is 1, for programs that multiply by it.
	StepRounds int `json:"step_rounds,omitempty"`
	// Now lists the tasks that run for the cell at the moment.
	Now string `json:"now,omitempty"`
	// Breaches name the limits of audit.fail_if that the cell is beyond, once the run has finished.
	Breaches []string `json:"breaches,omitempty"`
}

// Attempt is an attempt at work.
type Attempt struct {
	Key     storage.Key `json:"key"`
	Label   string      `json:"label"`
	Kind    string      `json:"kind"`
	Attempt int         `json:"attempt"`
	Worker  string      `json:"worker,omitempty"`
	Seconds float64     `json:"seconds"`
	Done    int64       `json:"done,omitempty"`
	Total   int64       `json:"total,omitempty"`
	// Cells are those whose training a step belongs to, the first AttemptCells; none of others.
	Cells []string `json:"cells,omitempty"`
}

// AttemptCells is how many cells of an attempt are told of.
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
	// Build is the version of its program, empty if unknown.
	Build string `json:"build,omitempty"`
	// CannotHelp says why its build cannot run tasks of the run, or of any run.
	CannotHelp string `json:"cannot_help,omitempty"`
	// MemoryBytes is its process's memory, MemoryLimitBytes the limit; 0 if there is
	// none.
	MemoryBytes      int64 `json:"memory_bytes,omitempty"`
	MemoryLimitBytes int64 `json:"memory_limit_bytes,omitempty"`
	// Attempts have ended on it since it began, and Takeovers of them were at tasks with which
	// another worker had died under this leader.
	Attempts  int64 `json:"attempts,omitempty"`
	Takeovers int   `json:"takeovers,omitempty"`
	// Tokens were handled since it began, TokensPerSecond of late.
	Tokens          int64   `json:"tokens,omitempty"`
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	// CacheHits and CacheMisses are lookups of inputs in all of its caches.
	CacheHits   int64 `json:"cache_hits,omitempty"`
	CacheMisses int64 `json:"cache_misses,omitempty"`
	// ClassSlots has the classes whose number of slots is not Slots, and Devices the GPUs of the worker's
	// tasks.
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

// Queue is how the tasks of a run stand that need slots of one class.
type Queue struct {
	Class tasks.Class `json:"class"`
	// Slots are those of all workers that take tasks.
	Slots int `json:"slots"`
	// Ready tasks wait for a place in the queue, Queued ones in it for a slot, Running ones are
	// at work, Retrying ones wait after an attempt that failed, and Parked ones for a worker
	// that knows them.
	Ready    int `json:"ready"`
	Queued   int `json:"queued"`
	Running  int `json:"running"`
	Retrying int `json:"retrying"`
	Parked   int `json:"parked"`
}

// PublishedName is the name under which the status of a run is published as
// JSON, for processes other than the coordinator's.
func PublishedName(run string) string { return "status/" + run }
