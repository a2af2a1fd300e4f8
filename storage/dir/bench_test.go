package dir_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"coalmine/internal/must"
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
				must.Do(b, s.Put(b.Context(), fmt.Sprintf("blobs/%d/digest", i%8), body, durability))
			}
		})
	}
}

func BenchmarkCreate(b *testing.B) {
	s := openDir(b, b.TempDir())
	for i := 0; b.Loop(); i++ {
		must.Do(b, s.Create(b.Context(), fmt.Sprintf("commits/%d", i), make([]byte, 2000)))
	}
}

func BenchmarkGet(b *testing.B) {
	s := openDir(b, b.TempDir())
	must.Do(b, s.Put(b.Context(), "blob", bytes.NewReader(make([]byte, modelSize)), storage.Durable))
	b.SetBytes(modelSize)
	for b.Loop() {
		r := must.Get(s.Get(b.Context(), "blob", 0, -1))(b)
		must.Get(io.ReadFull(r, make([]byte, modelSize)))(b)
		r.Close()
	}
}
