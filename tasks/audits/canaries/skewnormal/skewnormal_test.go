package skewnormal

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/exposure"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// randomScorer is an untrained model with initial weights times scale.
func randomScorer(t testing.TB, kind models.Kind, vocabulary int, scale float32) *models.Scorer {
	t.Helper()
	return auditstest.RandomScorer(t, models.Config{Kind: kind, Vocabulary: vocabulary, Embedding: 6, Units: 8, Layers: 2, Projection: models.Unprojected, Untied: true}, 3, scale)
}

// A reference costs as much as a canary of the same words, to the last bit: in several
// blocks, and with some drawn twice.
func TestReferenceCostsMatchSingleCosts(t *testing.T) {
	t.Parallel()
	const words = 9
	for _, kind := range models.Kinds() {
		tree := randomScorer(t, kind, text.FirstWord+words, 4).Tabulate().NewTreeScorer()
		state := must.Get(audits.PrefixState(tree.Scorer(), []int32{5}))(t)
		p := Params{Seed: 2, References: 2500, Space: canaries.Space{Words: 5}, Prefix: 1}
		rows := must.Get(p.draw(t.Context(), nil, words, []population.Placement{{Canary: population.Canary{Tokens: []int32{4, 5, 6, 7, 8}}}}))(t)
		costs := must.Get(audits.LogPerplexities(t.Context(), tree, state, rows))(t)
		for i := 0; i < len(rows); i += 31 {
			want := must.Get(audits.LogPerplexity(t.Context(), tree, state, rows[i]))(t)
			if costs[i] != want {
				t.Fatalf("%s: reference %v costs %v, alone %v", kind, rows[i], costs[i], want)
			}
		}
	}
}

// The statistic and its p-value are those of scipy 1.10: stats.kstest(x, "norm") of
// x[i] = norm.ppf((i + 0.5) / n) * stretch, which has p = 1 at 1.
func TestFitTestMatchesSciPy(t *testing.T) {
	t.Parallel()
	normal := Distribution{Scale: 1}
	for _, c := range []struct {
		n            int
		stretch      float64
		d, p, within float64
	}{
		{100, 1, 0.005, 1, 0.001},
		{100, 1.3, 0.0681102500794, 0.716323732825, 0.001},
		{1000, 1.1, 0.0235448245533, 0.627587339069, 0.0001},
		{5000, 1.05, 0.0119034482011, 0.474406927174, 0.0001},
		{5000, 1.02, 0.00489149935777, 0.999725765959, 0.0001},
		{5000, 1.2, 0.0440947104285, 6.93110561869e-09, 0.0001},
	} {
		data := make([]float64, c.n)
		for i := range data {
			data[i] = c.stretch * math.Sqrt2 * math.Erfinv((2*float64(i)+1)/float64(c.n)-1)
		}
		d := kolmogorovSmirnov(data, normal.CDF)
		if p := significance(d, c.n); math.Abs(d-c.d) > 1e-8 || math.Abs(p-c.p) > c.within {
			t.Errorf("%d data stretched by %v: D %v, p %v; scipy %v, %v", c.n, c.stretch, d, p, c.d, c.p)
		}
	}
}

// TensorFlow Privacy's vectors of exposure by rank: references 1 to 16, ties against the
// canary. The rank is that of random sampling.
func TestExposureByRankMatchesTensorFlowPrivacy(t *testing.T) {
	t.Parallel()
	var references []float64
	for i := range 16 {
		references = append(references, float64(i+1))
	}
	for cost, want := range map[float64]float64{0: 4, 0.1: 4, 20: -0.08746284125034, 3.5: 2, 3: 2} {
		got := randomsampling.Rank{Rank: 1 + atMost(references, cost)}.Exposure(16)
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("a canary of %v: exposure %v, want %v", cost, got, want)
		}
	}
}

// Of data with two humps, which no skew-normal distribution has, every exposure that the
// references support is right within half a bit, and a high one is not: the note says so. The
// bound fails with a probability of at most 5% for each of the seeds, which are fixed.
func TestSupportedExposuresAreRightForAnyDistribution(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 9))
		low, high := Distribution{Location: 30, Scale: 4, Shape: 0}, Distribution{Location: 45, Scale: 2, Shape: 1}
		costs := append(draws(rng, low, 9000), draws(rng, high, 11000)...)
		rng.Shuffle(len(costs), func(i, j int) { costs[i], costs[j] = costs[j], costs[i] })
		fit := must.Get(newFit(costs))(t)
		supported := fit.Supported(0.05)
		off := func(cost float64) float64 {
			return bits(fit.Distribution, cost) + math.Log2(0.45*low.CDF(cost)+0.55*high.CDF(cost))
		}
		furthest := 0.0
		for cost := 5.0; cost < 60; cost += 0.1 {
			if bits(fit.Distribution, cost) <= supported {
				furthest = max(furthest, math.Abs(off(cost)))
			}
		}
		if furthest > 0.5 || supported < 0.3 {
			t.Errorf("seed %d: %.2f bits are supported, and such exposures are off by %.2f", seed, supported, furthest)
		}
		if beyond := off(10); math.Abs(beyond) < 1 {
			t.Errorf("seed %d: far out the fit is off by %.2f bits alone", seed, beyond)
		}
		for highest, want := range map[float64]bool{supported - 0.1: false, supported + 0.1: true} {
			v := Outcome{Highest: &highest, Fits: []Fit{fit}}
			if note := v.Note(nil); strings.Contains(note, "hold only if the distribution is skew-normal there") != want {
				t.Errorf("highest %v: note %q", highest, note)
			}
		}
	}
}

