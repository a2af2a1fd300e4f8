package runs

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"coalmine/storage"
)

func kindsOf(h History) []Kind {
	var kinds []Kind
	for _, e := range h.Events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestAHistoryHasWhatChangedSomethingInItsOrder(t *testing.T) {
	t.Parallel()
	key := storage.Key{Digest: storage.DigestOf([]byte("n"))}
	var s State
	for i, e := range []Entry{
		{Kind: Submitted, By: "ada"},
		{Kind: Submitted, By: "bob"},     // another process completed the same submission
		{Kind: ResumeEntry, By: "bob"},   // it is not paused
		{Kind: Started},                  //
		{Kind: WorkerBack, Worker: "w1"}, // nobody took it for dead
		{Kind: WorkerDied, Worker: "w1"}, // of no node
		{Kind: "of a later version"},     //
		{Kind: WorkerDied, Worker: "w1", Key: &key, Label: "round 3"},
		{Kind: WorkerBack, Worker: "w1"},
		{Kind: PauseEntry, By: "eve"},
		{Kind: NoteEntry, Note: "too noisy"},
		{Kind: TagEntry, Tags: []string{"paper"}},
		{Kind: Finished, Outcomes: map[string]Phase{"c01": Failed}}, // no node of it has failed
		{Kind: Finished, Outcomes: map[string]Phase{"c01": Done}},
		{Kind: PauseEntry}, // it has ended
	} {
		e.Time = time.Unix(int64(i), 0)
		s.Apply(e)
	}
	want := []Kind{Submitted, Started, WorkerDied, WorkerBack, PauseEntry, NoteEntry, TagEntry, Finished}
	if got := kindsOf(s.History); !slices.Equal(got, want) {
		t.Errorf("the history has %q, want %q", got, want)
	}
	if e := s.History.Events[4]; e.By != "eve" || e.Time.Unix() != 9 {
		t.Errorf("who paused it, and when: %+v", e)
	}
	if s.Note != "too noisy" || !slices.Equal(s.Tags, []string{"paper"}) || s.Phase != Done {
		t.Errorf("note %q, tags %q, phase %s", s.Note, s.Tags, s.Phase)
	}
}

// A coordinator sees the record of a run before its submission stands in the log.
func TestARunIsSubmittedBeforeItBegins(t *testing.T) {
	t.Parallel()
	var s State
	for _, kind := range []Kind{Started, Submitted, PauseEntry} {
		s.Apply(Entry{Kind: kind})
	}
	if got, want := kindsOf(s.History), []Kind{Submitted, Started, PauseEntry}; !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
}

func TestAHistoryIsBounded(t *testing.T) {
	t.Parallel()
	key := storage.Key{Digest: storage.DigestOf([]byte("n"))}
	var s State
	for i := range 3 * MaxEvents {
		s.Apply(Entry{
			Kind: AttemptFailed, Key: &key, Attempts: i, Error: strings.Repeat("é", maxEventError),
			Keys: make([]storage.Key, 1000), Cells: make([]string, 1000),
		})
	}
	h := s.History
	if len(h.Events) != MaxEvents || h.Dropped != 2*MaxEvents || h.Events[0].Attempts != 2*MaxEvents {
		t.Fatalf("%d events from the %dth on, %d dropped", len(h.Events), h.Events[0].Attempts, h.Dropped)
	}
	for _, e := range h.Events {
		cut := fmt.Sprintf("é… (cut from 600 bytes; coalmine logs RUN %s prints all)", key.Short())
		if len(e.Error) > maxEventError+len(cut) || !strings.HasSuffix(e.Error, cut) || !utf8.ValidString(e.Error) || len(e.Keys) > MaxEventNames || len(e.Cells) > MaxEventNames {
			t.Fatalf("an event has an error of %d bytes, %d keys and %d cells", len(e.Error), len(e.Keys), len(e.Cells))
		}
	}
}

// A clone changes independently, even if entries were dropped meanwhile.
func TestClonesKeepTheirHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := State{Phase: Queued}
		for range r.IntN(2 * MaxEvents) {
			s.Apply(Entry{Kind: Prioritized, Priority: r.IntN(9)})
		}
		before := slices.Clone(s.History.Events)
		for i := range 3 {
			c := s.Clone()
			c.Apply(Entry{Kind: NoteEntry, Note: fmt.Sprint(i)})
			if last := c.History.Events[len(c.History.Events)-1]; last.Note != fmt.Sprint(i) {
				t.Fatalf("seed %d: the clone's last event is %+v", seed, last)
			}
		}
		if !slices.EqualFunc(s.History.Events, before, func(a, b Entry) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("seed %d: a clone changed the history that it was made of", seed)
		}
	}
}

func TestEventsAreToldInSentences(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		e    Entry
		want string
	}{
		{Entry{Kind: Submitted, By: "ada@host"}, "submitted by ada@host"},
		{Entry{Kind: PinEntry, Pinned: true, Cells: []string{"c01", "c02"}}, "pinned cells c01, c02"},
		{Entry{Kind: PinEntry, By: "ada"}, "unpinned by ada"},
		{Entry{Kind: RetryEntry, By: "ada"}, "all that failed is tried again, asked for by ada"},
		{Entry{Kind: AttemptFailed, Attempts: 2, Label: "round 3", Worker: "w1", Error: "reset"}, "attempt 2 at round 3 failed on w1: reset"},
		{Entry{Kind: WorkerDied, Attempts: 1, Label: "round 3", Worker: "w1"}, "worker w1 vanished in attempt 1 at round 3, which another takes over"},
		{Entry{Kind: NodeFailed, Attempts: 5, Label: "audit", Cells: []string{"c01"}, Error: "NaN"}, "audit given up after attempt 5, and with it cells c01: NaN"},
		{Entry{Kind: Finished}, "finished"},
	} {
		if got := x.e.String(); got != x.want {
			t.Errorf("%s is told as %q, want %q", x.e.Kind, got, x.want)
		}
	}
}
