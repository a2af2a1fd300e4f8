// Package runs keeps the record of every run: its submission, and a log of the events since. The log is
// the truth about a run; its state is a fold over the log, the same for every reader.
//
// # Phases
//
// Each line is a move: the phases in which an entry of a kind counts, and the phase that it leads to. In
// any other phase the entry changes nothing, and the command that writes it returns an error. A test
// compares the lines with the table in phase.go.
//
//	queued                                    --started-->   running
//	queued, running, paused                   --paused-->    paused
//	paused, cancelled, done                   --resumed-->   queued
//	queued, running, paused                   --cancelled--> cancelled
//	failed, done                              --retried-->   queued
//	queued, running, paused, cancelled        --retried-->   as before
//	queued, running, paused                   --rejected-->  failed
//	queued, running, paused                   --finished-->  done, failed
//	done, failed, cancelled                   --removed-->   as before
//
// A done run continues only if some of its outputs are missing or damaged, for instance
// after a restored backup: Missing of the entry is their number.
//
// A coordinator that begins a queued run logs that it has started; a resumed or
// retried run is queued again until then. A removed run keeps its phase until the
// leader has deleted its record, and accepts no commands.
//
// Any process may append to a log at any time; the coordinator that leads reads it, acts, and appends
// the outcome. The experiment itself is opaque here: bytes, a name, and the digest of its resolved form.
package runs

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"coalmine/storage"
)

// Kind is the kind of event that an entry of a run's log records.
type Kind string

// The kinds of entries: first those of users' commands, then those of the leading coordinator.
const (
	Submitted   Kind = "submitted"
	PauseEntry  Kind = "paused"
	ResumeEntry Kind = "resumed" // Missing
	CancelEntry Kind = "cancelled"
	RetryEntry  Kind = "retried"     // Keys, or all failed nodes if there are none; Missing
	PinEntry    Kind = "pinned"      // Pinned: set or clear; Cells, or the run as a whole
	Prioritized Kind = "prioritized" // Priority
	NoteEntry   Kind = "noted"       // Note
	TagEntry    Kind = "tagged"      // Tags
	RemoveEntry Kind = "removed"     // the leader deletes the record

	Started       Kind = "started"
	AttemptFailed Kind = "attempt failed" // Key, Label, Error, Attempts, Worker, Seconds, Kept, Cells
	WorkerDied    Kind = "worker died"    // Key, Label, Attempts, Worker, Seconds, Cells, MemoryBytes, MemoryLimitBytes
	WorkerBack    Kind = "worker back"    // Worker: it had not died but was unreachable
	NodeFailed    Kind = "node failed"    // Key, Label, Error, Attempts, Cells
	Diverged      Kind = "diverged"       // Key, Label, Error, Worker: a task is not deterministic
	Rejected      Kind = "rejected"       // Error: the run has no plan
	Finished      Kind = "finished"       // Outcomes
)

// Entry is one line of a run's log. Which fields are set depends on its kind.
type Entry struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	// By is the user of the command, for display.
	By       string        `json:"by,omitempty"`
	Priority int           `json:"priority,omitempty"`
	Pinned   bool          `json:"pinned,omitempty"`
	Keys     []storage.Key `json:"keys,omitempty"`
	// Missing is the number of missing outputs of a done run, which are recomputed.
	Missing int `json:"missing,omitempty"`
	// Note and Tags replace the earlier ones; empty ones remove them.
	Note string   `json:"note,omitempty"`
	Tags []string `json:"tags,omitempty"`

	Key   *storage.Key `json:"key,omitempty"`
	Label string       `json:"label,omitempty"`
	Error string       `json:"error,omitempty"`
	// Attempts is the number of attempts at the node.
	Attempts int    `json:"attempts,omitempty"`
	Worker   string `json:"worker,omitempty"`
	// Seconds is the duration of the attempt; for a worker that died, up to its last heartbeat.
	Seconds float64 `json:"seconds,omitempty"`
	// Kept reports whether a failed attempt made progress, and so does not count as a try.
	Kept bool `json:"kept,omitempty"`
	// MemoryBytes and MemoryLimitBytes are the memory and the limit of a worker that died.
	MemoryBytes      int64 `json:"memory_bytes,omitempty"`
	MemoryLimitBytes int64 `json:"memory_limit_bytes,omitempty"`
	// Cells names the cells that are pinned, that failed with a node, or that wait for it; at most
	// MaxEventNames in the history.
	Cells []string `json:"cells,omitempty"`
	// Outcomes are the phases of all cells at the end, Done or Failed, by name.
	Outcomes map[string]Phase `json:"outcomes,omitempty"`
}