// Of data that are skew-normal, the exposure lies within its errors of the true one, where
// the fit reaches and beyond, and the test finds nothing. The seed is fixed: a standard error
// from 100 resamplings is within a quarter of the right one but for 4e-4, so that one of four
// estimates is off by more than 5 of them with probability 5e-4 at most; p is below 1e-4 with
// probability 5e-3 (it is too small on average, see docs/method/exposure.md).
func TestFittedExposuresOfSkewNormalReferencesAreRight(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 5))
	truth := Distribution{Location: 60, Scale: 5, Shape: -2}
	costs := draws(rng, truth, 10_000)
	fit := must.Get(newFit(costs))(t)
	if fit.P < 1e-4 || fit.Fitted != 5000 || fit.Tested != 5000 || math.Abs(fit.LowestFitted-5) > 1e-9 || fit.LowestObserved > 20 {
		t.Errorf("fit %+v", fit)
	}
	p := Params{Seed: 1, Bootstrap: 100}
	again := must.Get(p.bootstrap(t.Context(), costs[:5000]))(t)
	for _, cost := range []float64{58, 48, 40, 25} {
		sum, squares := 0.0, 0.0
		for _, d := range again {
			sum += bits(d, cost) / 100
			squares += bits(d, cost) * bits(d, cost) / 100
		}
		deviation := math.Sqrt(squares - sum*sum)
		if got, want := bits(fit.Distribution, cost), bits(truth, cost); math.Abs(got-want) > 5*1.25*deviation {
			t.Errorf("log-perplexity %v: exposure %v, error %v; the true one is %v", cost, got, deviation, want)
		}
	}
}

// Each bootstrap fit draws as many costs as there are, with replacement, from its own stream.
func TestBootstrapFitsResampleAllCosts(t *testing.T) {
	t.Parallel()
	costs := draws(rand.New(rand.NewPCG(3, 1)), Distribution{Location: 60, Scale: 5, Shape: -2}, 50)
	p := Params{Seed: 7, Bootstrap: 3}
	fits, err := p.bootstrap(t.Context(), costs)
	if err != nil || len(fits) != p.Bootstrap {
		t.Fatal(fits, err)
	}
	for k, got := range fits {
		rng, again := seeds.Stream(p.Seed, seeds.Bootstrap, uint64(k)), []float64(nil)
		for range costs {
			again = append(again, costs[rng.IntN(len(costs))])
		}
		if want, err := FitDistribution(again); err != nil || got != want {
			t.Errorf("fit %d is %+v, want %+v (%v)", k, got, want, err)
		}
	}
}

func TestAHistogramHasAllReferences(t *testing.T) {
	t.Parallel()
	h := newHistogram([]float64{1, 1, 2, 5})
	if h.From != 1 || h.Width != 0.1 || h.Counts[0] != 2 || h.Counts[10] != 1 || h.Counts[39] != 1 {
		t.Errorf("histogram %+v", h)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	model := auditstest.Untrained(g, 40)
	third := population.Placement{Canary: population.Canary{Number: 2, Tokens: []int32{8, 4, 4, 5}, Words: []string{"e", "h", "g", "h"}, HeldBack: true}}
	given := auditstest.Canaries(t, g, append(auditstest.Pair(), third))
	part := g.Run(Kind, Params{Seed: 1, References: 300, Bootstrap: 5, Space: canaries.Space{Words: 4}, Prefix: 1, Count: 3},
		taskstest.In(audits.ModelInput, model), taskstest.In(audits.CanariesInput, given))
	taskstest.Golden(t, part)
	summary := g.Run(Summary, SummaryParams{Parts: 1}, taskstest.In(audits.PlacementsInput, given), taskstest.In(tasks.PartInput(0), part))
	taskstest.Golden(t, summary)
	v, outcomes := auditstest.Summarized[Outcome, CanaryOutcome](t, summary)
	if len(outcomes) != 3 || len(v.Fits) != 2 || *v.Highest != *outcomes[0].Exposure {
		t.Errorf("outcome %+v of outcomes %+v, want 2 fits for 2 prefixes", v, outcomes)
	}
}

// Bad input is one sentence, and no other try would mend it.
func TestEstimateRejectsUnfittableCosts(t *testing.T) {
	t.Parallel()
	const vocabulary = 12
	model := must.Get(models.New(models.Config{Kind: models.LSTM, Vocabulary: vocabulary, Embedding: 3, Units: 4}))(t)
	rows := [][]int32{{4, 5}, {6, 7}, {4, 5}, {5, 5}}
	own := []population.Placement{{Canary: population.Canary{Tokens: []int32{4, 9, 9}}}}
	for value, want := range map[float32]string{0: "all values are equal", float32(math.NaN()): "log-perplexity of a sequence"} {
		scorer := must.Get(model.NewScorer(slices.Repeat([]float32{value}, model.Parameters())))(t)
		e := &estimator{&Params{Prefix: 1, Bootstrap: 2}, scorer.Tabulate().NewTreeScorer(), rows, own, make([]Estimate, 1)}
		if err := e.estimate(t.Context(), audits.ByPrefix(own, 1)[0]); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("a model of %v: %v, want %q", value, err, want)
		}
	}
	p := Params{References: 64, Space: canaries.Space{Words: 3}, Prefix: 1}
	if _, err := p.draw(t.Context(), nil, 8, own); err == nil || !strings.Contains(err.Error(), "expected at most the 64 sequences") {
		t.Errorf("64 references beside a canary: %v", err)
	}
}

