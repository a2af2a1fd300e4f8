package runs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"coalmine/internal/must"
	"coalmine/storage"
)

func kindsOf(h History) []Kind {
	var kinds []Kind
	for _, e := range h.Events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestHistoryListsEffectiveEntriesInOrder(t *testing.T) {
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
func TestHistoryPutsSubmissionFirst(t *testing.T) {
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
func TestClonesHaveIndependentHistories(t *testing.T) {
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

func TestEntryString(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		e    Entry
		want string
	}{
		{Entry{Kind: Submitted, By: "ada@host"}, "submitted by ada@host"},
		{Entry{Kind: PinEntry, Pinned: true, Cells: []string{"c01", "c02"}}, "pinned cells c01, c02"},
		{Entry{Kind: PinEntry, By: "ada"}, "unpinned by ada"},
		{Entry{Kind: RetryEntry, By: "ada"}, "retry of all failed tasks requested by ada"},
		{Entry{Kind: AttemptFailed, Attempts: 2, Label: "round 3", Worker: "w1", Error: "reset"}, "attempt 2 at round 3 failed on w1: reset"},
		{Entry{Kind: WorkerDied, Attempts: 1, Label: "round 3", Worker: "w1"}, "worker w1 died in attempt 1 at round 3; another worker takes over"},
		{Entry{Kind: NodeFailed, Attempts: 5, Label: "audit", Cells: []string{"c01"}, Error: "NaN"}, "audit failed after attempt 5, and with it cells c01: NaN"},
		{Entry{Kind: Finished}, "finished"},
	} {
		if got := x.e.String(); got != x.want {
			t.Errorf("%s is told as %q, want %q", x.e.Kind, got, x.want)
		}
	}
}

func TestLongDocumentIsCompressedAndRestored(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 10, longDocument - 1, longDocument, 20 * longDocument} {
		want := Spec{Name: "x", Experiment: bytes.Repeat([]byte("{}"), size/2)}
		data := must.Get(json.Marshal(want))(t)
		var got Spec
		if err := json.Unmarshal(data, &got); err != nil || !bytes.Equal(got.Experiment, want.Experiment) {
			t.Errorf("%d bytes read back as %d, %v", size, len(got.Experiment), err)
		}
		if size > longDocument && len(data) > storage.MaxCreate/100 {
			t.Errorf("%d repetitive bytes take %d", size, len(data))
		}
	}
}

func TestOversizedAndBrokenDocumentsAreRejected(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range MaxDocument>>20 + 1 {
		must.Get(w.Write(make([]byte, 1<<20)))(t)
	}
	must.Do(t, w.Close())
	for name, stored := range map[string][]byte{"a bomb": b.Bytes(), "a cut document": b.Bytes()[:b.Len()/2], "a broken one": gzipMagic} {
		data := must.Get(json.Marshal(stored))(t)
		var d Document
		if err := json.Unmarshal(data, &d); err == nil || !strings.Contains(err.Error(), "resolved experiment") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := json.Marshal(Document(make([]byte, MaxDocument+1))); err == nil || !strings.Contains(err.Error(), "split its grid") {
		t.Errorf("too large a document: %v", err)
	}
}

func TestDocumentWithWrongSizeIsRejected(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(bytes.Repeat([]byte("{}"), 1<<20))
	_ = w.Close()
	for _, size := range []uint32{0, 1, 2<<20 - 1, 2<<20 + 1, MaxDocument, MaxDocument + 1, 1<<32 - 1} {
		forged := bytes.Clone(packed.Bytes())
		binary.LittleEndian.PutUint32(forged[len(forged)-4:], size)
		data := must.Get(json.Marshal(forged))(t)
		var d Document
		if err := json.Unmarshal(data, &d); err == nil {
			t.Errorf("%d bytes that state %d are taken", len(d), size)
		}
	}
	if !unpacking.TryAcquire(2 * MaxDocument) {
		t.Error("the memory of refused documents is not given back")
	} else {
		unpacking.Release(2 * MaxDocument)
	}
}

func TestUnpackedSizeOfPackedRecordIsMaximum(t *testing.T) {
	t.Parallel()
	packed := must.Get(json.Marshal(Spec{Experiment: make([]byte, longDocument)}))(t)
	hidden := bytes.Replace(packed, []byte(`"H`), []byte(`"\u0048`), 1)
	plain := must.Get(json.Marshal(Spec{Experiment: []byte("{}")}))(t)
	if UnpackedSize(packed) < MaxDocument || UnpackedSize(hidden) < MaxDocument || UnpackedSize(plain) > 1000 {
		t.Errorf("sizes %d, %d and %d", UnpackedSize(packed), UnpackedSize(hidden), UnpackedSize(plain))
	}
}
