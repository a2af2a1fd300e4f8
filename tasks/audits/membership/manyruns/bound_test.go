package manyruns

import (
	"encoding/json"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/tasks"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
)

// bound runs the task on made-up trainings, whose scores are their numbers, and ten more with the canary, from 15 on.
func bound(t *testing.T, units int) (*taskstest.Node, error) {
	t.Helper()
	g := taskstest.NewGraph(t)
	pop := g.Put("population", map[string][]byte{})
	counts := must.Get(json.Marshal(population.PartitionMetrics{Counts: population.Counts{Users: 100}}))(t)
	pop.Metrics = counts
	inputs := []taskstest.Edge{taskstest.In(PopulationInput, pop)}
	for run := range 30 {
		list := make([]onerun.Unit, units)
		list[0] = onerun.Unit{Score: float64(run)}
		if run >= 15 {
			list[0] = onerun.Unit{Score: float64(run) + 10, Included: true}
		}
		outcome := must.Get(json.Marshal(onerun.Outcome{Score: onerun.ScoreLikelihood, Units: list}))(t)
		inputs = append(inputs, taskstest.In(RunInput(run), g.Put(RunInput(run), map[string][]byte{onerun.OutcomeBlob: outcome})))
	}
	return g.Try(Bound, Params{
		Runs: 30, Delta: 1e-5, Confidence: 0.9, Neighbouring: privacy.ReplaceOne, Unit: "record",
		Null: &onerun.Null{Cohort: 100, Rounds: 4, Sampling: privacy.Shuffled, NoiseMultiplier: 2},
	}, inputs...)
}

// The rule of the even trainings, 14 and 16 among them, lies between their scores: all odd ones are recognized.
func TestGoldenBound(t *testing.T) {
	t.Parallel()
	n := must.Get(bound(t, 1))(t)
	taskstest.Golden(t, n)
	var v Outcome
	must.Do(t, json.Unmarshal(n.Blob(OutcomeBlob), &v))
	if v.Runs != 30 || v.Included != 15 || v.Rule.Threshold != 20 || v.Rates != (empirical.Rates{Right: 8, Of: 8, Others: 7}) || v.EpsilonLower != v.EpsilonLargest {
		t.Errorf("outcome %+v", v)
	}
}

func TestBoundRejectsTwoCanaries(t *testing.T) {
	t.Parallel()
	if _, err := bound(t, 2); !tasks.IsPermanent(err) {
		t.Errorf("got %v, want a permanent error", err)
	}
}