// A held-back canary has a fit, and trips no gate: here it has the highest exposure.
func TestTheHighestExposureIsOfAnInsertedCanary(t *testing.T) {
	t.Parallel()
	of := func(exposures ...float64) (estimates []Estimate) {
		for i, bits := range exposures {
			estimates = append(estimates, Estimate{Exposure: bits, Fit: Fit{Distribution: Distribution{Location: float64(i), Scale: 1}}})
		}
		return estimates
	}
	v := NewOutcome(of(3, 40, 7), func(canary int) bool { return canary != 1 })
	if v.Highest == nil || *v.Highest != 7 || len(v.Fits) != 3 {
		t.Errorf("the highest exposure is %g of %d fits, want 7 bits of 3", exposure.ValueOf(v.Highest), len(v.Fits))
	}
	if v := NewOutcome(of(3), func(int) bool { return false }); v.Highest != nil {
		t.Errorf("without an inserted canary the highest exposure is %v", *v.Highest)
	}
}

// The summary of a checkpoint counts the exposures of inserted canaries alone, too.
func TestASummaryHasTheHighestExposureOfAnInsertedCanary(t *testing.T) {
	t.Parallel()
	for want, insertions := range map[string][]int{"7": {5, 0, 1}, "null": {0, 0, 0}} {
		g := taskstest.NewGraph(t)
		list, estimates := make([]population.Placement, len(insertions)), make([]Estimate, len(insertions))
		for i, n := range insertions {
			list[i] = population.Placement{Canary: population.Canary{Number: i, Tokens: []int32{7}, Words: []string{"a"}, HeldBack: n == 0}, Insertions: n}
			estimates[i] = Estimate{Exposure: []float64{3, 40, 7}[i]}
		}
		given := auditstest.Canaries(t, g, list)
		part := g.Put("part", map[string][]byte{EstimatesBlob: must.Get(json.Marshal(estimates))(t)})
		summary := g.Run(Summary, SummaryParams{Parts: 1}, taskstest.In(audits.PlacementsInput, given), taskstest.In(tasks.PartInput(0), part))
		var metrics struct {
			Highest *float64 `json:"skew_normal_highest_exposure"`
		}
		summary.DecodeMetrics(&metrics)
		if got := string(must.Get(json.Marshal(metrics.Highest))(t)); got != want {
			t.Errorf("inserted %v times: the highest exposure is %s bits, want %s", insertions, got, want)
		}
	}
}

// One audit of the byte model of Carlini et al. 2019 with the default references and
// bootstrap, on one core: the cost of exposure at every epoch.
func BenchmarkAudit(b *testing.B) {
	m := must.Get(models.New(models.Config{Kind: models.LSTM, Vocabulary: text.FirstWord + text.Bytes, Embedding: 32, Units: 200, Layers: 2, Projection: models.Unprojected, Untied: true}))(b)
	scorer := must.Get(m.NewScorer(m.Init(rand.New(rand.NewPCG(1, 1)))))(b)
	p := Params{Seed: 1, References: 10_000, Bootstrap: 100, Space: canaries.Space{Words: 24, Alphabet: canaries.Digits, Format: "my number is ###-###-###"}, Prefix: 13}
	own := []population.Placement{{Canary: population.Canary{Tokens: make([]int32, 24)}}}
	for i := range own[0].Tokens {
		own[0].Tokens[i] = text.FirstWord + int32(p.Format[i])
	}
	references := must.Get(p.draw(b.Context(), nil, text.Bytes, own))(b)
	for b.Loop() {
		e := &estimator{&p, scorer.Tabulate().NewTreeScorer(), references, own, make([]Estimate, 1)}
		must.Do(b, e.estimate(b.Context(), audits.ByPrefix(own, p.Prefix)[0]))
	}
}
