// Package pretrainedtest has small random models in Hugging Face's layout, for tests.
package pretrainedtest

import (
	"embed"
	"encoding/json"
	"io/fs"
	"path"
	"testing"
	"testing/fstest"

	"coalmine/internal/must"
)

//go:embed testdata/*/*
var folders embed.FS

// Names lists the models.
var Names = []string{"gpt2", "gpt-neox", "gpt-neox-sequential", "llama", "llama-tied"}

// Folder returns the files of a model. If edit is not nil, it changes them: a nil result leaves a
// file out.
func Folder(t testing.TB, name string, edit func(file string, data []byte) []byte) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	entries := must.Get(fs.ReadDir(folders, path.Join("testdata", name)))(t)
	for _, entry := range entries {
		data := read(t, name, entry.Name())
		if edit != nil {
			data = edit(entry.Name(), data)
		}
		if data != nil {
			files[entry.Name()] = &fstest.MapFile{Data: data, Mode: 0o600}
		}
	}
	return files
}

func read(t testing.TB, name, file string) []byte {
	t.Helper()
	return must.Get(fs.ReadFile(folders, path.Join("testdata", name, file)))(t)
}

// Reference holds the logits of the transformers library after some tokens: Logits[i] are the
// logits after token number After[i].
type Reference struct {
	Tokens []int32
	After  []int
	Logits [][]float64
}

// ReferenceOf returns the logits of a model.
func ReferenceOf(t testing.TB, name string) (r Reference) {
	t.Helper()
	must.Do(t, json.Unmarshal(read(t, name, "logits.json"), &r))
	return r
}
