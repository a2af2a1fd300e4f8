package models

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"coalmine/internal/kernels"
)

// streamsFrom are n streams of their own.
func streamsFrom(first, n int) []*rand.Rand {
	streams := make([]*rand.Rand, n)
	for i := range streams {
		streams[i] = testRand(uint64(1000 + first + i))
	}
	return streams
}

// plainSample draws one sample by the definition, in float64.
func plainSample(t *testing.T, s *Scorer, d Draw, stream *rand.Rand) Sample {
	t.Helper()
	state, row := s.Start(1), make([]float32, s.model.config.Vocabulary)
	for _, token := range d.Prefix {
		check(t, s.Step(state, []int32{token}))
	}
	var out Sample
	for len(out.Tokens) < d.AtMost {
		check(t, s.LogProbRows(state, row))
		token := plainDraw(d.Sampling, row, stream.Float64())
		out.Tokens, out.LogProbability = append(out.Tokens, token), out.LogProbability+float64(row[token])
		if token == d.End {
			break
		}
		check(t, s.Step(state, []int32{token}))
	}
	return out
}

func plainDraw(s Sampling, row []float32, u float64) int32 {
	order := make([]int32, len(row))
	for i := range order {
		order[i] = int32(i)
	}
	if s.TopK > 0 && s.TopK < len(row) {
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(row[b], row[a]) })
		order = order[:s.TopK]
	}
	total := 0.0
	for _, i := range order {
		total += math.Exp(float64(row[i]) / s.Temperature)
	}
	sum := 0.0
	for _, i := range order {
		if sum += math.Exp(float64(row[i]) / s.Temperature); sum > u*total {
			return i
		}
	}
	return order[len(order)-1]
}

// For every kind of model, with and without temperature and top-k, over one tile of
// the output and several. The two could differ if u falls into a gap of rounding, a
// few 1e-7 wide: the seeds are fixed, and none does.
func TestSamplesMatchDefinition(t *testing.T) {
	t.Parallel()
	for _, vocabulary := range []int{9, 530} {
		eachVariant(t, vocabulary, func(t *testing.T, m *Language) {
			s := mustScorer(t, m, wideParams(m, testRand(5)))
			for _, sampling := range []Sampling{{1, 0}, {0.6, 0}, {1.7, 5}, {1, 1}, {1, vocabulary}, {0.01, 0}, {2, 400}} {
				d := Draw{Sampling: sampling, Prefix: []int32{2, 4}, End: 3, AtMost: 6}
				samples, err := s.Sample(d, streamsFrom(0, 40))
				check(t, err)
				for i, stream := range streamsFrom(0, 40) {
					want := plainSample(t, s, d, stream)
					if !slices.Equal(samples[i].Tokens, want.Tokens) || samples[i].LogProbability != want.LogProbability {
						t.Fatalf("%+v: sample %d is %+v, by definition %+v", sampling, i, samples[i], want)
					}
				}
			}
		})
	}
}

func TestSampleDoesNotDependOnBatch(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 500, 6, 9)
	s := mustScorer(t, m, wideParams(m, testRand(8)))
	d := Draw{Sampling: Sampling{Temperature: 1}, Prefix: []int32{2}, End: 3, AtMost: 7}
	const n = 500 // more than a block of states
	together, err := s.Sample(d, streamsFrom(0, n))
	check(t, err)
	for i := range n {
		alone, err := s.Sample(d, streamsFrom(i, 1))
		check(t, err)
		if !slices.Equal(alone[0].Tokens, together[i].Tokens) || alone[0].LogProbability != together[i].LogProbability {
			t.Fatalf("sample %d is %+v alone, %+v among others", i, alone[0], together[i])
		}
	}
}

