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

// History is the events of a run, in order, the newest last.
type History struct {
	Run    string  `json:"run"`
	Events []Event `json:"events"`
	// Dropped is how many events came before these and are forgotten.
	Dropped int `json:"dropped"`
}

// Event is one thing that happened.
type Event struct {
	runs.Entry
	// Text says it in a sentence, without its time.
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

// sentences are the events with their texts. The text of a node that was given up leaves out the error that the event of
// its last attempt has told.
func sentences(entries []runs.Entry) (events []Event) {
	told := map[storage.Key]string{}
	for _, e := range entries {
		text := e.String()
		switch {
		case e.Key == nil:
		case e.Kind == runs.AttemptFailed:
			told[*e.Key] = e.Error
		case e.Kind == runs.NodeFailed && e.Error != "" && e.Error == told[*e.Key]:
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

// checkRemark refuses notes and tags that no list could show.
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

// isUnprintable reports whether a character does more to a terminal than end a line.
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

// remarked is a status with the run's note and tags: a copy, since statuses are shared.
func remarked(s *status.Run, state *runs.State) *status.Run {
	out := *s
	out.Priority, out.Note, out.Tags = state.Priority, state.Note, state.Tags
	out.Pinned, out.PinnedCells = state.Pinned, state.PinnedCells
	if out.Workers == nil {
		out.Workers = []status.Worker{} // an empty list, not null, in JSON
	}
	return &out
}
