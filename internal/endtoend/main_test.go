package endtoend_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"coalmine/internal/build"
	"coalmine/workers/clients/clientstest"
)

// binary is the program under test, built by TestMain; scratch is a directory
// that lives as long as the tests.
var binary, scratch string

func TestMain(m *testing.M) {
	clientstest.Serve()
	serveTexts()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "coalmine-endtoend-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch, binary = dir, filepath.Join(dir, "coalmine")
	tags := build.ReleaseTags
	if build.Invariants {
		tags += ",invariants"
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-tags", tags, "-o", binary, "coalmine/cmd/coalmine")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building coalmine: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}
