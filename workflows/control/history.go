package control

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"coalmine/storage"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// History has the events of a run, the newest last.
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

// History implements API.
func (l *Local) History(ctx context.Context, name string) (*History, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	h := &History{Run: run.ID, Events: []Event{}, Dropped: run.State.History.Dropped}
	h.Events = append(h.Events, sentences(run.State.History.Events)...)
	return h, nil
}

// sentences returns the events with their texts. The text of a node that was given up omits the error if the event of
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
	case len(e.Note) > maxNoteBytes || strings.IndexFunc(e.Note, isUnprintable) >= 0:
		return fmt.Errorf("a note of %d bytes %w: expected text in UTF-8 of at most %d bytes", len(e.Note), ErrInput, maxNoteBytes)
	case len(e.Tags) > maxTags:
		return fmt.Errorf("%d tags for a run %w: at most %d", len(e.Tags), ErrInput, maxTags)
	}
	for _, tag := range e.Tags {
		if !isTag(tag) {
			return fmt.Errorf("tag %.60q %w: expected a word of at most %d characters, without blanks and commas", tag, ErrInput, maxTagCharacters)
		}
	}
	return nil
}

// isUnprintable reports whether a character controls a terminal, other than by ending a line.
func isUnprintable(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t'
}

func isTag(tag string) bool {
	plain := func(r rune) bool {
		return r != ',' && r != utf8.RuneError && unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	n := utf8.RuneCountInString(tag)
	return n > 0 && n <= maxTagCharacters && strings.IndexFunc(tag, func(r rune) bool { return !plain(r) }) < 0
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
