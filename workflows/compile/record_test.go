package compile_test

import (
	"encoding/json"
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/workflows/compile"
	"coalmine/workflows/compile/compiletest"
	"coalmine/workflows/runs"
)

// What Sources leaves out, gc may delete.
func TestSourcesNamesEveryFileOnce(t *testing.T) {
	files := []storage.Digest{storage.DigestOf([]byte("a")), storage.DigestOf([]byte("b"))}
	record, err := json.Marshal(compiletest.Resolve(t, small, files))
	if err != nil {
		t.Fatal(err)
	}
	got, err := compile.Sources(&runs.Run{Spec: runs.Spec{Experiment: record}})
	if err != nil || !slices.Equal(got, files) {
		t.Errorf("Sources: %v, %v, want %v", got, err, files)
	}
}
