package endtoend_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"coalmine/internal/invariants"
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
	args := []string{"build", "-o", binary, "coalmine/cmd/coalmine"}
	if invariants.Enabled {
		args = slices.Insert(args, 1, "-tags", "invariants")
	}
	build := exec.CommandContext(context.Background(), "go", args...)
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building coalmine: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}
