package storage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

// FuzzCommit stores arbitrary bytes as a node's commit: they read back as a whole record of that
// node, or the record is torn, can be removed as such, and the node can be committed again.
func FuzzCommit(f *testing.F) {
	key := storage.Key{Digest: storage.DigestOf([]byte("node"))}
	name := "commits/" + key.String()
	good := &storage.Commit{Key: key, Kind: "test/kind", KindVersion: 1, Attempt: "one", Blobs: []storage.Blob{}, Metrics: json.RawMessage(`{"n":1}`)}
	memory := storagetest.NewMemory()
	if _, _, err := storage.NewArchive(memory).Commit(f.Context(), good); err != nil {
		f.Fatal(err)
	}
	record := objectOf(f, memory, name)
	f.Add(record)
	f.Add(record[:len(record)/2])
	f.Add(bytes.Replace(record, []byte("test/kind"), []byte("kind/test"), 1))
	f.Add([]byte(`{"sha256":"` + storage.DigestOf([]byte("null")).String() + `","record":null}`))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		memory := storagetest.NewMemory()
		must.Do(t, memory.Put(t.Context(), name, bytes.NewReader(data), storage.Durable))
		a := storage.NewArchive(memory)
		c, err := a.Committed(t.Context(), key)
		if err == nil {
			if c.Key != key {
				t.Errorf("it is the commit of %s", c.Key)
			}
			return
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			t.Fatalf("neither a commit nor torn: %v", err)
		}
		if removed, err := a.RemoveTorn(t.Context(), key); err != nil || !removed {
			t.Fatalf("removed %v, %v", removed, err)
		}
		if _, won, err := a.Commit(t.Context(), good); err != nil || !won {
			t.Errorf("committed again: %v, %v", won, err)
		}
	})
}

func objectOf(t testing.TB, store storage.Store, name string) []byte {
	t.Helper()
	r := must.Get(store.Get(t.Context(), name, 0, -1))(t)
	defer r.Close()
	var b bytes.Buffer
	must.Get(b.ReadFrom(r))(t)
	return b.Bytes()
}
