package models

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func adapted(vocabulary int) []Config {
	return slices.DeleteFunc(transformers(vocabulary), func(c Config) bool { return c.Adapters == Adapters{} })
}

// mergedParams returns the parameters of the frozen model with the products added in float64.
func mergedParams(m *Language, params []float32) []float32 {
	if len(m.layout.adapters) == 0 {
		return params
	}
	merged := slices.Clone(params)
	for _, x := range m.layout.adapters {
		matrix := x.matrix.Of(merged)
		a, b := x.a.Of(params), x.b.Of(params)
		rank, wide := len(a)/x.rows, len(matrix)/x.rows
		for i := range x.rows {
			for j := range x.columns {
				sum := 0.0
				for k := range rank {
					sum += float64(float64(a[i*rank+k]) * float64(b[k*x.columns+j]))
				}
				matrix[i*wide+x.first+j] += float32(float64(m.config.Adapters.scale()) * sum)
			}
		}
	}
	return merged[m.Trained():]
}

func TestAdaptersAddTheirProductsToTheFrozenMatrices(t *testing.T) {
	t.Parallel()
	for _, c := range adapted(40) {
		m, frozen := mustConfigure(t, c), mustConfigure(t, c.Frozen())
		params := wideParams(m, testRand(91))
		sentence := []int32{2, 7, 31, 5, 9}
		got := feed(t, mustScorer(t, m, params), sentence)
		want := feed(t, mustScorer(t, frozen, mergedParams(m, params)), sentence)
		base := feed(t, mustScorer(t, frozen, params[m.Trained():]), sentence)
		for i := range got {
			if !near(float64(got[i]), float64(want[i]), math.Abs(float64(want[i])), 1e-5) || got[i] == base[i] {
				t.Errorf("%+v: log p %v, want %v; without adapters %v", c.Adapters, got, want, base)
				break
			}
		}
	}
}

func TestAModelWithAdaptersBeginsAsTheFrozenOne(t *testing.T) {
	t.Parallel()
	for _, c := range adapted(40) {
		m, frozen := mustConfigure(t, c), mustConfigure(t, c.Frozen())
		params := m.Init(testRand(92))
		if !slices.Equal(params[m.Trained():], frozen.Init(testRand(92))) {
			t.Errorf("%+v: the frozen parameters are not those of the model without adapters", c.Adapters)
		}
		for _, tensor := range TrainedTensors(m) {
			zero := !slices.ContainsFunc(tensor.View(params), func(v float32) bool { return v != 0 })
			if strings.HasSuffix(tensor.Name, "_b") != zero {
				t.Errorf("%s: all zero: %v", tensor, zero)
			}
		}
		sentence := []int32{2, 7, 31, 5, 9}
		if a, b := feed(t, mustScorer(t, m, params), sentence), feed(t, mustScorer(t, frozen, params[m.Trained():]), sentence); !slices.Equal(a, b) {
			t.Errorf("log probabilities %v, of the frozen model %v", a, b)
		}
	}
}

// The mean of 200,000 squares has a standard deviation of sqrt(2/200,000) = 0.3% of the variance.
func TestTheFactorsABeginNormalWithTheVarianceOfOneRow(t *testing.T) {
	t.Parallel()
	m := mustConfigure(t, Config{Kind: Transformer, Vocabulary: 9, Embedding: 1000, Units: 3, Heads: 1, Context: 2, Adapters: Adapters{Rank: 100}})
	params, sum, n := m.Init(testRand(93)), 0.0, 0
	for _, tensor := range TrainedTensors(m) {
		if strings.HasSuffix(tensor.Name, "_a") {
			for _, v := range tensor.View(params) {
				sum, n = sum+float64(float64(v)*float64(v)), n+1
			}
		}
	}
	if variance := sum / float64(n); n != 200_000 || !near(variance, 1e-3, 1e-3, 0.015) {
		t.Errorf("a variance of %v over %d elements, want 1/1000 over 200,000", variance, n)
	}
}

func TestAdaptersHaveOneIdentity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want Adapters }{
		{NewAdapters(8, 8, nil), Adapters{Rank: 8}},
		{NewAdapters(8, 16, []AdaptedMatrix{"attention.value", "attention.query"}), Adapters{Rank: 8, Alpha: 16}},
		{NewAdapters(4, 0, []AdaptedMatrix{"feed.output", "attention.key"}), Adapters{Rank: 4, Matrices: "attention.key,feed.output"}},
	} {
		if c.got != c.want {
			t.Errorf("adapters %+v, want %+v", c.got, c.want)
		}
	}
}
