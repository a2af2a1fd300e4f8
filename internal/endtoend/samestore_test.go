package endtoend_test

import (
	"strings"
	"testing"
)

// A worker with a mistyped store is the first to take a task, hands it back and
// leaves. Then the leader dies, and the next one finishes the run with a right worker.
func TestWorkerWithOtherStoreLeavesRunIntact(t *testing.T) {
	t.Parallel()
	right, server := newTeam(t)
	mistyped := right
	mistyped.directory = t.TempDir()
	leader := right.serve()
	id := right.submit()

	stray := start(t, mistyped.coalmine("worker", "--slots", "2"))
	if code := stray.wait(); code != 2 {
		t.Errorf("the worker with another store exits with %d", code)
	}
	for _, words := range []string{right.directory, mistyped.directory, server.Addr(), "give both the same --store"} {
		if said := stray.stderr.String(); !strings.Contains(said, words) {
			t.Errorf("it does not say %q:\n%s", words, said)
		}
	}
	if len(nodes(mistyped.directory+"/commits")) > 0 {
		t.Error("it has committed into its own store")
	}

	submits := start(t, mistyped.coalmine("submit", "experiment.yaml"))
	if code, said := submits.wait(), submits.stderr.String(); code != 2 || !strings.Contains(said, "give both the same --store") || len(nodes(mistyped.directory+"/runs")) > 0 {
		t.Errorf("submit to another store exits with %d: %s", code, said)
	}

	leader.kill()
	right.serve()
	start(t, right.coalmine("worker", "--slots", "2"))
	right.ends(id)
}
