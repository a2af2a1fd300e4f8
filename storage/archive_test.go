package storage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

var errLost = fmt.Errorf("%w: connection reset", storage.ErrUnknown)

func key(n int) storage.Key {
	return storage.Key{Digest: storage.DigestOf(fmt.Appendf(nil, "node %d", n))}
}

func commit(n int, attempt string, blobs ...storage.Blob) *storage.Commit {
	return &storage.Commit{Key: key(n), Kind: "test/kind", KindVersion: 1, Attempt: attempt, Blobs: blobs}
}

func faulty(rules ...*storagetest.Fault) *storage.Archive {
	return storage.NewArchive(storagetest.WithFaults(storagetest.NewMemory(), rules...))
}

func TestCommitWithLostAnswerIsWon(t *testing.T) {
	t.Parallel()
	a := faulty(&storagetest.Fault{Op: storagetest.Create, Err: errLost, After: true})
	stands, won, err := a.Commit(t.Context(), commit(1, "mine"))
	if err != nil || !won || stands.Attempt != "mine" {
		t.Errorf("got %v, %v, %v", stands, won, err)
	}
}

func TestLostCommitIsSentAgain(t *testing.T) {
	t.Parallel()
	lost := &storagetest.Fault{Op: storagetest.Create, Nth: 1, Err: errLost}
	a := faulty(lost)
	if _, won, err := a.Commit(t.Context(), commit(1, "mine")); err != nil || !won {
		t.Errorf("won %v, %v", won, err)
	}
	if lost.Fired() != 2 {
		t.Errorf("%d tries, want 2", lost.Fired())
	}
}

func TestOvertakenCommitIsNotWon(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	rival := storage.NewArchive(memory)
	overtake := func() {
		if _, won, err := rival.Commit(context.Background(), commit(1, "theirs")); !won || err != nil {
			t.Errorf("the rival: %v, %v", won, err)
		}
	}
	a := storage.NewArchive(storagetest.WithFaults(memory, &storagetest.Fault{Op: storagetest.Create, Nth: 1, Call: overtake, Err: errLost}))
	stands, won, err := a.Commit(t.Context(), commit(1, "mine"))
	if err != nil || won || stands.Attempt != "theirs" {
		t.Errorf("got %v, %v, %v", stands, won, err)
	}
}

func TestCommitIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	a := faulty()
	for range 3 {
		if _, won, err := a.Commit(t.Context(), commit(1, "mine")); err != nil || !won {
			t.Errorf("won %v, %v", won, err)
		}
	}
}

// A process that makes room in a full store must lead, and that takes a record.
func TestEpochBeginsInFullStore(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), storagetest.NewMemory()
	a := storage.NewArchive(storagetest.WithFaults(memory,
		&storagetest.Fault{Op: storagetest.Create, Name: "leader/*", Nth: 1, Err: storage.ErrFull},
		&storagetest.Fault{Op: storagetest.Create, Name: "leader/*", Nth: 1, After: true, Err: storage.ErrUnknown},
		&storagetest.Fault{Op: storagetest.Create, Name: "leader/*", Nth: 1, Err: storage.ErrFull}))
	epoch, _, err := a.NextEpoch(ctx, storage.Epoch{Holder: "me"})
	if err != nil || epoch != 2 {
		t.Fatalf("epoch %d, %v: want 2, as 1 may have been given to another", epoch, err)
	}
	if current, err := a.CurrentEpoch(ctx); err != nil || current != epoch {
		t.Errorf("current epoch %d, %v", current, err)
	}
}

// A candidate that is held up while ten epochs begin creates the first number once more, which
// the tenth has deleted. It must not lead under that number.
func TestDeletedEpochNumberIsNotReused(t *testing.T) {
	t.Parallel()
	ctx, memory := t.Context(), storagetest.NewMemory()
	others := storage.NewArchive(memory)
	begin := func(a *storage.Archive) int {
		number, _, err := a.NextEpoch(ctx, storage.Epoch{Holder: "one of many"})
		if err != nil {
			t.Fatal(err)
		}
		return number
	}
	overtake := func() {
		for range 11 {
			begin(others)
		}
	}
	held := storage.NewArchive(storagetest.WithFaults(memory, &storagetest.Fault{Op: storagetest.Create, Name: "leader/*", Nth: 1, Call: overtake}))
	if number := begin(held); number != 12 {
		t.Errorf("the candidate that was held up leads epoch %d, want 12", number)
	}
}

func TestFullStoreHasNoIdentityUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	a := faulty(&storagetest.Fault{Op: storagetest.Create, Nth: 1, Err: storage.ErrFull})
	if id, err := a.Identify(t.Context()); err != nil || id != "" {
		t.Errorf("a full store has identity %q, %v", id, err)
	}
	if id, err := a.Identify(t.Context()); err != nil || id == "" {
		t.Errorf("with room again it has identity %q, %v", id, err)
	}
}

