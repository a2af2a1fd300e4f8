package endtoend_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"coalmine/workflows/coordinator"
)

// collect runs gc with some flags and reads what it says.
func (w workspace) collect(flags ...string) (coordinator.Collection, result) {
	w.t.Helper()
	r := run(w.t, w.coalmine(append([]string{"gc", "--json"}, flags...)...))
	var c coordinator.Collection
	if r.code == 0 {
		if err := json.Unmarshal([]byte(r.stdout), &c); err != nil {
			w.t.Fatal(err)
		}
	}
	return c, r
}

// Collections of everything however young, one after the other, while a process
// works on the run: it ends with the same bytes.
func TestCollectionBesideARunAtWorkLosesNothing(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := newWorkspace(t)
	p := start(t, w.coalmine("run", "experiment.yaml"))
	p.await("the run is at work", w.progressed(5))
	collections := 0
	for again := true; again; {
		if _, r := w.collect("--older", "0s"); r.code == 0 {
			collections++
		}
		select {
		case <-p.ended:
			again = false
		case <-time.After(10 * time.Millisecond):
		}
	}
	if code := p.wait(); code != 0 {
		t.Fatalf("the run ended with %d after %d collections:\n%s", code, collections, p.stderr.String())
	}
	if collections == 0 {
		t.Error("no collection came to its end beside the run")
	}
	w.collect("--older", "0s")
	want.equals(t, w.outcome())
}

func TestARemovedRunIsCollectedAndSubmittingItAgainMakesItAgain(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	w := finishedWorkspace(t)
	must(t, w.coalmine("pin", "tiny", "c02"))
	if r := run(t, w.coalmine("rm", "tiny")); r.code != 2 || !strings.Contains(r.stderr, "unpin") {
		t.Fatalf("removing a pinned run: exit status %d, %s", r.code, r.stderr)
	}
	must(t, w.coalmine("unpin", "tiny"))
	if said := must(t, w.coalmine("rm", "tiny")); !strings.Contains(said, "gc can free") {
		t.Errorf("rm says %q", said)
	}
	if list := must(t, w.coalmine("status", "--json")); strings.Contains(list, "tiny") {
		t.Errorf("the removed run is listed: %s", list)
	}
	if c, _ := w.collect(); c.Total().Objects != 0 || c.Young.Objects == 0 {
		t.Errorf("a collection of old objects found %+v", c)
	}
	survey, _ := w.collect("--dry-run", "--older", "0s")
	c, _ := w.collect("--older", "0s")
	if c.Total() != survey.Total() || c.Total().Objects == 0 || len(allCommits(t, w.archive())) != 0 {
		t.Errorf("deleted %+v, the dry run had said %+v", c.Total(), survey.Total())
	}
	if survey, _ = w.collect("--dry-run", "--older", "0s"); survey.Total().Objects != 0 {
		t.Errorf("after a collection %+v are left to collect", survey.Total())
	}
	must(t, w.coalmine("run", "experiment.yaml"))
	want.equals(t, w.outcome())
}
