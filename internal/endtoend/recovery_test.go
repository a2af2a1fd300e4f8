package endtoend_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/training"
)

func TestKilledRunContinuesToSameDigests(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := newWorkspace(t)
	w.killed("experiment.yaml", 0, 37, 8, 59) // of more than 500 nodes
	last := run(t, w.coalmine("run", "experiment.yaml"))
	if last.code != 0 || !strings.Contains(last.stderr, "continuing run") {
		t.Fatalf("after the kills: exit status %d\n%s", last.code, last.stderr)
	}
	want.equals(t, w.outcome())
}

func TestInterruptedRunExitsWith3AndContinues(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := newWorkspace(t)
	p := start(t, w.coalmine("run", "experiment.yaml"))
	p.await("some nodes are committed", w.progressed(40))
	p.signal(os.Interrupt)
	if code := p.wait(); code != 3 {
		t.Fatalf("exit status %d after an interrupt, want 3\n%s", code, p.stderr.String())
	}
	if said := p.stderr.String(); !strings.Contains(said, "the same command goes on") {
		t.Errorf("it does not say how to go on:\n%s", said)
	}
	again := run(t, w.coalmine("run", "experiment.yaml"))
	if again.code != 0 || !strings.Contains(again.stderr, "continuing run") {
		t.Fatalf("the same command again: exit status %d\n%s", again.code, again.stderr)
	}
	want.equals(t, w.outcome())
}

func TestASecondRunFindsEverythingCached(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := finishedWorkspace(t)
	before := allCommits(t, w.archive())
	printed(t, w.coalmine("run", "experiment.yaml"))
	got := w.outcome()
	// A run of the same experiment after the first has ended is the second of its name.
	got.results = strings.Replace(got.results, `.2"`, `"`, 1)
	want.equals(t, got)
	for key, c := range allCommits(t, w.archive()) {
		if was := before[key]; was == nil || was.Attempt != c.Attempt || !was.Provenance.Started.Equal(c.Provenance.Started) {
			t.Errorf("%s %s was executed again", c.Kind, key.Short())
		}
	}
}

func TestAChangedAuditTrainsNothingAgain(t *testing.T) {
	t.Parallel()
	w := finishedWorkspace(t)
	before := allCommits(t, w.archive())
	printed(t, w.coalmine("run", "experiment.yaml", "--set", "audit.random_sampling.references=400"))
	audited := 0
	for key, c := range allCommits(t, w.archive()) {
		if was := before[key]; was != nil && was.Attempt == c.Attempt {
			continue
		}
		if audited++; trains(c.Kind) {
			t.Errorf("%s %s was executed for a change of the audit", c.Kind, key.Short())
		}
	}
	if audited == 0 {
		t.Error("the changed audit was not executed")
	}
}

func trains(kind string) bool {
	return slices.ContainsFunc(slices.Concat(training.Kinds(), aggregation.Kinds()), func(k tasks.Kind) bool { return k.Name == kind })
}

// allCommits reads every record of a store.
func allCommits(t testing.TB, archive *storage.Archive) map[storage.Key]*storage.Commit {
	t.Helper()
	commits := map[storage.Key]*storage.Commit{}
	for info, err := range archive.Store().List(context.Background(), "commits/") {
		if err != nil {
			t.Fatal(err)
		}
		key := must.Get(storage.ParseKey(strings.TrimPrefix(info.Name, "commits/")))(t)
		commits[key] = must.Get(archive.Committed(context.Background(), key))(t)
	}
	return commits
}

// A run of the owner of the home continues by itself when the owner ends:
// interrupted, killed, or done with its own task.
func TestARunOutlivesTheOwnerOfItsHome(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*process){
		"interrupted": func(p *process) { p.signal(os.Interrupt) },
		"killed":      func(p *process) { p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := undisturbed(t)
			w := newWorkspace(t)
			owner := start(t, w.coalmine("run", "experiment.yaml", "--set", "name=other", "--set", "seed=2"))
			owner.await("the owner is at work", w.progressed(1))
			beside := start(t, w.coalmine("run", "experiment.yaml", "--new"))
			beside.await("the run went to the owner", func() bool { return strings.Contains(beside.stderr.String(), "run tiny-") })
			end(owner)
			if code := beside.wait(); code != 0 || !strings.Contains(beside.stderr.String(), "continuing here") {
				t.Fatalf("exit status %d\n%s", code, beside.stderr.String())
			}
			if ids := must.Get(w.archive().Runs(t.Context()))(t); len(ids) != 2 {
				t.Errorf("runs %q; want one of each command", ids)
			}
			want.equals(t, w.outcome())
		})
	}
}

func TestCommandOnOwnedHomeUsesOwner(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	owner := start(t, w.coalmine("serve"))
	owner.await("the home is served", func() bool { return strings.Contains(owner.stderr.String(), "serving") })
	r := run(t, w.coalmine("run", "experiment.yaml", "--set", "grid=null", "--set", "training.rounds=4"))
	if r.code != 0 || !strings.Contains(r.stderr, "owned by process") {
		t.Fatalf("run on an owned home: exit status %d\n%s", r.code, r.stderr)
	}
	if status := printed(t, w.coalmine("status", "--json")); !strings.Contains(status, `"state": "done"`) {
		t.Errorf("status by the owner: %s", status)
	}
	owner.signal(os.Interrupt)
	if code := owner.wait(); code != 0 && code != 3 {
		t.Errorf("serve ended with %d after an interrupt:\n%s", code, owner.stderr.String())
	}
}