// Failure is a node that was given up for a run.
type Failure struct {
	Label    string    `json:"label"`
	Error    string    `json:"error"`
	Attempts int       `json:"attempts"`
	Cells    []string  `json:"cells"`
	Time     time.Time `json:"time"`
	// Deaths lists the workers that vanished while they ran the node.
	Deaths []Death `json:"worker_deaths,omitempty"`
}

// Death is the death of a worker: it vanished while it ran a node.
type Death struct {
	Worker string `json:"worker"`
	// Attempt is the number of the attempt at the node.
	Attempt int `json:"attempt"`
	// MemoryBytes is the memory of the worker's process at its last heartbeat, MemoryLimitBytes its limit;
	// 0 if unknown or not limited.
	MemoryBytes      int64 `json:"memory_bytes,omitempty"`
	MemoryLimitBytes int64 `json:"memory_limit_bytes,omitempty"`
}

// String returns a text such as "w1 at 1.9 GiB of 2.0 GiB".
func (d Death) String() string {
	text := d.Worker
	if d.MemoryBytes > 0 {
		text += " at " + humanize.IBytes(uint64(d.MemoryBytes))
	}
	if d.MemoryBytes > 0 && d.MemoryLimitBytes > 0 {
		text += " of " + humanize.IBytes(uint64(d.MemoryLimitBytes))
	}
	return text
}

// Trouble counts the failures of a node that was not given up.
type Trouble struct {
	// Tries counts attempts that ended in retryable errors, since the last one that made progress.
	Tries int `json:"tries,omitempty"`
	// Deaths lists the workers that vanished while they ran the node.
	Deaths    []Death `json:"worker_deaths,omitempty"`
	LastError string  `json:"last_error,omitempty"`
}

