package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// History holds the events of a run, the newest last.
type History struct {
	Run    string  `json:"run"`
	Events []Event `json:"events"`
	// Dropped is the number of forgotten earlier events.
	Dropped int `json:"dropped"`
}

// Event is an event of a run.
type Event struct {
	runs.Entry
	// Text describes the event in a sentence, without its time.
	Text string `json:"text"`
}

func (l *Local) History(ctx context.Context, name string) (*History, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	return &History{run.ID, append([]Event{}, sentences(run.State.History.Events)...), run.State.History.Dropped}, nil
}

// sentences returns the events with their texts. The text of a failed node omits the error if the event of
// its last attempt has it.
func sentences(entries []runs.Entry) (events []Event) {
	reported := map[storage.Key]string{}
	for _, e := range entries {
		text := e.String()
		switch {
		case e.Key == nil:
		case e.Kind == runs.AttemptFailed:
			reported[*e.Key] = e.Error
		case e.Kind == runs.NodeFailed && e.Error != "" && e.Error == reported[*e.Key]:
			text = strings.TrimSuffix(text, ": "+e.Error)
		}
		events = append(events, Event{e, text})
	}
	return events
}

// Bounds of a run's note and tags.
const (
	maxNoteBytes     = 4 << 10
	maxTags          = 20
	maxTagCharacters = 40
)

// checkRemark returns an error for notes and tags that a list cannot show.
func checkRemark(e runs.Entry) error {
	switch {
	case e.Note != "" && e.Kind != runs.NoteEntry, len(e.Tags) > 0 && e.Kind != runs.TagEntry:
		return fmt.Errorf("%q %w with a note or tags: send them as %q and %q", e.Kind, ErrInput, runs.NoteEntry, runs.TagEntry)
	case len(e.Note) > maxNoteBytes:
		return fmt.Errorf("a note of %d bytes %w: expected at most %d", len(e.Note), ErrInput, maxNoteBytes)
	case strings.ContainsFunc(e.Note, isUnprintable):
		at := strings.IndexFunc(e.Note, isUnprintable)
		return fmt.Errorf("a note with %.1q at byte %d %w: expected text in UTF-8 without control characters", e.Note[at:], at, ErrInput)
	case len(e.Tags) > maxTags:
		return fmt.Errorf("a list of %d tags %w: expected at most %d", len(e.Tags), ErrInput, maxTags)
	}
	for _, tag := range e.Tags {
		n := utf8.RuneCountInString(tag)
		if n == 0 || n > maxTagCharacters || strings.ContainsFunc(tag, splitsTag) {
			return fmt.Errorf("tag %.60q %w: expected a word of at most %d characters, without blanks and commas", tag, ErrInput, maxTagCharacters)
		}
	}
	return nil
}

// isUnprintable reports whether a character controls a terminal, other than by ending a line.
func isUnprintable(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t'
}

// splitsTag reports whether a character may not stand in a tag.
func splitsTag(r rune) bool {
	return r == ',' || r == utf8.RuneError || !unicode.IsGraphic(r) || unicode.IsSpace(r)
}

// remarked returns a copy of a shared status, with the run's note and tags.
func remarked(s *status.Run, state *runs.State) *status.Run {
	out := *s
	out.Priority, out.Note, out.Tags = state.Priority, state.Note, state.Tags
	out.Pinned, out.PinnedCells = state.Pinned, state.PinnedCells
	if out.Workers == nil {
		out.Workers = []status.Worker{} // an empty list, not null, in JSON
	}
	return &out
}

// loggedNodes is the maximum number of nodes in a request that names no node: each takes a listing of the store.
const loggedNodes = 100

func (l *Local) Logs(ctx context.Context, name, node string) ([]AttemptLog, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	nodes := append(troubled(run), l.programs(ctx, run)...)
	if node == "" {
		nodes = nodes[:min(len(nodes), loggedNodes)]
	} else {
		nodes = slices.DeleteFunc(append(nodes, retried(run)...), func(n troubledNode) bool {
			return n.label != node && !strings.HasPrefix(n.key.String(), node)
		})
	}
	out := []AttemptLog{}
	for _, n := range nodes {
		logs, err := l.stored(ctx, run.ID, n)
		if err != nil {
			return nil, err
		}
		out = append(out, append(logs, n.unlogged(len(logs) == 0)...)...)
	}
	return out, nil
}

