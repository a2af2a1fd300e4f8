package storage_test

import (
	"context"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
)

func TestObjectsAreClassifiedByName(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := storagetest.NewMemory()
	archive := storage.NewArchive(store)
	key := storage.Key{Digest: storage.DigestOf([]byte("key"))}
	digest := storage.DigestOf([]byte("x"))
	for name, want := range map[string]storage.Object{
		"commits/" + key.String():                         {Kind: storage.CommitObject, Key: key},
		"blobs/" + key.String() + "/" + digest.String():   {Kind: storage.BlobObject, Key: key, Digest: digest},
		"logs/run-1/" + key.String() + "/1.worker":        {Kind: storage.LogObject, Key: key, Run: "run-1"},
		"runs/run-1/spec":                                 {Kind: storage.RecordObject, Run: "run-1"},
		"runs/run-1/log/0000000001":                       {Kind: storage.RecordObject, Run: "run-1"},
		"sources/" + digest.String():                      {Kind: storage.SourceObject, Digest: digest},
		"commits/of-someone-else":                         {},
		"blobs/" + key.String() + "/deeper/than/expected": {},
		"sources/README":                                  {},
	} {
		must.Do(t, store.Create(ctx, name, []byte("12345")))
		for _, kind := range []storage.ObjectKind{storage.CommitObject, storage.BlobObject, storage.LogObject, storage.RecordObject, storage.SourceObject} {
			for o, err := range archive.Objects(ctx, kind) {
				if err != nil {
					t.Fatal(err)
				}
				if o.Kind != want.Kind || o.Key != want.Key || o.Digest != want.Digest || o.Run != want.Run || o.Size != 5 || o.Modified.IsZero() {
					t.Errorf("%s is listed as %+v", name, o)
				}
				if o.IsSpec() != (name == "runs/run-1/spec") {
					t.Errorf("%s: is a spec: %v", name, o.IsSpec())
				}
				must.Do(t, archive.DeleteObjects(ctx, o))
			}
		}
		if _, err := store.Head(ctx, name); (err == nil) != (want.Kind == "") {
			t.Errorf("%s: after deleting what was listed: %v", name, err)
		}
		must.Do(t, store.Delete(ctx, name))
	}
	if err := archive.DeleteObjects(ctx, storage.Object{Kind: storage.CommitObject, Key: key}); err == nil {
		t.Error("an object that no listing has yielded was deleted")
	}
}
