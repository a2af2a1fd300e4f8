package onerun

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

func TestBlockLossesMatchSingleCanaries(t *testing.T) {
	t.Parallel()
	m := must.Get(models.New(models.Config{Kind: models.CIFGLSTM, Vocabulary: 30, Embedding: 7, Units: 9}))(t)
	params := m.Init(rand.New(rand.NewPCG(4, 1)))
	for i := range params {
		params[i] *= 4 // far from uniform
	}
	s := must.Get(m.NewScorer(params))(t)
	var list [][]int32
	for i := range int32(9) {
		list = append(list, []int32{4 + i, 29 - i, 12, 7 + 2*i, 25})
	}
	together := must.Get(blockCosts(s, list))(t)
	for i := range list {
		alone, err := blockCosts(s, list[i:i+1])
		if err != nil || together[i] != alone[0] {
			t.Errorf("canary %d: %v together, %v alone (%v)", i, together[i], alone, err)
		}
	}
}

func TestJudgeReportsGuessesAndLimits(t *testing.T) {
	t.Parallel()
	p := BoundParams{KPlus: 20, KMinus: 10, Delta: 1e-5, Confidence: 0.95, Neighbouring: privacy.ReplaceOne, Unit: "balanced user"}
	units, scores := make([]audits.Unit, 100), make([]float64, 100)
	for i := range units { // the lower half is in, scores fall: all guesses are right
		units[i].Included, scores[i] = i < 50, -float64(i)
	}
	v, err := p.Judge(units, scores)
	if err != nil {
		t.Fatal(err)
	}
	if v.Canaries != 100 || v.Included != 50 || v.Correct != 30 || v.EpsilonLower != v.EpsilonLargest {
		t.Errorf("outcome %+v of guesses that are all right", v)
	}
	if !(v.EpsilonLargestCanaries > v.EpsilonLargest && v.EpsilonLower > 1) {
		t.Errorf("30 guesses certify %v at most, 100 would certify %v", v.EpsilonLargest, v.EpsilonLargestCanaries)
	}
	if u := v.Units; len(u) != 100 || u[19].Guess != "in" || u[20].Guess != "abstained" || u[89].Guess != "abstained" || u[90].Guess != "out" || u[3].Score != -3 || !u[49].Included || u[50].Included {
		t.Errorf("units %+v", u)
	}
	slices.Reverse(scores)
	if v, err = p.Judge(units, scores); err != nil || v.Correct != 0 || v.EpsilonLower != 0 {
		t.Errorf("outcome %+v (%v) of guesses that are all wrong", v, err)
	}
}

// auditMadeUp audits a made-up training: the model's own initial weights against
// other ones.
func auditMadeUp(t *testing.T, params BoundParams) Outcome {
	t.Helper()
	g := taskstest.NewGraph(t)
	config := models.Config{Kind: models.CIFGLSTM, Vocabulary: 40, Embedding: 6, Units: 9}
	initial := g.Run(training.Initial, training.InitialParams{Seed: 3, Model: config})
	trained := g.Run(training.Initial, training.InitialParams{Seed: 4, Model: config})
	var list []population.Placement
	var units []audits.Unit
	for i := range 16 {
		list = append(list, population.Placement{Canary: population.Canary{Number: i, Tokens: []int32{int32(4 + i), 30, int32(39 - i)}}})
		units = append(units, audits.Unit{Canary: i, User: i, Example: -1, Included: i%2 == 0})
	}
	blobs := map[string][]byte{}
	for name, v := range map[string]any{population.CanariesBlob: list, audits.UnitsBlob: units} {
		data := must.Get(json.Marshal(v))(t)
		blobs[name] = data
	}
	coins := g.Put("coins", blobs)
	n := g.Run(Bound, params, taskstest.In(audits.ModelInput, trained), taskstest.In(InitialInput, initial), taskstest.In(UnitsInput, coins))
	taskstest.Golden(t, n)
	var v Outcome
	must.Do(t, json.Unmarshal(n.Blob(OutcomeBlob), &v))
	return v
}

func TestGoldenBound(t *testing.T) {
	t.Parallel()
	v := auditMadeUp(t, BoundParams{KPlus: 4, KMinus: 4, Delta: 1e-5, Confidence: 0.9, Neighbouring: privacy.ReplaceOne, Unit: "record"})
	if v.Canaries != 16 || v.Included != 8 || v.Score != ScoreLossDifference || v.Unit != "record" || math.IsNaN(v.EpsilonLower) {
		t.Errorf("outcome %+v", v)
	}
}

func TestTheNullIsTheTrainingOverThePopulation(t *testing.T) {
	t.Parallel()
	counts := population.PartitionMetrics{Counts: population.Counts{Users: 300, Examples: 900}}
	p := BoundParams{Delta: 1e-5, Unit: "user"}
	claimed := audits.Training{Recipe: privacy.Recipe{Cohort: 10, Rounds: 7, NoiseMultiplier: 2, Sampling: privacy.Poisson}}
	if r := NewNull(&claimed).Recipe(p.Delta, p.Unit, counts); r.Population != 300 || r.Sampling != privacy.Poisson || r.NoiseMultiplier != 2 || r.Delta != 1e-5 {
		t.Errorf("of users: %+v", r)
	}
	plain := audits.Training{Central: true, Recipe: privacy.Recipe{Cohort: 10, Rounds: 7}}
	if r := NewNull(&plain).Recipe(p.Delta, p.Unit, counts); r.Population != 900 || r.Sampling != privacy.Shuffled || r.Validate() != nil {
		t.Errorf("of records: %+v (%v)", r, r.Validate())
	}
}

func TestHalvingsEndAtOne(t *testing.T) {
	t.Parallel()
	got := Guesses{KPlus: 5, KMinus: 1, Halvings: 20}.choices()
	if want := []Guesses{{KPlus: 5, KMinus: 1}, {KPlus: 3, KMinus: 1}, {KPlus: 2, KMinus: 1}, {KPlus: 1, KMinus: 1}}; !slices.Equal(got, want) {
		t.Errorf("choices %v, want %v", got, want)
	}
}
