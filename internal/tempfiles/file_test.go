package tempfiles

import (
	"io"
	"os"
	"testing"

	"coalmine/internal/must"
)

func TestAFileIsReadBackAndGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := must.Get(OpenFile(dir, "x-"))(t)
	must.Get(f.WriteString("text"))(t)
	if got, err := io.ReadAll(io.NewSectionReader(f, 0, 10)); err != nil || string(got) != "text" {
		t.Errorf("%q, %v", got, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