func TestDamagedIdentityIsEmpty(t *testing.T) {
	t.Parallel()
	a := faulty(&storagetest.Fault{Op: storagetest.Create, Name: "leader/*", Flip: true})
	for range 2 {
		if id, err := a.Identify(t.Context()); err != nil || id != "" {
			t.Errorf("identity %q, %v", id, err)
		}
	}
}

func TestCommitReportsAStoreThatFails(t *testing.T) {
	t.Parallel()
	a := faulty(&storagetest.Fault{Op: storagetest.Create, Err: storage.ErrFull})
	_, _, err := a.Commit(t.Context(), commit(1, "mine"))
	if !errors.Is(err, storage.ErrFull) || !strings.Contains(err.Error(), "commits/"+key(1).String()) {
		t.Errorf("got %v, want one that wraps %q and names the object", err, storage.ErrFull)
	}
	a = faulty(&storagetest.Fault{Op: storagetest.Create, Err: errLost})
	_, _, err = a.Commit(t.Context(), commit(1, "mine"))
	if !errors.Is(err, storage.ErrUnknown) {
		t.Errorf("got %v, want one that wraps %q", err, storage.ErrUnknown)
	}
}

func TestCommitRejectsInvalidRecords(t *testing.T) {
	t.Parallel()
	a := faulty()
	twice := storage.Blob{Name: "model"}
	for what, c := range map[string]*storage.Commit{
		"no key":           {Kind: "k", Attempt: "a"},
		"no attempt":       {Kind: "k", Key: key(1)},
		"no kind":          {Attempt: "a", Key: key(1)},
		"a name twice":     commit(1, "a", twice, twice),
		"metrics not JSON": {Kind: "k", Key: key(1), Attempt: "a", Metrics: json.RawMessage("{")},
	} {
		if _, _, err := a.Commit(t.Context(), c); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func TestCommitOrdersBlobsAndReadsBackEqual(t *testing.T) {
	t.Parallel()
	a := faulty()
	c := commit(1, "mine", storage.Blob{Name: "z"}, storage.Blob{Name: "a"})
	c.Metrics = json.RawMessage(`{ "text": "<b> & so on" }`)
	if _, _, err := a.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got := must.Get(a.Committed(t.Context(), key(1)))(t)
	if got.Blobs[0].Name != "a" || got.Blobs[1].Name != "z" {
		t.Errorf("blobs in the order %v", got.Blobs)
	}
	if diff := c.Differs(got); diff != "" {
		t.Errorf("what was committed and what is read differ: %s", diff)
	}
}

func TestCommitMovesManyInlineBytesOut(t *testing.T) {
	t.Parallel()
	a := faulty()
	c := commit(1, "mine")
	for i := range 40 {
		data := bytes.Repeat([]byte{byte(i)}, storage.MaxInline)
		b, err := a.PutBlob(t.Context(), key(1), fmt.Sprintf("blob-%02d", i), data, storage.Durable)
		if err != nil || !b.IsInline() {
			t.Fatalf("%d bytes are not inline: %v", len(data), err)
		}
		c.Blobs = append(c.Blobs, b)
	}
	stands, _, err := a.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	inline := 0
	for i, b := range stands.Blobs {
		if b.IsInline() {
			inline++
		}
		got, err := a.ReadBlob(t.Context(), key(1), b)
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, storage.MaxInline)) {
			t.Errorf("%s reads back as %d bytes: %v", b.Name, len(got), err)
		}
	}
	if inline != 2 {
		t.Errorf("%d blobs of %d bytes stayed inline, want 2", inline, storage.MaxInline)
	}
	if !c.Blobs[39].IsInline() {
		t.Error("the caller's commit was changed")
	}
}

