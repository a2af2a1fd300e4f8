package summary

import (
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/beamsearch"
	"coalmine/tasks/audits/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
	"encoding/json"
	"testing"
)

func TestLowestIsByFrequencyThenUsers(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	result := func(pu, pe string, memorized *bool) CanaryResult {
		r, err := newResult(datasets.Placement{Canary: datasets.Canary{UserProbability: pu, ExampleProbability: pe}, Insertions: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.Memorized = memorized
		return r
	}
	a := Audit{Canaries: []CanaryResult{
		result("1/5000", "1/100", &yes), // 2e-6
		result("1/50000", "1/10", &yes), // 2e-6 too, fewer users
		result("1/50000", "1/100", &no), // lower, but not memorized
		result("3/50000", "1", &yes),
	}}
	n, lowest := a.count(func(c *CanaryResult) bool { return *c.Memorized })
	if want := (Configuration{UserProbability: 2e-5, ExampleProbability: 0.1}); n != 3 || *lowest != want {
		t.Errorf("%d memorized, lowest %+v; want 3 and %+v", n, *lowest, want)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model := g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{
		Kind: models.CIFGLSTM, Vocabulary: 40, Embedding: 6, Units: 9,
	}})
	list := []datasets.Placement{
		{Canary: datasets.Canary{Tokens: []int32{7, 9, 11, 30}, Words: []string{"a", "b", "c", "d"}, UserProbability: "1/10", ExampleProbability: "1"}, Users: 3, Holders: 2, Insertions: 5},
		{Canary: datasets.Canary{Number: 1, Tokens: []int32{8, 39, 4, 5}, Words: []string{"e", "f", "g", "h"}, HeldBack: true}},
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	given := g.Put("canaries", map[string][]byte{datasets.CanariesBlob: data})
	sampling := g.Run(randomsampling.Kind, randomsampling.Params{Seed: 1, References: 300, Space: canaries.Space{Words: 4}, Prefix: 1, Count: 2},
		taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
	beam := g.Run(beamsearch.Kind, beamsearch.Params{Width: 3, Space: canaries.Space{Words: 4}, Prefix: 1, Count: 2},
		taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
	summary := g.Run(Summary, SummaryParams{SamplingParts: 1, References: 300, BeamParts: 1, BeamWidth: 3},
		taskstest.In(audits.PlacementsInput, given), taskstest.In(SamplingInput(0), sampling), taskstest.In(BeamInput(0), beam))
	taskstest.Golden(t, summary)
}
