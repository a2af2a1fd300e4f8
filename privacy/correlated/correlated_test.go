package correlated

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/privacy/pld"
)

// jax_privacy, buffered_toeplitz_test.py, test_optimize_single_participation_golden: within
// 1e-5 there. It used a penalty of 1e-8, which this search does not have.
func TestTheBestBLTIsThePublishedOne(t *testing.T) {
	t.Parallel()
	b := must.Get(OptimizeBLT(Participation{Rounds: 100_000, Separation: 1, Times: 1}, 2))(t)
	near(t, "scales", b.Scales, []float64{0.0122853238, 0.1878393665}, 1e-7)
	near(t, "decays", b.Decays, []float64{0.9999528892, 0.9857068667}, 1e-7)
}

// The same file has BLTs for 1,000 rounds and two participations, five rounds apart. Its search
// has ended early, and its loss is larger.
func TestOptimizeBLTBeatsPublishedLosses(t *testing.T) {
	t.Parallel()
	p := Participation{Rounds: 1000, Separation: 5, Times: 2}
	for _, published := range []BLT{
		{Decays: []float64{0.9877027559462715}, Scales: []float64{0.10595704738115597}},
		{Decays: []float64{0.993433070819512, 0.6342644427247973}, Scales: []float64{0.07538320617916519, 0.5144060910151949}},
	} {
		b, err := OptimizeBLT(p, len(published.Scales))
		if got, want := loss(t, b, p), loss(t, published, p); err != nil || got > want {
			t.Errorf("%d buffers: loss %v (%v), published %v", len(published.Scales), got, err, want)
		}
	}
}

// The best loss of any strategy grows as 1 + log(n)/pi for one participation (Mathias 1993,
// corollary 3.5). The ratios are those of the same file, test_optimize_single_participation_near_optimal.
func TestBLTsAreNearOptimal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rounds, buffers int
		ratio           float64
	}{{10, 1, 1.04}, {100, 2, 1.03}, {1000, 2, 1.04}, {1000, 3, 1.03}, {10_000, 1, 1.45}, {10_000, 3, 1.03}, {100_000, 4, 1.03}} {
		p := Participation{Rounds: c.rounds, Separation: 1, Times: 1}
		b := must.Get(OptimizeBLT(p, c.buffers))(t)
		if got := math.Sqrt(loss(t, b, p)) / (1 + math.Log(float64(c.rounds))/math.Pi); got > c.ratio {
			t.Errorf("%d rounds, %d buffers: %v times the bound, published at most %v", c.rounds, c.buffers, got, c.ratio)
		}
	}
}

// Without a limit on its bands, the best Toeplitz strategy for one participation is the square
// root of the matrix of prefix sums (Dvijotham et al. 2024, section 2).
func TestTheBestStrategyOfAllBandsIsTheSquareRoot(t *testing.T) {
	t.Parallel()
	b := must.Get(OptimizeBanded(Participation{Rounds: 30, Separation: 1, Times: 1}, 30))(t)
	near(t, "coefficients", b.Coefficients, startBanded(30).Coefficients, 1e-6)
}

func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if len(got) != len(want) || math.Abs(got[i]/want[i]-1) > tolerance {
			t.Fatalf("%s %v, want %v", what, got, want)
		}
	}
}

// loss is the objective of the search, computed by the public methods.
func loss(t rapid.TB, s Strategy, p Participation) float64 {
	t.Helper()
	squared := must.Get(s.SquaredSensitivity(p))(t)
	return squared * slices.Max(s.Errors(p.Rounds))
}

// McMahan et al. 2024 state zero-concentrated privacy and epsilon at delta 1e-10 of models of
// Gboard, both rounded: an epsilon of a rho that rounds to theirs is theirs.
func TestPublishedRhoMatchesPublishedEpsilon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rho, rounding, epsilon float64 }{{0.15, 0.005, 3.42}, {0.0144, 0.00005, 0.994}} {
		least := pld.GaussianEpsilon(1/math.Sqrt(2*(c.rho-c.rounding)), 1e-10)
		most := pld.GaussianEpsilon(1/math.Sqrt(2*(c.rho+c.rounding)), 1e-10)
		if c.epsilon < least || c.epsilon > most {
			t.Errorf("rho %v: epsilon from %v to %v, published %v", c.rho, least, most, c.epsilon)
		}
	}
	if got := pld.GaussianEpsilon(1/math.Sqrt(2*0.15), 1e-10); math.Abs(got-3.42) > 0.005 {
		t.Errorf("rho 0.15: epsilon %v, published 3.42", got)
	}
}

