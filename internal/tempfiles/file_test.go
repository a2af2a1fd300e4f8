package tempfiles

import (
	"io"
	"os"
	"testing"
)

func TestAFileIsReadBackAndGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := OpenFile(dir, "x-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
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
