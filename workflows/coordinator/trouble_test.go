package coordinator

import (
	"strings"
	"testing"

	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

func TestNoAbsenceOfTheStoreFailsANode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 7, chaos{}, map[string]*plan.Plan{"a": federated(t, chainOptions{salt: "x", width: 2, steps: 5})})
	id := w.submit("a", 0)
	const absences = 100
	n := 0
	w.override = func(tasks.Attempt) *tasks.Outcome {
		if n == absences {
			return nil
		}
		n++
		return &tasks.Outcome{Result: tasks.StoreAway, Error: "503 slow down"}
	}
	w.until(func() bool { return n == absences })
	if said := strings.Join(w.term.reasons(w.run(id)), "; "); !strings.Contains(said, "503 slow down") {
		w.fail("the run waits for: %s", said)
	}
	entries := w.run(id).record.Position()
	w.untilPhase(runs.Done, id)
	w.settle()
	w.checkTruth("a")
	// A run's log is read at every start of a coordinator: an absence of hours must not fill it.
	if entries > 2 {
		w.fail("%d entries in the log after %d absences", entries, absences)
	}
}
