package runs

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
)

// Bounds of the history of a folded log.
const (
	// MaxEvents is the maximum number of events. The newest are kept.
	MaxEvents = 200
	// MaxEventNames is the maximum number of keys and of cells of an event.
	MaxEventNames = 20
	// maxEventError bounds the text of an event's error, in bytes, without the note about the cut.
	maxEventError = 300
)

// History is the events of a run, in order: the entries of its log that changed the state. The log itself
// keeps few of them.
type History struct {
	Events []Entry `json:"events"`
	// Dropped is the number of forgotten earlier events.
	Dropped int `json:"dropped"`
}

// IsZero reports whether there are no events.
func (h History) IsZero() bool { return len(h.Events) == 0 && h.Dropped == 0 }

// clone returns a history that can grow without changing h.
func (h History) clone() History {
	h.Events = slices.Clip(h.Events)
	return h
}

// add adds an entry, shortened, and forgets the oldest if there are too many. The submission comes first,
// even if a coordinator that found the record has logged earlier.
func (h *History) add(e Entry) {
	e.Outcomes = nil // State.Outcomes has them
	e.Error = e.shortError()
	e.Keys = slices.Clone(e.Keys[:min(len(e.Keys), MaxEventNames)])
	e.Cells = slices.Clone(e.Cells[:min(len(e.Cells), MaxEventNames)])
	if e.Kind == Submitted {
		h.Events = append([]Entry{e}, h.Events...)
	} else {
		h.Events = append(h.Events, e)
	}
	if more := len(h.Events) - MaxEvents; more > 0 {
		h.Events, h.Dropped = h.Events[more:], h.Dropped+more
	}
}

// shortError returns the error of an event, cut between two characters. A cut error names the command that
// prints the whole text.
func (e Entry) shortError() string {
	if len(e.Error) <= maxEventError {
		return e.Error
	}
	most := maxEventError
	for !utf8.RuneStart(e.Error[most]) {
		most--
	}
	whole := "the coordinator's log has"
	if e.Key != nil {
		whole = "coalmine logs RUN " + e.Key.Short() + " prints"
	}
	return fmt.Sprintf("%s… (cut from %d bytes; %s all)", e.Error[:most], len(e.Error), whole)
}

// counts reports whether an entry changes anything in the state.
func (s *State) counts(e Entry) bool {
	switch e.Kind {
	case Submitted:
		return s.Submitted.IsZero()
	case WorkerBack:
		return s.CountsDead(e.Worker)
	case AttemptFailed, WorkerDied, NodeFailed, Diverged:
		return e.Key != nil
	case PinEntry, Prioritized, NoteEntry, TagEntry:
		return true
	case Finished:
		_, known := s.outcome(e)
		return known && s.takes(Finished)
	case PauseEntry, ResumeEntry, CancelEntry, RetryEntry, RemoveEntry, Started, Rejected:
		return s.takes(e.Kind) && (e.Missing > 0 || !s.restores(e.Kind))
	}
	return false // of a later version
}

// takes reports whether an entry of a kind moves the run in its present phase.
func (s *State) takes(kind Kind) bool {
	_, ok := findMove(kind, s.Phase)
	return ok && !s.blocked(kind)
}

// String describes the event in a sentence, without its time.
func (e Entry) String() string {
	text := e.summary()
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Error != "" {
		text += ": " + e.Error
	}
	return text
}

