package experiment

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/numbers"
)

func TestModelsAreMeasuredAtChosenRounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sets string
		want []int
	}{
		{"audit={}", []int{100}},
		{"audit={every: 30}", []int{30, 60, 90, 100}},
		{"audit={at: [1, 5, 25%]}", []int{1, 5, 25, 100}},
		{"audit={at: 7}", []int{7, 100}}, // one value is a list of one
		{"audit={every: 50%, at: [1, 50, 100%]}", []int{1, 50, 100}},
	} {
		spec := parse(t, minimal, "training.rounds=100", c.sets)
		if got := spec.Cells[0].Experiment.Measured(); !slices.Equal(got, c.want) {
			t.Errorf("%s: measured after %v, want %v", c.sets, got, c.want)
		}
	}
	spec := parse(t, minimal, "audit=null")
	if got := spec.Cells[0].Experiment.Measured(); got != nil {
		t.Errorf("without an audit: measured after %v, want never", got)
	}
}

// For any request, a measurement follows it within a task, and nothing else is
// measured.
func TestChosenRoundsAreMeasuredAtTaskEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rounds, task := rapid.IntRange(1, 60).Draw(t, "rounds"), rapid.IntRange(1, 20).Draw(t, "rounds of a task")
		audit := &Audit{}
		if every := rapid.IntRange(0, 70).Draw(t, "every"); every > 0 {
			audit.Every = numbers.Share{Count: every}
		}
		for _, at := range rapid.SliceOfDistinct(rapid.IntRange(1, rounds), rapid.ID).Draw(t, "at") {
			audit.At = append(audit.At, numbers.Share{Count: at})
		}
		slices.SortFunc(audit.At, func(a, b numbers.Share) int { return a.Count - b.Count })
		e := Experiment{Training: Training{Rounds: rounds, StepsPerTask: task}, Audit: audit}
		asked := func(round int) bool {
			return audit.Every.Count > 0 && round%audit.Every.Count == 0 || slices.Contains(audit.At, numbers.Share{Count: round})
		}
		var want []int
		for first := 1; first <= rounds; first += task {
			last := min(first+task-1, rounds)
			for round := first; round <= last; round++ {
				if asked(round) || last == rounds {
					want = append(want, last)
					break
				}
			}
		}
		if got := e.Measured(); !slices.Equal(got, want) {
			t.Fatalf("measured after %v, want %v", got, want)
		}
		if wrong := audit.checkAt(rounds); wrong != "" {
			t.Fatalf("audit.at %s", wrong)
		}
	})
}

func TestAuditAtRejectsBadRounds(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"[5, 101]":  "audit.at: has 101; expected at most the 100 rounds of the training (sgd: steps)",
		"[20, 10]":  "audit.at: has 10 after 20, which are rounds 10 and 20; expected distinct rounds in ascending order",
		"[5%, 5]":   "audit.at: has 5 after 5%, which are rounds 5 and 5; expected distinct rounds",
		"[1%, 10%]": "",
	} {
		_, early := Parse("x.yaml", []byte(minimal), Options{Sets: []string{"training.rounds=100", "audit={at: " + at + "}"}})
		// Known only with the data: 800 examples are 100 steps of 8.
		late := parse(t, minimal, "training={algorithm: sgd, epochs: 1, rounds: null, cohort: 8, client: {learning_rate: 1}}", "audit={at: "+at+"}")
		facts := plenty
		facts.Examples = 800
		resolved := late.Resolve(factsFor(late, facts))
		for when, err := range map[string]error{"in the file": early, "with the data": resolved} {
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("at %s, %s: got %v, want %q", at, when, err, want)
			}
		}
	}
}

func TestMovedMeasurementWarns(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]string{
		"[20, 33]":  "audit.at has step 33, but models are measured only between tasks, here after step 40: set training.steps_per_task to a divisor of 33",
		"[20, 100]": "",
	} {
		spec := parse(t, minimal, "training={algorithm: sgd, rounds: 100, cohort: 8, steps_per_task: 20, client: {learning_rate: 1}}", fmt.Sprintf("audit={at: %s}", at))
		if got := strings.Join(spec.Cells[0].Warnings(), "\n"); got != want {
			t.Errorf("at %s: warned %q, want %q", at, got, want)
		}
	}
}