// State is the fold of a run's log. The zero value is the state of an empty log.
type State struct {
	Phase    Phase `json:"phase"`
	Priority int   `json:"priority,omitempty"`
	// Pinned runs are not removed, and keep all checkpoints of their rolling retention. PinnedCells are the
	// individually pinned cells, sorted.
	Pinned      bool     `json:"pinned,omitempty"`
	PinnedCells []string `json:"pinned_cells,omitempty"`
	// Note is a remark on the run; Tags are its keywords.
	Note string   `json:"note,omitempty"`
	Tags []string `json:"tags,omitempty"`
	// Restoring reports whether a formerly done run recomputes all its missing outputs, not only the inputs
	// of its results.
	Restoring bool `json:"restoring,omitempty"`
	// Removed runs are being removed: the leader deletes their record.
	Removed   bool      `json:"removed,omitempty"`
	Submitted time.Time `json:"submitted,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Finished  time.Time `json:"finished,omitzero"`
	// Error is the reason why the run could not be planned.
	Error string `json:"error,omitempty"`
	// Failures are the nodes given up for this run, by key.
	Failures map[storage.Key]Failure `json:"failures,omitempty"`
	// Troubles are the nodes with failed attempts or deaths of workers, by key.
	Troubles map[storage.Key]Trouble `json:"troubles,omitempty"`
	// Divergences are the nodes with attempts that gave different bytes, by key, with the difference: a bug
	// in their kind.
	Divergences map[storage.Key]string `json:"divergences,omitempty"`
	// Outcomes are the phases of all cells once the run has finished.
	Outcomes map[string]Phase `json:"outcomes,omitempty"`
	// History holds the events so far. In records of older builds it begins in the middle.
	History History `json:"history,omitzero"`
}

// FailedCells returns the names of the cells that failed with the failed nodes.
func (s *State) FailedCells() map[string]bool {
	failed := make(map[string]bool)
	for _, f := range s.Failures {
		for _, cell := range f.Cells {
			failed[cell] = true
		}
	}
	return failed
}

// Apply applies one more entry. Entries that are invalid in the state, such as a pause after the end,
// change nothing, because two processes may write commands at once.
func (s *State) Apply(e Entry) {
	s.Phase = cmp.Or(s.Phase, Queued)
	if !s.counts(e) {
		return
	}
	s.History.add(e)
	switch e.Kind {
	case Submitted:
		s.Submitted, s.Priority = e.Time, e.Priority
	case PinEntry:
		s.pin(e)
	case NoteEntry:
		s.Note = e.Note
	case TagEntry:
		s.Tags = e.Tags
	case Prioritized:
		s.Priority = e.Priority
	case AttemptFailed:
		s.recordTry(*e.Key, e)
	case WorkerDied:
		s.recordDeath(*e.Key, e)
	case NodeFailed:
		s.recordFailure(*e.Key, e)
	case Diverged:
		s.recordDivergence(*e.Key, e)
	case WorkerBack:
		s.retractDeaths(e.Worker)
	case PauseEntry, ResumeEntry, CancelEntry, RetryEntry, RemoveEntry, Started, Rejected, Finished:
		s.move(e)
	}
}

// pin pins or unpins the run or some of its cells.
func (s *State) pin(e Entry) {
	switch {
	case len(e.Cells) == 0 && e.Pinned:
		s.Pinned = true
	case len(e.Cells) == 0:
		s.Pinned, s.PinnedCells = false, nil
	default:
		cells := slices.DeleteFunc(slices.Clone(s.PinnedCells), func(c string) bool { return slices.Contains(e.Cells, c) })
		if e.Pinned {
			cells = slices.Compact(slices.Sorted(slices.Values(append(cells, e.Cells...))))
		}
		s.PinnedCells = cells
	}
}

// IsPinned reports whether the run or a cell is pinned.
func (s *State) IsPinned() bool { return s.Pinned || len(s.PinnedCells) > 0 }

// Pins reports whether a cell is pinned, individually or with the run.
func (s *State) Pins(cell string) bool { return s.Pinned || slices.Contains(s.PinnedCells, cell) }

func (s *State) recordTry(key storage.Key, e Entry) {
	t := s.Troubles[key]
	t.Tries, t.LastError = t.Tries+1, e.Error
	if e.Kept {
		t.Tries = 0
	}
	set(&s.Troubles, key, t)
}

func (s *State) recordDeath(key storage.Key, e Entry) {
	t := s.Troubles[key]
	t.Deaths = append(slices.Clone(t.Deaths), Death{e.Worker, e.Attempts, e.MemoryBytes, e.MemoryLimitBytes})
	set(&s.Troubles, key, t)
}

func (s *State) recordFailure(key storage.Key, e Entry) {
	set(&s.Failures, key, Failure{e.Label, e.Error, e.Attempts, e.Cells, e.Time, s.Troubles[key].Deaths})
	delete(s.Troubles, key)
}

func (s *State) recordDivergence(key storage.Key, e Entry) { set(&s.Divergences, key, e.Error) }

// retractDeaths removes the deaths of a worker that turned out to live.
func (s *State) retractDeaths(worker string) {
	for key, t := range s.Troubles {
		if t.countsDead(worker) {
			t.Deaths = slices.DeleteFunc(slices.Clone(t.Deaths), func(d Death) bool { return d.Worker == worker })
			s.Troubles[key] = t
		}
	}
}

// CountsDead reports whether the run's record counts the death of a worker.
func (s *State) CountsDead(worker string) bool {
	for _, t := range s.Troubles {
		if t.countsDead(worker) {
			return true
		}
	}
	return false
}

func (t *Trouble) countsDead(worker string) bool {
	return slices.ContainsFunc(t.Deaths, func(d Death) bool { return d.Worker == worker })
}

func set[V any](m *map[storage.Key]V, key storage.Key, value V) {
	if *m == nil {
		*m = make(map[storage.Key]V)
	}
	(*m)[key] = value
}

// Clone returns a copy that Apply can change without changing s.
func (s *State) Clone() State {
	c := *s
	c.Failures = maps.Clone(s.Failures)
	c.Troubles = maps.Clone(s.Troubles)
	c.Divergences = maps.Clone(s.Divergences)
	c.History = s.History.clone()
	return c
}