func (e Entry) summary() string {
	restoring := fmt.Sprintf("recomputation of %d missing outputs requested", e.Missing)
	switch e.Kind {
	case PinEntry:
		if e.Pinned {
			return "pinned" + ofCells(e.Cells)
		}
		return "unpinned" + ofCells(e.Cells)
	case Prioritized:
		return fmt.Sprintf("priority set to %d", e.Priority)
	case NoteEntry:
		return fmt.Sprintf("note set to %q", e.Note)
	case TagEntry:
		return fmt.Sprintf("tags set to %q", e.Tags)
	case RetryEntry:
		switch {
		case e.Missing > 0:
			return restoring
		case len(e.Keys) == 0:
			return "retry of all failed tasks requested"
		}
		return fmt.Sprintf("retry of %d failed tasks requested", len(e.Keys))
	case AttemptFailed:
		return fmt.Sprintf("attempt %d at %s failed%s", e.Attempts, e.Label, at(e.Worker))
	case WorkerDied:
		return fmt.Sprintf("worker %s died in attempt %d at %s; another worker takes over", e.Worker, e.Attempts, e.Label)
	case WorkerBack:
		return fmt.Sprintf("worker %s is back: it was only unreachable", e.Worker)
	case NodeFailed:
		return fmt.Sprintf("%s failed after attempt %d, and with it%s", e.Label, e.Attempts, ofCells(e.Cells))
	case Diverged:
		return fmt.Sprintf("two attempts at %s gave different outputs%s", e.Label, at(e.Worker))
	case Rejected:
		return "rejected: it cannot be planned"
	case ResumeEntry:
		if e.Missing > 0 {
			return restoring
		}
	case Submitted, PauseEntry, CancelEntry, RemoveEntry, Started, Finished:
	}
	return string(e.Kind)
}

// ofCells returns a text such as " cells c01, c02", or "" without cells.
func ofCells(cells []string) string {
	if len(cells) == 0 {
		return ""
	}
	return " cells " + strings.Join(cells, ", ")
}

func at(worker string) string {
	if worker == "" {
		return ""
	}
	return " on " + worker
}

// Document is the text of a resolved experiment. Long documents are sent and stored compressed: a run's
// record is one small object, and the cells of a grid differ little.
type Document []byte

const (
	// longDocument is the size from which documents are compressed, in bytes.
	longDocument = 64 << 10
	// MaxDocument is the largest document, in bytes: compressed data may come from any client.
	MaxDocument = 64 << 20
)

// gzipMagic begins compressed data (RFC 1952, section 2.3.1). No JSON begins with it.
var gzipMagic = []byte{0x1f, 0x8b}

// MarshalJSON writes the document in base64, compressed if it is long.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) < longDocument {
		return json.Marshal([]byte(d))
	}
	if len(d) > MaxDocument {
		return nil, fmt.Errorf("the resolved experiment has %d bytes; expected at most %d: split its grid", len(d), MaxDocument)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(d); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

// UnmarshalJSON reads a document, compressed or not.
func (d *Document) UnmarshalJSON(data []byte) error {
	var stored []byte
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	if bytes.HasPrefix(stored, gzipMagic) {
		var err error
		if stored, err = expand(stored); err != nil {
			return fmt.Errorf("the resolved experiment: %w", err)
		}
	}
	*d = stored
	return nil
}

// unpacking bounds the total size of documents that are unpacked concurrently.
var unpacking = semaphore.NewWeighted(2 * MaxDocument)

// expand unpacks a document. It reserves the size that the document states before it allocates memory.
func expand(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	stated := int64(binary.LittleEndian.Uint32(compressed[len(compressed)-4:])) // RFC 1952, section 2.3.1
	if stated > MaxDocument {
		return nil, fmt.Errorf("it decompresses to %d bytes; expected at most %d", stated, MaxDocument)
	}
	if err := unpacking.Acquire(context.Background(), stated); err != nil {
		return nil, err
	}
	defer unpacking.Release(stated)
	var data bytes.Buffer
	data.Grow(int(stated) + bytes.MinRead)
	if _, err := data.ReadFrom(io.LimitReader(r, stated+1)); err != nil {
		return nil, err
	}
	if int64(data.Len()) != stated {
		return nil, fmt.Errorf("its size differs from the %d bytes that it states", stated)
	}
	return data.Bytes(), nil
}

// UnpackedSize returns an upper bound for the memory of a decoded run record, in bytes. record is its JSON.
func UnpackedSize(record []byte) int64 {
	if bytes.Contains(record, packedText) || bytes.Contains(record, []byte(`\u`)) { // an escape may hide packedText
		return int64(len(record)) + MaxDocument
	}
	return 2 * int64(len(record))
}

// packedText is the beginning of the base64 of a compressed document.
var packedText = []byte(base64.StdEncoding.EncodeToString(append(gzipMagic, 8))[:4])