// Every sequence of a small model has the frequency of equation 1. The statistic is
// chi-squared with one degree of freedom less than there are sequences; a right program
// is above the bound with probability 1e-4. The seed is fixed.
func TestSampledSequencesHaveTheirProbabilities(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 4, 5, 6)
	s := mustScorer(t, m, wideParams(m, testRand(3)))
	d := Draw{Sampling: Sampling{Temperature: 1}, Prefix: []int32{2}, End: 3, AtMost: 2}
	const n = 20_000
	samples, err := s.Sample(d, streamsFrom(0, n))
	check(t, err)
	counts, probabilities := map[[2]int32]float64{}, map[[2]int32]float64{}
	for _, sample := range samples {
		key := [2]int32{sample.Tokens[0], -1}
		if len(sample.Tokens) > 1 {
			key[1] = sample.Tokens[1]
		}
		counts[key]++
		probabilities[key] = math.Exp(sample.LogProbability)
	}
	statistic, total := 0.0, 0.0
	for key, p := range probabilities {
		total += p
		statistic += (counts[key] - n*p) * (counts[key] - n*p) / (n * p)
	}
	if len(counts) != 13 || math.Abs(total-1) > 1e-6 {
		t.Fatalf("%d sequences of probability %v together, want 13 of 1", len(counts), total)
	}
	if statistic > 39.13 { // the 1 - 1e-4 quantile with 12 degrees of freedom
		t.Errorf("chi-squared %v", statistic)
	}
}

// Tokens whose probability underflows, at the latest with the weight in the tile times
// that of the tile, e^-104 each, have no share.
func TestEveryUHasAToken(t *testing.T) {
	t.Parallel()
	rng := testRand(4)
	for range 50 {
		row, vocabulary := []float32{}, 1+rng.IntN(600)
		for range vocabulary {
			row = append(row, float32(-1000*rng.Float64()))
		}
		d := distribution{logits: row}
		check(t, d.reduce())
		for _, u := range []float64{0, math.SmallestNonzeroFloat64, 0.5, math.Nextafter(1, 0)} {
			token := d.draw(u)
			if token < 0 || int(token) >= vocabulary || row[token]-slices.Max(row) < -208 {
				t.Errorf("u %v draws token %d of %d", u, token, vocabulary)
			}
		}
	}
}

func TestSamplesThatCannotBeDrawnAreRejected(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 9, 4, 4)
	s := mustScorer(t, m, wideParams(m, testRand(1)))
	good := Draw{Sampling: Sampling{Temperature: 1}, Prefix: []int32{2}, End: 3, AtMost: 2}
	for what, change := range map[string]func(d *Draw){
		"no temperature":       func(d *Draw) { d.Temperature = 0 },
		"temperature NaN":      func(d *Draw) { d.Temperature = math.NaN() },
		"infinite temperature": func(d *Draw) { d.Temperature = math.Inf(1) },
		"negative top-k":       func(d *Draw) { d.TopK = -1 },
		"no prefix":            func(d *Draw) { d.Prefix = nil },
		"unknown token":        func(d *Draw) { d.Prefix = []int32{9} },
		"no length":            func(d *Draw) { d.AtMost = 0 },
	} {
		d := good
		change(&d)
		if _, err := s.Sample(d, streamsFrom(0, 1)); err == nil {
			t.Errorf("%s: samples were drawn", what)
		}
	}
	if samples, err := s.Sample(good, nil); err != nil || len(samples) != 0 {
		t.Errorf("no streams: %v, %v", samples, err)
	}
}

func TestADivergedModelIsNotSampled(t *testing.T) {
	t.Parallel()
	m := mustNew(t, 9, 4, 4)
	params := wideParams(m, testRand(1))
	params[0] = float32(math.NaN())
	for _, k := range []int{0, 3} {
		d := Draw{Sampling: Sampling{Temperature: 1, TopK: k}, Prefix: []int32{0}, End: 3, AtMost: 2}
		var diverged *DivergedError
		if _, err := mustScorer(t, m, params).Sample(d, streamsFrom(0, 1)); !errors.As(err, &diverged) {
			t.Errorf("top_k %d: error %v", k, err)
		}
	}
}

func TestEveryKernelSetDrawsTheSame(t *testing.T) { // not parallel: it changes the kernels
	m := mustConfigure(t, Config{Kind: LSTM, Vocabulary: 530, Embedding: 12, Units: 20, Layers: 2})
	params := wideParams(m, testRand(35))
	var first []Sample
	for _, set := range kernels.Sets() {
		restore, err := kernels.ForceSet(set)
		check(t, err)
		d := Draw{Sampling: Sampling{Temperature: 0.8, TopK: 300}, Prefix: []int32{2}, End: 3, AtMost: 8}
		samples, err := mustScorer(t, m, params).Sample(d, streamsFrom(0, 300))
		restore()
		check(t, err)
		if first == nil {
			first = samples
		}
		if !reflect.DeepEqual(samples, first) {
			t.Errorf("%s draws other samples than %s", set, kernels.Sets()[0])
		}
	}
}