func TestCommitOfAnotherNodeIsCorrupt(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	a := storage.NewArchive(memory)
	if _, _, err := a.Commit(t.Context(), commit(1, "mine")); err != nil {
		t.Fatal(err)
	}
	r := must.Get(memory.Get(t.Context(), "commits/"+key(1).String(), 0, -1))(t)
	record, _ := io.ReadAll(r)
	must.Do(t, memory.Create(t.Context(), "commits/"+key(2).String(), record))
	if _, err := a.Committed(t.Context(), key(2)); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

func TestFlippedBytesOfCommitAreDetected(t *testing.T) {
	t.Parallel()
	memory := storagetest.NewMemory()
	a := storage.NewArchive(memory)
	c := commit(1, "mine")
	if _, _, err := a.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	name := "commits/" + key(1).String()
	r := must.Get(memory.Get(t.Context(), name, 0, -1))(t)
	record, _ := io.ReadAll(r)
	for i := range record {
		damaged := bytes.Clone(record)
		damaged[i] ^= 0x01
		must.Do(t, memory.Put(t.Context(), name, bytes.NewReader(damaged), storage.Durable))
		// A damaged field name of the envelope may be read as the same name in
		// another case: then nothing is lost.
		got, err := a.Committed(t.Context(), key(1))
		if err == nil && got.Differs(c) == "" && got.Attempt == c.Attempt {
			continue
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("byte %d flipped: got %+v, %v", i, got, err)
		}
	}
}

func TestDifferencesOfTwoAttempts(t *testing.T) {
	t.Parallel()
	digest := storage.DigestOf([]byte("model"))
	base := func() *storage.Commit {
		c := commit(1, "first", storage.Blob{Name: "model", Digest: digest, Size: 5})
		c.Metrics = json.RawMessage(`{"loss":1}`)
		return c
	}
	same := base()
	same.Attempt, same.Provenance.Host, same.Blobs[0].Inline = "second", "elsewhere", []byte("model")
	same.Metrics = json.RawMessage(`{"loss": 1}`)
	if diff := base().Differs(same); diff != "" {
		t.Errorf("equal attempts differ: %s", diff)
	}
	for want, change := range map[string]func(*storage.Commit){
		"kind":    func(c *storage.Commit) { c.KindVersion = 2 },
		"digest":  func(c *storage.Commit) { c.Blobs[0].Digest = storage.DigestOf([]byte("other")) },
		"missing": func(c *storage.Commit) { c.Blobs[0].Name = "other" },
		"2 blobs": func(c *storage.Commit) { c.Blobs = append(c.Blobs, storage.Blob{Name: "more"}) },
		"metrics": func(c *storage.Commit) { c.Metrics = json.RawMessage(`{"loss":2}`) },
	} {
		c := base()
		change(c)
		if diff := base().Differs(c); !strings.Contains(diff, want) {
			t.Errorf("difference %q does not say %q", diff, want)
		}
	}
}

func TestReadOutputByName(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a := storage.NewArchive(storagetest.NewMemory())
	if _, err := a.ReadOutput(ctx, key(1), "model"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("of a node without a commit: %v", err)
	}
	b := must.Get(a.PutBlob(ctx, key(1), "model", make([]byte, storage.MaxInline+1), storage.Durable))(t)
	c := commit(1, "mine", b)
	if _, _, err := a.Commit(ctx, c); err != nil {
		t.Fatal(err)
	}
	if data, err := a.ReadOutput(ctx, key(1), "model"); err != nil || len(data) != storage.MaxInline+1 {
		t.Errorf("got %d bytes, %v", len(data), err)
	}
	if _, err := a.ReadOutput(ctx, key(1), "rows"); !errors.Is(err, storage.ErrCorrupt) {
		t.Errorf("of a blob that the commit does not name: %v", err)
	}
	must.Do(t, a.DeleteBlobs(ctx, c, "model"))
	if _, err := a.ReadOutput(ctx, key(1), "model"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("of a blob that is gone: %v", err)
	}
}

func TestReadBlobRangeStaysInside(t *testing.T) {
	t.Parallel()
	a := faulty()
	for _, size := range []int64{0, 10, storage.MaxInline + 1} {
		b := must.Get(a.PutBlob(t.Context(), key(1), "b", make([]byte, size), storage.Durable))(t)
		for _, r := range [][2]int64{{-1, 1}, {0, -1}, {0, size + 1}, {size, 1}, {size + 1, 0}, {1, 1 << 62}, {1 << 62, 1 << 62}} {
			if _, err := a.ReadBlobRange(t.Context(), key(1), b, r[0], r[1]); err == nil {
				t.Errorf("%d bytes from %d of %d: no error", r[1], r[0], size)
			}
		}
		if got, err := a.ReadBlobRange(t.Context(), key(1), b, size, 0); err != nil || len(got) != 0 {
			t.Errorf("nothing at the end of %d: %v, %v", size, got, err)
		}
	}
}

func TestEvictionSparesASharedObject(t *testing.T) {
	t.Parallel()
	a := faulty()
	var blobs []storage.Blob
	for _, name := range []string{"model", "optimizer"} {
		b := must.Get(a.PutBlob(t.Context(), key(1), name, make([]byte, 50_000), storage.Durable))(t)
		blobs = append(blobs, b)
	}
	c := commit(1, "mine", blobs...)
	must.Do(t, a.DeleteBlobs(t.Context(), c, "model"))
	if ok, err := a.Available(t.Context(), c, "optimizer"); !ok || err != nil {
		t.Errorf("available %v, %v", ok, err)
	}
	if _, err := a.Available(t.Context(), c, "no such name"); err == nil {
		t.Error("a name that the commit does not have gave no error")
	}
}

// changingFile is other bytes each time it is read from the start.
type changingFile struct {
	*strings.Reader
	rewinds int
}

func (f *changingFile) Seek(offset int64, whence int) (int64, error) {
	if offset == 0 && whence == io.SeekStart {
		f.rewinds++
		f.Reset(fmt.Sprintf("version %d", f.rewinds))
	}
	return f.Reader.Seek(offset, whence)
}

func TestSourceChangedDuringImportIsRejected(t *testing.T) {
	t.Parallel()
	a := faulty()
	if _, _, err := a.PutSource(t.Context(), &changingFile{Reader: strings.NewReader("")}); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("got %v", err)
	}
	for info, err := range a.Store().List(t.Context(), "") {
		t.Errorf("left over: %v, %v", info, err)
	}
}
