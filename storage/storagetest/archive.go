package storagetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

func testKey(n int) storage.Key {
	return storage.Key{Digest: storage.DigestOf([]byte(fmt.Sprintf("node %d", n)))}
}

func testCommit(attempt string, blobs ...storage.Blob) *storage.Commit {
	return &storage.Commit{Key: testKey(1), Kind: "test/kind", KindVersion: 1, Attempt: attempt, Blobs: blobs,
		Metrics: json.RawMessage(`{"loss":4.2}`)}
}

func putBlob(t testing.TB, a *storage.Archive, n int, name string, data []byte) storage.Blob {
	t.Helper()
	b := must.Get(a.PutBlob(t.Context(), testKey(n), name, data, storage.Recomputable))(t)
	return b
}

func archiveBlobs(t *testing.T, d Driver) {
	s := d.new(t)
	a := storage.NewArchive(s)
	data := pattern(100_000)
	b := putBlob(t, a, 1, "model", data)
	got, err := a.ReadBlob(t.Context(), testKey(1), b)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read %s (%v), want %s", digest(got), err, digest(data))
	}
	if got, err := a.ReadBlobRange(t.Context(), testKey(1), b, 70_000, 30_000); err != nil || !bytes.Equal(got, data[70_000:]) {
		t.Errorf("range: read %s (%v), want %s", digest(got), err, digest(data[70_000:]))
	}

	object := "blobs/" + testKey(1).String() + "/" + b.Digest.String()
	damaged := bytes.Clone(data)
	damaged[50_000] ^= 1
	for damage, stored := range map[string][]byte{"a flipped bit": damaged, "a lost end": data[:99_999], "more bytes": pattern(100_001)} {
		put(t, s, object, stored)
		_, err := a.ReadBlob(t.Context(), testKey(1), b)
		wantError(t, damage, err, storage.ErrCorrupt)
	}
	put(t, s, object, data[:99_999])
	_, err = a.ReadBlobRange(t.Context(), testKey(1), b, 99_000, 1_000)
	wantError(t, "a range into a lost end", err, storage.ErrCorrupt)
}

func archiveKeptBlobs(t *testing.T, d Driver) {
	s := d.new(t)
	a := storage.NewArchive(s)
	for size, durability := range map[int]storage.Durability{100: storage.Durable, 200_000: storage.Durable, 100_000: storage.Recomputable} {
		data := pattern(size)
		b := putBlob(t, a, 1, "made", data)
		kept, err := a.KeepBlob(t.Context(), testKey(2), "kept", testKey(1), b, durability)
		if err != nil || kept.Name != "kept" || kept.Digest != b.Digest {
			t.Fatalf("kept %+v (%v), want %+v under another name", kept, err, b)
		}
		must.Do(t, a.DeleteNode(t.Context(), testCommit("maker", b)))
		if got, err := a.ReadBlob(t.Context(), testKey(2), kept); err != nil || !bytes.Equal(got, data) {
			t.Errorf("of %d bytes %s is left (%v), want %s", size, digest(got), err, digest(data))
		}
		if !b.IsInline() {
			_, err = a.KeepBlob(t.Context(), testKey(3), "kept", testKey(1), b, durability)
			wantError(t, "keeping what is gone", err, storage.ErrNotFound)
		}
	}
	keepsNothingDamaged(t, s, a)
}

func keepsNothingDamaged(t *testing.T, s storage.Store, a *storage.Archive) {
	data := pattern(300_000)
	b := putBlob(t, a, 4, "damaged", data)
	object := "blobs/" + testKey(4).String() + "/" + b.Digest.String()
	flipped := bytes.Clone(data)
	flipped[290_000] ^= 1
	for damage, stored := range map[string][]byte{"a flipped bit": flipped, "a lost end": data[:299_999], "more bytes": append(data, 0)} {
		put(t, s, object, stored)
		_, err := a.KeepBlob(t.Context(), testKey(5), "kept", testKey(4), b, storage.Durable)
		wantError(t, damage, err, storage.ErrCorrupt)
	}
}

