package storage_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/storagetest"
)

// lostS3 is an archive whose server has gone, and the server's address.
func lostS3(t *testing.T) (archive *storage.Archive, place string) {
	t.Helper()
	server := testserver.StartS3(t)
	store := storagetest.OpenS3(t, server.URL("p"), server.AccessKey, server.SecretKey)
	server.Kill()
	return storage.NewArchive(store), server.Addr()
}

// lostDirectory is an archive in a directory that can be neither read nor
// written, by root included, and the directory.
func lostDirectory(t *testing.T) (archive *storage.Archive, place string) {
	t.Helper()
	place = t.TempDir()
	store := must.Get(dir.Open(place))(t)
	for _, name := range []string{"blobs", "commits", "leader", "runs", "sources"} {
		path := filepath.Join(place, name)
		must.Do(t, os.RemoveAll(path))
		if err := os.Symlink(name, path); err != nil { // to itself
			t.Fatal(err)
		}
	}
	return storage.NewArchive(store), place
}

func TestErrorsNameStoreAndObjectOnce(t *testing.T) {
	t.Parallel()
	large := make([]byte, storage.MaxInline+1)
	blob := storage.Blob{Name: "model", Digest: storage.DigestOf(large), Size: int64(len(large))}
	operations := map[string]struct {
		do     func(a *storage.Archive) error
		object string
	}{
		"commit":     {func(a *storage.Archive) error { _, _, err := a.Commit(t.Context(), commit(1, "a")); return err }, key(1).String()},
		"committed":  {func(a *storage.Archive) error { _, err := a.Committed(t.Context(), key(1)); return err }, key(1).String()},
		"has commit": {func(a *storage.Archive) error { _, err := a.HasCommit(t.Context(), key(1)); return err }, key(1).String()},
		"put blob": {func(a *storage.Archive) error {
			_, err := a.PutBlob(t.Context(), key(1), "model", large, storage.Recomputable)
			return err
		}, key(1).String()},
		"read blob": {func(a *storage.Archive) error { _, err := a.ReadBlob(t.Context(), key(1), blob); return err }, key(1).String()},
		"read part": {func(a *storage.Archive) error { _, err := a.ReadBlobRange(t.Context(), key(1), blob, 3, 4); return err }, key(1).String()},
		"log": {func(a *storage.Archive) error {
			_, err := a.AppendLog(t.Context(), "r7", json.RawMessage("1"))
			return err
		}, "r7/"},
		"spec":       {func(a *storage.Archive) error { _, err := a.Spec(t.Context(), "r7"); return err }, "r7/"},
		"has source": {func(a *storage.Archive) error { _, err := a.HasSource(t.Context(), blob.Digest); return err }, blob.Digest.String()},
	}
	for kind, lost := range map[string]func(*testing.T) (*storage.Archive, string){"s3": lostS3, "dir": lostDirectory} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			archive, place := lost(t)
			var all sync.WaitGroup // each waits until the driver gives up
			for operation, c := range operations {
				all.Go(func() {
					err := c.do(archive)
					if !storage.IsTrouble(err) {
						t.Errorf("%s: error %v, want one of a store in trouble", operation, err)
						return
					}
					// The network's own error names the address.
					text, _, _ := strings.Cut(err.Error(), ": dial tcp ")
					if !strings.Contains(text, archive.String()) || strings.Count(text, filepath.Base(place)) != 1 || strings.Count(text, c.object) != 1 {
						t.Errorf("%s: the error does not name the store %s and the object %s once each:\n%v", operation, archive, c.object, err)
					}
				})
			}
			all.Wait()
		})
	}
}
