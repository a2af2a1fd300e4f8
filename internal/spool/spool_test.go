package spool

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func TestACopyIsReadFromItsBeginningAndRemoved(t *testing.T) {
	t.Parallel()
	f, err := Copy(strings.NewReader("a stream"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err != nil || string(got) != "a stream" || f.Size != 8 {
		t.Errorf("got %q of %d bytes, %v", got, f.Size, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestTheErrorOfAStreamLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it sets TMPDIR
	t.Setenv("TMPDIR", t.TempDir())
	broken := errors.New("broken")
	if _, err := Copy(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