func drawParticipation(t *rapid.T, rounds int) Participation {
	return Participation{
		Rounds:     rapid.IntRange(1, rounds).Draw(t, "rounds"),
		Separation: rapid.IntRange(1, 8).Draw(t, "separation"),
		Times:      rapid.IntRange(1, 6).Draw(t, "times"),
	}
}

// drawStrategy draws one of each kind, with any coefficients that it may have.
func drawStrategy(t *rapid.T) Strategy {
	unit := rapid.Float64Range(0, 1)
	switch rapid.SampledFrom([]string{"blt", "banded", "tree"}).Draw(t, "kind") {
	case "blt":
		n := rapid.IntRange(1, 4).Draw(t, "buffers")
		b := BLT{Decays: rapid.SliceOfN(unit, n, n).Draw(t, "decays"), Scales: rapid.SliceOfN(unit, n, n).Draw(t, "scales")}
		for j := range b.Scales {
			b.Scales[j] /= float64(n)
		}
		return b
	case "banded":
		b := Banded{Coefficients: []float64{1}}
		for _, ratio := range rapid.SliceOfN(unit, 0, 9).Draw(t, "ratios") {
			b.Coefficients = append(b.Coefficients, ratio*b.Coefficients[len(b.Coefficients)-1])
		}
		return b
	}
	return Tree{}
}

// rows returns the release for updates x of one element each: C x for a Toeplitz strategy,
// for the tree the sums of all complete nodes, by round and level.
func rows(s Strategy, x []float64) (released [][]float64) {
	column := func() []float64 {
		switch s := s.(type) {
		case BLT:
			return s.Column(len(x))
		case Banded:
			return s.column(len(x))
		}
		return nil
	}()
	for t := range x {
		var row []float64
		if column == nil {
			for size := 1; (t+1)%size == 0; size *= 2 {
				row = append(row, sum(x[t+1-size:t+1]))
			}
		} else {
			row = []float64{0}
			for i := range t + 1 {
				row[0] += column[t-i] * x[i]
			}
		}
		released = append(released, row)
	}
	return released
}

func sum(x []float64) (total float64) {
	for _, v := range x {
		total += v
	}
	return total
}

func TestSensitivityMatchesWorstPlacement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, p := drawStrategy(t), drawParticipation(t, 11)
		want, x := 0.0, make([]float64, p.Rounds)
		var place func(from, left int)
		place = func(from, left int) {
			squared := 0.0
			for _, row := range rows(s, x) {
				squared += squaredNorm(row)
			}
			want = max(want, squared)
			for i := from; i < p.Rounds && left > 0; i++ {
				for _, direction := range []float64{1, -1} {
					x[i] = direction
					place(i+p.Separation, left-1)
				}
				x[i] = 0
			}
		}
		place(0, p.Times)
		got, err := s.SquaredSensitivity(p)
		if _, tree := s.(Tree); tree && p.times() > 1 {
			got = min(got, want) // an upper bound
		}
		if err != nil || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%+v for %+v: squared sensitivity %v (%v), by all placements %v", s, p, got, err, want)
		}
	})
}

// Gboard's Spanish model (google-research/federated, dp_ftrl) took part in 2,000 rounds at most 6
// times, 314 apart; a published test of TensorFlow Privacy has 8 participations in 24 rounds.
func TestTheBoundOfATreeIsNearItsSensitivity(t *testing.T) {
	t.Parallel()
	for p, most := range map[Participation]float64{
		{2000, 314, 6}: 1.04, {24, 3, 8}: 1.3, {1000, 1, 1000}: 1.0, {1000, 100, 10}: 1.15,
	} {
		exact := must.Get(Tree{}.WorstSquares(p))(t)
		got, err := Tree{}.SquaredSensitivity(p)
		if ratio := got / float64(exact); err != nil || ratio < 1 || ratio > most {
			t.Errorf("%+v: %v (%v), exact %v: %v times", p, got, err, exact, ratio)
		}
	}
}

