package neighbours

import (
	"math"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import(taskstest.Text(200))}})
	parts := g.Run(datasets.Encode, datasets.EncodeParams{VocabularySize: 30}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := g.Run(population.Balance, population.BalanceParams{Words: 60}, taskstest.In(population.PartsInput, parts))
	population := g.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
	model := g.Run(training.Initial, training.InitialParams{Seed: 3, Model: models.Config{Kind: models.CIFGLSTM, Vocabulary: 30 + text.FirstWord, Embedding: 4, Units: 4, Layers: 1, Projection: 4}})
	p := Params{
		Repeats: 20, Members: 2, FalseAlarm: 1e-4,
		Recipe: privacy.Recipe{Cohort: 5, Rounds: 3, NoiseMultiplier: 1, Delta: 1e-3, Sampling: privacy.Poisson, Unit: "record"},
		Step: audits.Step{Private: &training.DPSGDParams{
			SGDParams: training.SGDParams{Seed: 1, Local: training.Local{Optimizer: optimizers.Config{Kind: optimizers.SGD}, LearningRate: 1, Batch: 5}},
			Sampling:  privacy.Poisson, Clip: 0.1, NoiseMultiplier: 1,
		}},
	}
	edges := []taskstest.Edge{
		taskstest.In(InitialInput, model), taskstest.In(audits.ModelInput, model),
		taskstest.In(training.PopulationInput, population), taskstest.In(training.ShardsInput, parts),
	}
	taskstest.Golden(t, g.Run(Auditor, p, edges...))
	if _, err := g.Try(Auditor, Params{Repeats: 20, Recipe: p.Recipe}, edges...); !tasks.IsPermanent(err) {
		t.Errorf("got %v of a training without a step; expected a permanent error", err)
	}
}

func TestCostCountsNoMoreMembersThanTheCohort(t *testing.T) {
	t.Parallel()
	cost := func(members int) float64 {
		s := &audits.Setting{Data: &audits.Data{Users: 10}, TestTokens: 100, Training: audits.Training{Recipe: privacy.Recipe{Cohort: 5}}}
		return (&Fields{&Block{Repeats: 20, Members: members}}).States(s)
	}
	if cost(4) != 4*cost(1) || cost(5) != 5*cost(1) || cost(1000) != cost(5) {
		t.Errorf("1, 4, 5 and 1000 members of a cohort of 5 cost %g, %g, %g and %g", cost(1), cost(4), cost(5), cost(1000))
	}
}

// Noise with an epsilon of 0 exceeds no limit, and any other noise exceeds the least. Limits share a search for noise.
func TestThePowerAtALimitOfZeroNeedsAnEpsilon(t *testing.T) {
	t.Parallel()
	for delta, powers := range map[float64][2]float64{0.5: {0, 0}, 1e-5: {1, 1}} {
		s := &audits.Setting{Trained: 100, Data: &audits.Data{Users: 157}, Training: audits.Training{
			Recipe: privacy.Recipe{Cohort: 20, Rounds: 3, NoiseMultiplier: 1, Delta: delta, Sampling: privacy.Poisson},
		}}
		statement := power(&Fields{&Block{Repeats: 20, FalseAlarm: must.Get(numbers.ParseProbability("0.01%"))(t)}}, s, nil)[0]
		for i, limit := range []float64{0, 1e-9} {
			if got := statement.Power(audits.Question{Sizes: []int{20}, Leak: 1, Limit: &limit}); math.Abs(got-powers[i]) > 1e-3 {
				t.Errorf("delta %g, limit %g: power %g, want %g", delta, limit, got, powers[i])
			}
		}
	}
}

// With an adaptive clip norm the claimed noise of updates is above the total, here by a tenth, and so is the measured one.
// The upper end of the noise has the lower end of epsilon.
func TestMeasuredNoiseIsAccountedAsItsTotal(t *testing.T) {
	t.Parallel()
	recipe := privacy.Recipe{Population: 100, Cohort: 10, Rounds: 5, NoiseMultiplier: 1, Delta: 1e-5, Sampling: privacy.Poisson}
	v := &Outcome{Claimed: 1.1, Population: 100, Finding: replay.Finding{Noise: replay.Multiplier{Low: 0.99, Measured: 1.1, High: 1.32}}}
	must.Do(t, v.account(recipe))
	for total, got := range map[float64]*float64{0.9: v.EpsilonHigh, 1: v.Epsilon, 1.2: v.EpsilonLow} {
		recipe.NoiseMultiplier = total
		if want := float64(must.Get(privacy.Account(recipe))(t).EpsilonProved); math.Abs(*got/want-1) > 1e-9 {
			t.Errorf("total noise %g: epsilon %g, want %g", total, *got, want)
		}
	}
}
