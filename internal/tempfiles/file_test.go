package tempfiles

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"coalmine/internal/must"
)

func TestFileIsReadBackAndRemoved(t *testing.T) {
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

// copies are the ways to copy a stream.
var copies = map[string]func(io.Reader) (*Spooled, error){"without a name": Spool, "with a name": SpoolNamed}

func TestCopyIsReadFromStartAndRemoved(t *testing.T) { //nolint:paralleltest // it sets TMPDIR
	t.Setenv("TMPDIR", t.TempDir())
	for name, copied := range copies {
		f := must.Get(copied(strings.NewReader("a stream")))(t)
		got, err := io.ReadAll(f)
		if err != nil || string(got) != "a stream" || f.Size != 8 {
			t.Errorf("%s: got %q of %d bytes, %v", name, got, f.Size, err)
		}
		if _, err := os.Stat(f.Name()); (err == nil) != (name == "with a name") {
			t.Errorf("%s: while it is open: %v", name, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		leavesNothing(t)
	}
}

func leavesNothing(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestStreamErrorLeavesNoFile(t *testing.T) { //nolint:paralleltest // it sets TMPDIR
	t.Setenv("TMPDIR", t.TempDir())
	broken := errors.New("broken")
	for name, copied := range copies {
		if _, err := copied(iotest.ErrReader(broken)); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", name, err)
		}
		leavesNothing(t)
	}
}