// stream runs rounds of a model with one parameter, whose independent noise is given by round
// and stream.
func stream(t rapid.TB, s Strategy, independent [][]float64) []float64 {
	t.Helper()
	var buffers [][]float32
	out := make([]float64, len(independent))
	for i, own := range independent {
		noise, next, err := s.Noise(i+1, buffers, func(stream uint64) ([]float64, error) {
			return []float64{own[stream]}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(next) > s.Buffers(len(independent)) {
			t.Fatalf("%d buffers after round %d of %d, announced %d", len(next), i+1, len(independent), s.Buffers(len(independent)))
		}
		out[i], buffers = noise[0], next
	}
	return out
}

// The release determines the updates: with the release in place of noise, Noise returns
// the updates. So it is C^-1, and the noise on the updates is a function of C X + Z.
func TestNoiseInvertsStrategy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawStrategy(t)
		x := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 20).Draw(t, "updates")
		got := stream(t, s, rows(s, x))
		for i := range x {
			if math.Abs(got[i]-x[i]) > 1e-4 {
				t.Fatalf("%+v: update %d is %v, want %v", s, i, got[i], x[i])
			}
		}
	})
}

func TestErrorsAreTheVariancesOfSums(t *testing.T) {
	t.Parallel()
	for _, s := range []Strategy{
		Tree{}, BLT{Scales: []float64{0.1, 0.3}, Decays: []float64{0.99, 0.7}}, Banded{Coefficients: []float64{1, 0.6, 0.3, 0.3}},
	} {
		const rounds = 21
		shape := rows(s, make([]float64, rounds))
		want := make([]float64, rounds)
		for i, row := range shape {
			for j := range row {
				row[j] = 1
				total := 0.0
				for k, v := range stream(t, s, shape) {
					total += v
					want[k] += total * total
				}
				shape[i][j] = 0
			}
		}
		near(t, fmt.Sprintf("%T: variances", s), s.Errors(rounds), want, 1e-5)
	}
}

// The variances of prefix sums are the squared norms of the rows of A C^-1, A with ones
// on and below its diagonal.
func TestErrorsEqualThoseOfTheInvertedMatrix(t *testing.T) {
	t.Parallel()
	b := BLT{Scales: []float64{0.05, 0.2, 0.3}, Decays: []float64{0.999, 0.9, 0.2}}
	const n = 40
	strategy, sums := mat.NewDense(n, n, nil), mat.NewDense(n, n, nil)
	column := b.Column(n)
	for i := range n {
		for j := range i + 1 {
			strategy.Set(i, j, column[i-j])
			sums.Set(i, j, 1)
		}
	}
	var inverse, product mat.Dense
	must.Do(t, inverse.Inverse(strategy))
	product.Mul(sums, &inverse)
	want := make([]float64, n)
	for i := range want {
		want[i] = squaredNorm(product.RawRowView(i))
	}
	near(t, "variances", b.Errors(n), want, 1e-12)
}

func TestGradientsOfTheSearchEqualFiniteDifferences(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawParticipation(t, 40)
		x := rapid.SliceOfN(rapid.Float64Range(-3, 2), 4, 4).Draw(t, "point")
		for name, value := range map[string]func(x, gradient []float64, p Participation) float64{"blt": lossOfBLT, "banded": lossOfBanded} {
			if name == "banded" && p.Rounds <= len(x) {
				continue
			}
			gradient, scratch := make([]float64, len(x)), make([]float64, len(x))
			value(x, gradient, p)
			for i := range x {
				const h = 1e-5
				up, down := slices.Clone(x), slices.Clone(x)
				up[i] += h
				down[i] -= h
				want := (value(up, scratch, p) - value(down, scratch, p)) / (2 * h)
				if math.Abs(gradient[i]-want) > 1e-7*(1+math.Abs(want)) {
					t.Fatalf("%s: derivative %d is %v, by differences %v", name, i, gradient[i], want)
				}
			}
		}
	})
}

func TestEverySearchEndsAtAMinimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawParticipation(t, 300)
		buffers := rapid.IntRange(1, 4).Draw(t, "buffers")
		b := must.Get(OptimizeBLT(p, buffers))(t)
		none := float64(p.Rounds * p.times()) // the loss of independent noise
		if got := loss(t, b, p); got > none*(1+1e-6) {
			t.Errorf("%+v: loss %v, that of independent noise is %v", b, got, none)
		}
		bands := rapid.IntRange(1, min(12, p.Rounds)).Draw(t, "bands")
		banded := must.Get(OptimizeBanded(p, bands))(t)
		gradient := make([]float64, bands-1)
		if lossOfBanded(fromBanded(banded), gradient, p); !(math.Sqrt(squaredNorm(gradient)) < 1e-4) {
			t.Errorf("%+v for %+v: the loss still has the slopes %v", banded, p, gradient)
		}
	})
}

func TestTheSearchRepeatsItself(t *testing.T) {
	t.Parallel()
	p := Participation{Rounds: 500, Separation: 50, Times: 4}
	first, err := OptimizeBLT(p, 3)
	again, err2 := OptimizeBLT(p, 3)
	if err != nil || err2 != nil || fmt.Sprint(first) != fmt.Sprint(again) {
		t.Errorf("%v (%v), then %v (%v)", first, err, again, err2)
	}
	// Keys of trainings hold these numbers.
	if got, want := fmt.Sprint(first), "{[0.02219498855 0.2741219944 0.2095552986] [1 0.9560920054 0.4601235708]}"; got != want {
		t.Errorf("the search found %s, and before %s", got, want)
	}
}

func TestStrategiesOutOfRangeAreRejected(t *testing.T) {
	t.Parallel()
	p := Participation{Rounds: 10, Separation: 2, Times: 3}
	for _, s := range []Strategy{
		BLT{}, BLT{Scales: []float64{1}}, BLT{Scales: []float64{-0.1}, Decays: []float64{0.5}}, BLT{Scales: []float64{0.1}, Decays: []float64{1.1}},
		BLT{Scales: []float64{0.6, 0.6}, Decays: []float64{0.5, 0.4}}, BLT{Scales: []float64{math.NaN()}, Decays: []float64{0.5}},
		Banded{}, Banded{Coefficients: []float64{0.5}}, Banded{Coefficients: []float64{1, 1.1}}, Banded{Coefficients: []float64{1, -0.1}},
		Banded{Coefficients: []float64{1, math.NaN()}},
	} {
		if _, err := s.SquaredSensitivity(p); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
	for _, p := range []Participation{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}} {
		for _, s := range []Strategy{BLT{Scales: []float64{0.1}, Decays: []float64{0.5}}, Banded{Coefficients: []float64{1}}, Tree{}} {
			if _, err := s.SquaredSensitivity(p); err == nil {
				t.Errorf("%T accepts %+v", s, p)
			}
		}
		if _, err := OptimizeBLT(p, 1); err == nil {
			t.Errorf("a search accepts %+v", p)
		}
	}
}

func TestBuffersOfAnotherRoundAreRejected(t *testing.T) {
	t.Parallel()
	draw := func(uint64) ([]float64, error) { return make([]float64, 3), nil }
	for _, s := range []Strategy{BLT{Scales: []float64{0.1}, Decays: []float64{0.5}}, Banded{Coefficients: []float64{1, 0.5}}, Tree{}} {
		for _, buffers := range [][][]float32{nil, {{1, 2}}, {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}} {
			if _, _, err := s.Noise(2, buffers, draw); err == nil {
				t.Errorf("%T: round 2 accepts the buffers %v", s, buffers)
			}
		}
	}
}

// The cost of a round's noise besides drawing it, at a model of a million parameters.
func BenchmarkNoise(b *testing.B) {
	const parameters = 1 << 20
	draws := make([]float64, parameters)
	for _, s := range []Strategy{
		Banded{Coefficients: []float64{1}}, Tree{}, BLT{Scales: []float64{0.1, 0.2, 0.3}, Decays: []float64{0.99, 0.9, 0.5}},
		Banded{Coefficients: []float64{1, 0.5, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1}},
	} {
		b.Run(fmt.Sprintf("%T-%d", s, s.Buffers(1000)), func(b *testing.B) {
			var buffers [][]float32
			for round := 1; b.Loop(); round++ {
				var err error
				_, buffers, err = s.Noise(round, buffers, func(level uint64) ([]float64, error) {
					rng := seeds.Stream(1, seeds.Noise, uint64(round), level)
					for i := range draws {
						draws[i] = rng.NormFloat64()
					}
					return slices.Clone(draws), nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
