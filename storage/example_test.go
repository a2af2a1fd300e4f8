package storage_test

import (
	"context"
	"fmt"
	"os"

	"coalmine/storage"
	"coalmine/storage/open"
)

// Two workers execute one node. The first commit stands; the second learns that it does.
func ExampleArchive_Commit() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := open.Dir(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	archive, ctx := storage.NewArchive(store), context.Background()
	key := storage.Key{Digest: storage.DigestOf([]byte("node"))}
	for _, attempt := range []string{"first", "second"} {
		blob, err := archive.PutBlob(ctx, key, "model", []byte("weights"), storage.Durable)
		if err != nil {
			fmt.Println(err)
			return
		}
		stands, won, err := archive.Commit(ctx, &storage.Commit{
			Key: key, Kind: "training/round", KindVersion: 1, Attempt: attempt, Blobs: []storage.Blob{blob},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(attempt, "won:", won, "stands:", stands.Attempt)
	}
	model, err := archive.ReadOutput(ctx, key, "model")
	fmt.Println(string(model), err)
	// Output:
	// first won: true stands: first
	// second won: false stands: first
	// weights <nil>
}

func ExampleParseDigest() {
	digest := storage.DigestOf([]byte("a"))
	again, err := storage.ParseDigest(digest.String())
	fmt.Println(again == digest, err)
	// Output: true <nil>
}
