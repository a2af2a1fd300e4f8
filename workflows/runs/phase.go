package runs

import (
	"slices"
	"strings"
	"time"

	"coalmine/storage"
)

// Phase is the phase of a run.
type Phase string

// The phases of a run.
const (
	Queued    Phase = "queued"    // submitted or continued; no coordinator has started it
	Running   Phase = "running"   // being worked on
	Paused    Phase = "paused"    // wants nothing, until it is resumed
	Done      Phase = "done"      // every cell is done
	Failed    Phase = "failed"    // every cell has ended, and some failed; or the run could not be planned
	Cancelled Phase = "cancelled" // wants nothing, until it is resumed
)

// Finished reports whether the run has ended. A command may still continue it.
func (p Phase) Finished() bool { return p == Done || p == Failed || p == Cancelled }

// move is a line of the drawing in the package comment: in a phase of from, an entry of the kind leads to a phase of
// to. If to has several phases, the entry names one of them; if it has none, the phase stays the same.
type move struct {
	kind Kind
	from []Phase
	to   []Phase
}

var (
	unfinished = []Phase{Queued, Running, Paused}
	finished   = []Phase{Done, Failed, Cancelled}
)

// moves lists all transitions. The allowed operations and the state of a log both follow from it.
var moves = []move{
	{Started, []Phase{Queued}, []Phase{Running}},
	{PauseEntry, unfinished, []Phase{Paused}},
	{ResumeEntry, []Phase{Paused, Cancelled, Done}, []Phase{Queued}},
	{CancelEntry, unfinished, []Phase{Cancelled}},
	{RetryEntry, []Phase{Failed, Done}, []Phase{Queued}},
	{RetryEntry, []Phase{Queued, Running, Paused, Cancelled}, nil},
	{Rejected, unfinished, []Phase{Failed}},
	{Finished, unfinished, []Phase{Done, Failed}},
	{RemoveEntry, finished, nil},
}

// findMove returns the move of an entry in a phase, or false if there is none.
func findMove(kind Kind, phase Phase) (move, bool) {
	for _, m := range moves {
		if m.kind == kind && slices.Contains(m.from, phase) {
			return m, true
		}
	}
	return move{}, false
}

// phasesFor returns the phases in which an entry of a kind counts, as text.
func phasesFor(kind Kind) string {
	var names []string
	for _, m := range moves {
		for _, phase := range m.from {
			if m.kind == kind {
				names = append(names, string(phase))
			}
		}
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// restores reports whether an entry of a kind makes a done run recompute its missing outputs.
func (s *State) restores(kind Kind) bool {
	return s.Phase == Done && (kind == RetryEntry || kind == ResumeEntry)
}

// blocked reports whether an entry of a kind is ignored in every phase: a removal if the run or a cell is
// pinned, and any other entry while the run is being removed.
func (s *State) blocked(kind Kind) bool {
	if kind == RemoveEntry {
		return s.IsPinned()
	}
	return s.Removed
}

// move applies an entry that moves the run and counts in its phase.
func (s *State) move(e Entry) {
	m, _ := findMove(e.Kind, s.Phase)
	switch e.Kind {
	case Finished:
		outcome, _ := s.outcome(e)
		m.to, s.Outcomes = []Phase{outcome}, e.Outcomes
	case Started:
		if s.Started.IsZero() {
			s.Started = e.Time
		}
	case Rejected:
		s.Error = e.Error
	case RetryEntry:
		s.Restoring = s.Restoring || s.Phase == Done
		s.forgetFailures(e.Keys)
	case ResumeEntry:
		s.Restoring = s.Restoring || s.Phase == Done
	case RemoveEntry:
		s.Removed = true
	case PauseEntry, CancelEntry: // only change the phase
	case Submitted, PinEntry, Prioritized, NoteEntry, TagEntry, AttemptFailed, WorkerDied, WorkerBack, NodeFailed, Diverged: // have no move
	}
	if len(m.to) > 0 {
		s.enter(m.to[0], e.Time)
	}
}

func (s *State) enter(phase Phase, at time.Time) {
	s.Phase = phase
	switch {
	case phase.Finished():
		s.Finished = at
		s.Restoring = s.Restoring && phase == Cancelled // a cancelled run may be resumed
	case phase == Queued:
		s.Error, s.Outcomes, s.Finished = "", nil, time.Time{}
	}
}

// outcome returns the phase in which the run ends. The phase is unknown if a cell failed because of nodes
// that are being retried: the coordinator had not read the retry when it wrote the entry.
func (s *State) outcome(e Entry) (phase Phase, known bool) {
	phase, failed := Done, s.FailedCells()
	for cell, outcome := range e.Outcomes {
		if outcome != Failed {
			continue
		}
		if !failed[cell] {
			return "", false
		}
		phase = Failed
	}
	return phase, true
}

// forgetFailures clears the failures of nodes; all failures if no keys are given.
func (s *State) forgetFailures(keys []storage.Key) {
	if len(keys) == 0 {
		s.Failures, s.Troubles = nil, nil
	}
	for _, key := range keys {
		delete(s.Failures, key)
		delete(s.Troubles, key)
	}
}
