package compile_test

import (
	"slices"
	"testing"

	"coalmine/storage"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

// gc may delete the sources that Sources leaves out.
func TestSourcesListsEachFileOnce(t *testing.T) {
	files := []storage.Digest{storage.DigestOf([]byte("a")), storage.DigestOf([]byte("b"))}
	got, err := compile.Sources(plantest.Resolve(t, small, files))
	if err != nil || !slices.Equal(got, files) {
		t.Errorf("Sources: %v, %v, want %v", got, err, files)
	}
}