func archiveCommitRace(t *testing.T, d Driver) {
	stores := openAll(t, d, d.Location(t))
	stands := make([]*storage.Commit, racers)
	won := make([]bool, racers)
	race(stores, func(i int, s storage.Store) {
		a := storage.NewArchive(s)
		var err error
		c := testCommit(fmt.Sprintf("attempt-%d", i), putBlob(t, a, 1, "out", []byte("same bytes")))
		if stands[i], won[i], err = a.Commit(t.Context(), c); err != nil {
			t.Errorf("racer %d: %v", i, err)
		}
	})
	if t.Failed() {
		return
	}
	winner := slices.Index(won, true)
	if winner < 0 || slices.Contains(won[winner+1:], true) {
		t.Fatalf("want exactly one winner, got %v", won)
	}
	for i, c := range stands {
		if want := fmt.Sprintf("attempt-%d", winner); c.Attempt != want {
			t.Errorf("racer %d was told that %s stands, not %s", i, c.Attempt, want)
		}
		if diff := c.Differs(stands[winner]); diff != "" {
			t.Errorf("racer %d sees another commit: %s", i, diff)
		}
	}
}

func archiveTornCommit(t *testing.T, d Driver) {
	s := d.new(t)
	a := storage.NewArchive(s)
	if _, _, err := a.Commit(t.Context(), testCommit("first")); err != nil {
		t.Fatal(err)
	}
	if removed, err := a.RemoveTorn(t.Context(), testKey(1)); removed || err != nil {
		t.Fatalf("a whole commit was removed: %v, %v", removed, err)
	}
	name := "commits/" + testKey(1).String()
	whole, err := get(t.Context(), s, name, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, name, whole[:len(whole)/2])
	_, err = a.Committed(t.Context(), testKey(1))
	wantError(t, "reading a torn commit", err, storage.ErrCorrupt)
	_, _, err = a.Commit(t.Context(), testCommit("second"))
	wantError(t, "committing over a torn commit", err, storage.ErrCorrupt)
	if removed, err := a.RemoveTorn(t.Context(), testKey(1)); !removed || err != nil {
		t.Fatalf("a torn commit was not removed: %v, %v", removed, err)
	}
	if c, won, err := a.Commit(t.Context(), testCommit("second")); err != nil || !won || c.Attempt != "second" {
		t.Errorf("after removal: %v, %v, %v", c, won, err)
	}
}

func archiveSources(t *testing.T, d Driver) {
	s := d.new(t)
	a := storage.NewArchive(s)
	text := strings.Repeat("{\"user\":\"lincoln\",\"text\":\"four score\"}\n", 5000)
	key, size, err := a.PutSource(t.Context(), strings.NewReader(text))
	if err != nil || size != int64(len(text)) || key != storage.DigestOf([]byte(text)) {
		t.Fatalf("imported as %s, %d bytes: %v", key, size, err)
	}
	if again, _, err := a.PutSource(t.Context(), strings.NewReader(text)); err != nil || again != key {
		t.Errorf("imported again as %s: %v", again, err)
	}
	if got, err := readSource(t, a, key); err != nil || got != text {
		t.Errorf("read %d bytes back: %v", len(got), err)
	}
	put(t, s, "sources/"+key.String(), []byte(text[:len(text)-1]+"!"))
	_, err = readSource(t, a, key)
	wantError(t, "reading a damaged source", err, storage.ErrCorrupt)
	if !strings.Contains(err.Error(), "delete the object sources/"+key.String()) {
		t.Errorf("reading a damaged source: %v, which does not name the object to delete", err)
	}
	_, err = a.OpenSource(t.Context(), storage.DigestOf(nil))
	wantError(t, "opening a source that is not imported", err, storage.ErrNotFound)
	if !strings.Contains(err.Error(), "submit the run again") {
		t.Errorf("opening a source that is not imported: %v, which has no advice", err)
	}
}

func readSource(t *testing.T, a *storage.Archive, key storage.Digest) (string, error) {
	r, err := a.OpenSource(t.Context(), key)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func archiveRuns(t *testing.T, d Driver) {
	a := storage.NewArchive(d.new(t))
	for _, id := range []string{"b-2", "a", "b"} {
		must.Do(t, a.CreateRun(t.Context(), id, []byte("spec of "+id)))
	}
	if err := a.CreateRun(t.Context(), "a", []byte("spec of a")); err != nil {
		t.Errorf("repeating a submission: %v", err)
	}
	wantError(t, "taking a taken id", a.CreateRun(t.Context(), "a", []byte("another")), storage.ErrExists)
	wantError(t, "a bad id", a.CreateRun(t.Context(), "A/b", nil), storage.ErrName)
	must.Get(a.AppendLog(t.Context(), "b", json.RawMessage(`"pause"`)))(t)
	must.Do(t, a.PutTaskLog(t.Context(), "b", testKey(1), "1", []byte("printed")))
	if got, err := a.ReadTaskLog(t.Context(), "b", testKey(1), "1"); err != nil || string(got) != "printed" {
		t.Errorf("task log: %q, %v", got, err)
	}
	if got, err := a.TaskLogs(t.Context(), "b", testKey(1)); err != nil || !slices.Equal(got, []string{"1"}) {
		t.Errorf("task logs: %q, %v", got, err)
	}
	wantRuns(t, a, "a", "b", "b-2")
	must.Do(t, a.DeleteRun(t.Context(), "b"))
	wantRuns(t, a, "a", "b-2")
	if spec, err := a.Spec(t.Context(), "b-2"); err != nil || string(spec) != "spec of b-2" {
		t.Errorf("spec: %q, %v", spec, err)
	}
	_, err := a.Spec(t.Context(), "b")
	wantError(t, "spec of a removed run", err, storage.ErrNotFound)
	if infos := collect(t, a.Store().List(t.Context(), "")); len(infos) != 2 {
		t.Errorf("a removed run left something: %v", infos)
	}
}

func wantRuns(t *testing.T, a *storage.Archive, want ...string) {
	t.Helper()
	got, err := a.Runs(t.Context())
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("runs: %q, %v, want %q", got, err, want)
	}
}

