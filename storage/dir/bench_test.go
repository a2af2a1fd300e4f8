package dir_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"coalmine/storage"
)

// A round of the paper's model puts blobs of this size and creates commits.
const modelSize = 5_600_000

func BenchmarkPut(b *testing.B) {
	for name, durability := range map[string]storage.Durability{"durable": storage.Durable, "recomputable": storage.Recomputable} {
		b.Run(name, func(b *testing.B) {
			s := openDir(b, b.TempDir())
			body := bytes.NewReader(make([]byte, modelSize))
			b.SetBytes(modelSize)
			for i := 0; b.Loop(); i++ {
				if err := s.Put(b.Context(), fmt.Sprintf("blobs/%d/digest", i%8), body, durability); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCreate(b *testing.B) {
	s := openDir(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		if err := s.Create(b.Context(), fmt.Sprintf("commits/%d", i), make([]byte, 2000)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := openDir(b, b.TempDir())
	if err := s.Put(b.Context(), "blob", bytes.NewReader(make([]byte, modelSize)), storage.Durable); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(modelSize)
	for b.Loop() {
		r, err := s.Get(b.Context(), "blob", 0, -1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, modelSize)); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
