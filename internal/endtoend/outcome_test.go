package endtoend_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/external"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// outcome holds the outputs of a finished run.
type outcome struct {
	// results is its results JSON.
	results string
	// commits are the records that last, by their subjects: reports, final
	// models, the audited and the newest checkpoints, segment boundaries.
	commits map[string]*storage.Commit
}

// reference is the experiment run once in one process, in peace.
var reference struct {
	sync.Mutex
	outcome *outcome
}

// undisturbed returns the outcome that all other ways to run the experiment
// must reproduce. The first test that asks makes it.
func undisturbed(t testing.TB) *outcome {
	t.Helper()
	reference.Lock()
	defer reference.Unlock()
	if reference.outcome == nil {
		must.Do(t, os.MkdirAll(undisturbedDir(), 0o755))
		w := fill(t, undisturbedDir())
		printed(t, w.coalmine("run", "experiment.yaml"))
		reference.outcome = w.outcome()
	}
	return reference.outcome
}

func undisturbedDir() string { return filepath.Join(scratch, "undisturbed") }

// finishedWorkspace is a copy of the one where the experiment ran undisturbed.
func finishedWorkspace(t testing.TB) workspace {
	t.Helper()
	undisturbed(t)
	w := workspace{t, t.TempDir()}
	must.Do(t, os.CopyFS(w.dir, os.DirFS(undisturbedDir())))
	return w
}

// outcome is that of the newest run of the home.
func (w workspace) outcome() *outcome {
	w.t.Helper()
	return &outcome{w.results(), lastingCommits(w.t, w.archive())}
}

// lastingCommits reads the records of the newest run that are kept as long as
// the run is, and checks the models' bytes.
func lastingCommits(t testing.TB, archive *storage.Archive) map[string]*storage.Commit {
	t.Helper()
	commits := map[string]*storage.Commit{}
	add := func(name string, key storage.Key) {
		c, err := archive.Committed(context.Background(), key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		commits[name] = c
	}
	p := planOf(t, archive)
	for i := range p.Cells {
		cell := &p.Cells[i]
		add(cell.Name+" report", cell.Report.Key)
		add(cell.Name+" model", cell.Model.Key)
		checkModel(t, archive, commits[cell.Name+" model"])
		for _, step := range lastingSteps(cell.Chain) {
			add(fmt.Sprintf("%s step %d", cell.Name, step), cell.Chain.Key(step))
		}
	}
	return commits
}

// lastingSteps are the steps of a chain whose records outlive the training.
func lastingSteps(c *plan.Chain) []int {
	if c == nil {
		return nil // it is one node
	}
	steps := append([]int(nil), c.Keep...)
	for step := tasks.SegmentSteps; step <= c.Steps; step += tasks.SegmentSteps {
		steps = append(steps, step)
	}
	return steps
}

// checkModel reads a model whole, or a command's description of its own; the archive compares it
// with its digest.
func checkModel(t testing.TB, archive *storage.Archive, c *storage.Commit) {
	t.Helper()
	name := tasks.ModelBlob
	if c.Kind == external.Train.Name {
		name = external.ResultBlob
	}
	blob, ok := c.Blob(name)
	if !ok {
		t.Fatalf("%s %s has no model", c.Kind, c.Key.Short())
	}
	must.Get(archive.ReadBlob(context.Background(), c.Key, blob))(t)
}

// planOf compiles the newest run.
func planOf(t testing.TB, archive *storage.Archive) *plan.Plan {
	t.Helper()
	list, err := runs.NewService(archive, nil).List(context.Background())
	if err != nil || len(list) == 0 {
		t.Fatalf("%d runs in %s: %v", len(list), archive, err)
	}
	return runPlan(t, list[0])
}

func runPlan(t testing.TB, run *runs.Run) *plan.Plan {
	t.Helper()
	spec := must.Get(experiment.ReadSpec(run.Spec.Experiment))(t)
	return must.Get(compile.Plan(spec))(t)
}

// equals fails the test unless both outcomes have the same results, byte by
// byte, and the same digests.
func (want *outcome) equals(t testing.TB, got *outcome) {
	t.Helper()
	if got.results != want.results {
		t.Errorf("the results differ; got:\n%s\nwant:\n%s", got.results, want.results)
	}
	for name, c := range want.commits {
		other := got.commits[name]
		if other == nil {
			t.Errorf("%s has no record", name)
		} else if other.Key != c.Key {
			t.Errorf("%s has key %s, want %s", name, other.Key.Short(), c.Key.Short())
		} else if difference := c.Differs(other); difference != "" {
			t.Errorf("%s: %s", name, difference)
		}
	}
	if len(got.commits) != len(want.commits) {
		t.Errorf("%d records last, want %d", len(got.commits), len(want.commits))
	}
}