func archiveLogAppendRace(t *testing.T, d Driver) {
	stores := openAll(t, d, d.Location(t))
	var mu sync.Mutex
	written := make(map[int]string)
	race(stores, func(i int, s storage.Store) {
		entry := fmt.Sprintf(`{"racer":%d}`, i)
		n, err := storage.NewArchive(s).AppendLog(t.Context(), "run", json.RawMessage(entry))
		if err != nil {
			t.Errorf("racer %d: %v", i, err)
		}
		mu.Lock()
		defer mu.Unlock()
		written[n] = entry
	})
	entries := must.Get(storage.NewArchive(stores[0]).ReadLog(t.Context(), "run", 1))(t)
	if len(entries) != racers {
		t.Errorf("%d entries, want %d", len(entries), racers)
	}
	for i, e := range entries {
		if e.Number != i+1 || string(e.Data) != written[e.Number] {
			t.Errorf("entry %d has number %d and says %s, its writer said %s", i, e.Number, e.Data, written[e.Number])
		}
	}
}

// archiveLogCompactionRace lets writers append while two leaders concurrently fold
// the log into the set of its values. A follower and a late reader must end with
// every value once. An entry overtaken by two compactions may be missing.
func archiveLogCompactionRace(t *testing.T, d Driver) {
	const writers, each = 6, 12
	location := d.Location(t)
	var writing, folding sync.WaitGroup
	var mu sync.Mutex
	var want, unknown []int
	for w := range writers {
		a := storage.NewArchive(d.Open(t, location))
		writing.Go(func() {
			for n := range each {
				value := w*each + n
				entry, _ := json.Marshal([]int{value})
				_, err := a.AppendLog(t.Context(), "run", entry)
				mu.Lock()
				switch {
				case err == nil:
					want = append(want, value)
				case errors.Is(err, storage.ErrUnknown):
					unknown = append(unknown, value)
				default:
					t.Errorf("append: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	written := make(chan struct{})
	for range 2 {
		a := storage.NewArchive(d.Open(t, location))
		folding.Go(func() { foldUntil(t, a, written) })
	}
	writing.Wait()
	close(written)
	folding.Wait()

	a := storage.NewArchive(d.Open(t, location))
	var late fold
	late.follow(t, a)
	for _, u := range unknown {
		if slices.Contains(late.values, u) {
			want = append(want, u)
		}
	}
	slices.Sort(late.values)
	slices.Sort(want)
	if !slices.Equal(late.values, want) {
		t.Errorf("the log says %v, want %v, each once", late.values, want)
	}

	late.compact(t, a)
	late.follow(t, a)
	late.compact(t, a)
	if infos := collect(t, a.Store().List(t.Context(), "runs/run/log/")); len(infos) != 2 {
		t.Errorf("after two compactions in a row %v are left, want the two snapshots", infos)
	}
}

// foldUntil follows the log and compacts it whenever it has grown, until the writers finish.
func foldUntil(t *testing.T, a *storage.Archive, written <-chan struct{}) {
	var f fold
	for !t.Failed() {
		select {
		case <-written:
			return
		default:
		}
		if f.follow(t, a) >= 3 {
			f.compact(t, a)
		}
	}
}

// fold is the state of a reader of the log.
type fold struct {
	values []int
	last   int
}

func (f *fold) follow(t *testing.T, a *storage.Archive) int {
	entries, err := a.ReadLog(t.Context(), "run", f.last+1)
	if err != nil {
		t.Errorf("read: %v", err)
	}
	for _, e := range entries {
		var values []int
		if err := json.Unmarshal(e.Data, &values); err != nil {
			t.Errorf("entry %d: %v", e.Number, err)
		}
		if e.Snapshot {
			f.values = nil
		} else if e.Number != f.last+1 {
			t.Errorf("entry %d follows %d", e.Number, f.last)
		}
		f.values = append(f.values, values...)
		f.last = e.Number
	}
	return len(entries)
}

// compact folds the state; being overtaken is not an error.
func (f *fold) compact(t *testing.T, a *storage.Archive) {
	snapshot, _ := json.Marshal(f.values)
	if _, err := a.CompactLog(t.Context(), "run", f.last, snapshot); err != nil && !errors.Is(err, storage.ErrExists) {
		t.Errorf("compact: %v", err)
	}
}

func archiveEpochs(t *testing.T, d Driver) {
	stores := openAll(t, d, d.Location(t))
	epochs := make([]int, racers)
	race(stores, func(i int, s storage.Store) {
		var err error
		if epochs[i], _, err = storage.NewArchive(s).NextEpoch(t.Context(), storage.Epoch{Holder: fmt.Sprintf("racer %d", i)}); err != nil {
			t.Errorf("racer %d: %v", i, err)
		}
	})
	slices.Sort(epochs)
	if distinct := slices.Compact(slices.Clone(epochs)); len(distinct) != racers {
		t.Errorf("epochs %v: some were given out twice", epochs)
	}
	current, err := storage.NewArchive(stores[0]).CurrentEpoch(t.Context())
	if err != nil || current != epochs[racers-1] {
		t.Errorf("the current epoch is %d (%v), want the highest of %v", current, err, epochs)
	}
}

func archiveIdentity(t *testing.T, d Driver) {
	location := d.Location(t)
	stores := openAll(t, d, location)
	first := storage.NewArchive(stores[0])
	if id, err := first.Identity(t.Context()); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a new store has the identity %q, %v", id, err)
	}
	given := make([]string, racers)
	race(stores, func(i int, s storage.Store) {
		var err error
		if given[i], err = storage.NewArchive(s).Identify(t.Context()); err != nil {
			t.Errorf("racer %d: %v", i, err)
		}
	})
	id, err := first.Identity(t.Context())
	if distinct := slices.Compact(given); err != nil || id == "" || len(distinct) != 1 || distinct[0] != id {
		t.Errorf("identities %q were given, %q stands (%v)", distinct, id, err)
	}
	if other, err := storage.NewArchive(d.new(t)).Identify(t.Context()); err != nil || other == id {
		t.Errorf("another store has identity %q too (%v)", other, err)
	}
	if epoch, err := first.CurrentEpoch(t.Context()); err != nil || epoch != 0 {
		t.Errorf("the identity counts as epoch %d, %v", epoch, err)
	}
}

func archiveNodeDeletion(t *testing.T, d Driver) {
	a := storage.NewArchive(d.new(t))
	model := putBlob(t, a, 1, "model", pattern(50_000))
	rows := putBlob(t, a, 1, "rows", []byte("[]"))
	putBlob(t, a, 1, "other", pattern(60_000)) // of an attempt that did not commit
	c, _, err := a.Commit(t.Context(), testCommit("first", rows, model))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := a.Available(t.Context(), c); !ok || err != nil {
		t.Fatalf("a fresh commit is not available: %v", err)
	}
	must.Do(t, a.DeleteBlobs(t.Context(), c, "model"))
	if missing, err := a.Missing(t.Context(), c); err != nil || !slices.Equal(missing, []string{"model"}) {
		t.Errorf("after eviction %q is missing (%v), want model", missing, err)
	}
	_, err = a.ReadBlob(t.Context(), c.Key, model)
	wantError(t, "reading an evicted blob", err, storage.ErrNotFound)
	if there, err := a.HasCommit(t.Context(), c.Key); !there || err != nil {
		t.Errorf("an eviction removed the commit (%v)", err)
	}
	must.Do(t, a.DeleteNode(t.Context(), c))
	if infos := collect(t, a.Store().List(t.Context(), "")); len(infos) != 1 || infos[0].Size != 60_000 {
		t.Errorf("a deleted node left %v, want only what its record does not name", infos)
	}
	must.Do(t, a.DeleteTrace(t.Context(), c.Key))
	if infos := collect(t, a.Store().List(t.Context(), "")); len(infos) != 0 {
		t.Errorf("a node without a trace left %v", infos)
	}
}