func (l *Local) stored(ctx context.Context, run string, n troubledNode) ([]AttemptLog, error) {
	attempts, err := l.archive.TaskLogs(ctx, run, n.key)
	if err != nil {
		return nil, err
	}
	var logs []AttemptLog
	for _, attempt := range attempts {
		text, err := l.archive.ReadTaskLog(ctx, run, n.key, attempt)
		if err != nil {
			return nil, err
		}
		logs = append(logs, AttemptLog{n.key, n.label, attempt, string(text)})
	}
	return logs, nil
}

// programs returns the trainings of a run by programs, except troubled ones, because their logs hold the
// output of the program. If the plan cannot be read, it returns nil.
func (l *Local) programs(ctx context.Context, run *runs.Run) (nodes []troubledNode) {
	found, err := runs.ReadPlanned(ctx, l.archive, run)
	if err != nil || found.Unreadable != nil {
		return nil
	}
	seen := map[storage.Key]bool{}
	for _, n := range troubled(run) {
		seen[n.key] = true
	}
	for i := range found.Plan.Cells {
		key := found.Plan.Cells[i].Model.Key
		if found.Spec.Cells[i].Experiment.Training.Algorithm == experiment.External && !seen[key] {
			seen[key] = true
			nodes = append(nodes, troubledNode{key: key, label: found.Plan.Nodes[key].Label})
		}
	}
	return nodes
}

// troubledNode is a node that has failed or had failed attempts.
type troubledNode struct {
	key    storage.Key
	label  string
	deaths []runs.Death
	// failure is the error of a node that was given up after a number of attempts, or "".
	failure  string
	attempts int
}

// troubled returns the failed nodes of a run, by key, and then those with failed attempts that are retried
// or have succeeded since.
func troubled(run *runs.Run) []troubledNode {
	var out []troubledNode
	for _, key := range plan.SortedKeys(run.State.Failures) {
		f := run.State.Failures[key]
		out = append(out, troubledNode{key, f.Label, f.Deaths, f.Error, f.Attempts})
	}
	labels := remembered(run)
	for _, key := range plan.SortedKeys(run.State.Troubles) {
		if _, failed := run.State.Failures[key]; !failed {
			label := cmp.Or(labels[key], "a retried node")
			out = append(out, troubledNode{key: key, label: label, deaths: run.State.Troubles[key].Deaths})
		}
	}
	return out
}

// retried returns the other nodes of the history, by key. A retry has cleared their attempts.
func retried(run *runs.Run) []troubledNode {
	var out []troubledNode
	labels := remembered(run)
	for _, key := range plan.SortedKeys(labels) {
		_, failed := run.State.Failures[key]
		_, troubled := run.State.Troubles[key]
		if !failed && !troubled {
			out = append(out, troubledNode{key: key, label: labels[key]})
		}
	}
	return out
}

// remembered returns the labels of the nodes in the history.
func remembered(run *runs.Run) map[storage.Key]string {
	labels := make(map[storage.Key]string)
	for _, e := range run.State.History.Events {
		if e.Key != nil {
			labels[*e.Key] = e.Label
		}
	}
	return labels
}

// unlogged returns entries for the attempts whose workers vanished, which leave no log, and, if withFailure
// is set and there are none, for the node's failure.
func (n troubledNode) unlogged(withFailure bool) []AttemptLog {
	var logs []AttemptLog
	for _, d := range n.deaths {
		text := fmt.Sprintf("the worker died during this attempt: %s\n", d)
		logs = append(logs, AttemptLog{n.key, n.label, fmt.Sprintf("%d.%s", d.Attempt, d.Worker), text})
	}
	if withFailure && len(logs) == 0 && n.failure != "" {
		logs = append(logs, AttemptLog{n.key, n.label, strconv.Itoa(n.attempts), n.failure + "\n"})
	}
	return logs
}
