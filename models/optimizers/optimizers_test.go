package optimizers_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/models/optimizers"
)

func mustNew(t testing.TB, c optimizers.Config, n int) optimizers.Optimizer {
	t.Helper()
	return must.Get(optimizers.New(c, n))(t)
}

func mustDefaults(t testing.TB, kind optimizers.Kind) optimizers.Config {
	t.Helper()
	return must.Get(optimizers.Defaults(kind))(t)
}

// One parameter from 1 with gradients 1, 1, -2 at rate 0.1. The sequences are
// worked out by hand from the rules in the package's comments.
func TestStepsFollowTheirRules(t *testing.T) {
	t.Parallel()
	cases := []struct {
		config optimizers.Config
		want   [3]float64
	}{
		{optimizers.Config{Kind: optimizers.SGD}, [3]float64{0.9, 0.8, 1.0}},
		// velocities 1, 1.5, -1.25
		{optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.5}, [3]float64{0.9, 0.75, 0.875}},
		// looks ahead by 1.5, 1.75, -2.625
		{optimizers.Config{Kind: optimizers.Nesterov, Momentum: 0.5}, [3]float64{0.85, 0.675, 0.9375}},
		// squares 1, 2, 6
		{optimizers.Config{Kind: optimizers.Adagrad, Epsilon: 1e-10},
			[3]float64{0.9, 0.9 - 0.1/math.Sqrt2, 0.9 - 0.1/math.Sqrt2 + 0.2/math.Sqrt(6)}},
		// squares 3+1, 3+2, 3+6
		{optimizers.Config{Kind: optimizers.Adagrad, Epsilon: 1, Initial: 3},
			[3]float64{1 - 0.1/3, 1 - 0.1/3 - 0.1/(math.Sqrt(5)+1), 1 - 0.1/3 - 0.1/(math.Sqrt(5)+1) + 0.2/4}},
		// squares 0.5, 0.75, 2.375
		{optimizers.Config{Kind: optimizers.RMSProp, Beta2: 0.5, Epsilon: 1},
			[3]float64{1 - 0.1/(math.Sqrt(0.5)+1), 1 - 0.1/(math.Sqrt(0.5)+1) - 0.1/(math.Sqrt(0.75)+1),
				1 - 0.1/(math.Sqrt(0.5)+1) - 0.1/(math.Sqrt(0.75)+1) + 0.2/(math.Sqrt(2.375)+1)}},
		// means 0.5, 0.75, -0.625 corrected by 1/2, 3/4, 7/8;
		// squares 0.25, 0.4375, 1.328125 by 1/4, 7/16, 37/64
		{optimizers.Config{Kind: optimizers.Adam, Beta1: 0.5, Beta2: 0.75, Epsilon: 1},
			[3]float64{0.95, 0.9, 0.9 + 0.1*(5.0/7)/(math.Sqrt(1.328125*64/37)+1)}},
		// means 0.5, 0.75, -0.625; squares 1.75, 1.5625, 2.171875
		{optimizers.Config{Kind: optimizers.FedAdam, Beta1: 0.5, Beta2: 0.75, Epsilon: 1, Initial: 2},
			[3]float64{1 - 0.05/(math.Sqrt(1.75)+1), 1 - 0.05/(math.Sqrt(1.75)+1) - 0.075/(math.Sqrt(1.5625)+1),
				1 - 0.05/(math.Sqrt(1.75)+1) - 0.075/(math.Sqrt(1.5625)+1) + 0.0625/(math.Sqrt(2.171875)+1)}},
		// means 0.5, 0.75, -0.625; squares 4-0.25, 3.75-0.25, 3.5+0.25*4
		{optimizers.Config{Kind: optimizers.Yogi, Beta1: 0.5, Beta2: 0.75, Epsilon: 1, Initial: 4},
			[3]float64{1 - 0.05/(math.Sqrt(3.75)+1), 1 - 0.05/(math.Sqrt(3.75)+1) - 0.075/(math.Sqrt(3.5)+1),
				1 - 0.05/(math.Sqrt(3.75)+1) - 0.075/(math.Sqrt(3.5)+1) + 0.0625/(math.Sqrt(4.5)+1)}},
		// squares 0.5, 0.75, 2.375; of the steps before 0, 1/3, 1/6+8/21: the last step's
		// square is 16/21
		{optimizers.Config{Kind: optimizers.Adadelta, Beta2: 0.5, Epsilon: 1},
			[3]float64{1 - 0.1*math.Sqrt(1/1.5), 1 - 0.1*math.Sqrt(1/1.5) - 0.1*math.Sqrt((4.0/3)/1.75),
				1 - 0.1*math.Sqrt(1/1.5) - 0.1*math.Sqrt((4.0/3)/1.75) + 0.2*math.Sqrt((1+1.0/6+8.0/21)/3.375)}},
	}
	for _, c := range cases {
		o, params := mustNew(t, c.config, 1), []float32{1}
		for i, g := range []float32{1, 1, -2} {
			o.Step(params, []float32{g}, 0.1)
			if math.Abs(float64(params[0])-c.want[i]) > 1e-6 {
				t.Errorf("%+v: step %d gives %v, want %v", c.config, i+1, params[0], c.want[i])
			}
		}
	}
}

// Kingma and Ba (2015), section 2.1: the first step has the size of the rate,
// whatever the scale of the gradient.
func TestFirstAdamStepHasTheSizeOfTheRate(t *testing.T) {
	t.Parallel()
	for _, g := range []float32{1e-3, 1, -50} {
		params := []float32{0}
		mustNew(t, mustDefaults(t, optimizers.Adam), 1).Step(params, []float32{g}, 0.01)
		if got := math.Abs(float64(params[0])); math.Abs(got-0.01) > 1e-6 {
			t.Errorf("gradient %v: first step %v, want 0.01", g, got)
		}
	}
}

// A server that takes minus the mean update as gradient averages at rate 1.
func TestServerSGDAtRateOneAddsTheMeanUpdate(t *testing.T) {
	t.Parallel()
	params, update := []float32{1, -2, 0.5}, []float32{0.25, 1, -4}
	pseudo := []float32{-0.25, -1, 4}
	want := []float32{params[0] + update[0], params[1] + update[1], params[2] + update[2]}
	mustNew(t, optimizers.Config{Kind: optimizers.SGD}, 3).Step(params, pseudo, 1)
	if !slices.Equal(params, want) {
		t.Errorf("parameters %v, want %v", params, want)
	}
}

func noise(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func TestRestoredOptimizerContinuesToTheSameBytes(t *testing.T) {
	t.Parallel()
	const n = 37
	for _, kind := range optimizers.Kinds() {
		rng := rand.New(rand.NewPCG(1, 2))
		config := mustDefaults(t, kind)
		original, params := mustNew(t, config, n), noise(rng, n)
		for range 5 {
			original.Step(params, noise(rng, n), 0.1)
		}
		restored, copied := mustNew(t, config, n), slices.Clone(params)
		if err := optimizers.Restore(restored, original.State()); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		for range 5 {
			g := noise(rng, n)
			original.Step(params, g, 0.1)
			restored.Step(copied, g, 0.1)
		}
		if !slices.Equal(params, copied) {
			t.Errorf("%s: the restored optimizer went another way", kind)
		}
	}
}

func TestRestoreRejectsForeignStateUnchanged(t *testing.T) {
	t.Parallel()
	o := mustNew(t, mustDefaults(t, optimizers.Adam), 3)
	o.Step(make([]float32, 3), []float32{1, 2, 3}, 1)
	before := snapshot(o.State())
	vector := func(name string, n int) optimizers.NamedVector {
		return optimizers.NamedVector{Name: name, Values: make([]float32, n)}
	}
	cases := []struct {
		state []optimizers.NamedVector
		want  string
	}{
		{nil, "0 vectors, want 3 (mean, squares, step)"},
		{[]optimizers.NamedVector{vector("mean", 3), vector("squares", 3), vector("velocity", 1)}, `"step" is missing`},
		{[]optimizers.NamedVector{vector("mean", 3), vector("squares", 2), vector("step", 1)}, `"squares" has 2 elements, want 3`},
	}
	for _, c := range cases {
		must.Say(t, optimizers.Restore(o, c.state), c.want)
	}
	if !slices.EqualFunc(before, o.State(), func(a, b optimizers.NamedVector) bool { return slices.Equal(a.Values, b.Values) }) {
		t.Error("a refused state was restored in part")
	}
	if err := optimizers.Restore(mustNew(t, optimizers.Config{Kind: optimizers.SGD}, 3), before); err == nil {
		t.Error("SGD accepted the state of Adam")
	}
}

func snapshot(state []optimizers.NamedVector) []optimizers.NamedVector {
	var out []optimizers.NamedVector
	for _, v := range state {
		out = append(out, optimizers.NamedVector{Name: v.Name, Values: slices.Clone(v.Values)})
	}
	return out
}

func TestStepKeepsTheGradient(t *testing.T) {
	t.Parallel()
	for _, kind := range optimizers.Kinds() {
		rng := rand.New(rand.NewPCG(3, 4))
		g := noise(rng, 20)
		before := slices.Clone(g)
		mustNew(t, mustDefaults(t, kind), 20).Step(noise(rng, 20), g, 0.1)
		if !slices.Equal(g, before) {
			t.Errorf("%s changed the gradient", kind)
		}
	}
}

// A bowl with very different curvatures: every rule must find its bottom.
func TestEveryRuleDescendsABowl(t *testing.T) {
	t.Parallel()
	rates := map[optimizers.Kind]float64{
		optimizers.SGD: 0.1, optimizers.Momentum: 0.05, optimizers.Nesterov: 0.05, optimizers.Adam: 0.05,
		optimizers.RMSProp: 0.01, optimizers.Adagrad: 0.5, optimizers.Yogi: 0.05,
		optimizers.Adadelta: 1, optimizers.FedAdam: 0.05,
	}
	curvature := []float32{10, 1, 0.1}
	for _, kind := range optimizers.Kinds() {
		if rates[kind] == 0 {
			t.Errorf("there is no learning rate for %s: add one", kind)
			continue
		}
		o, params, g := mustNew(t, mustDefaults(t, kind), 3), []float32{1, -1, 1}, make([]float32, 3)
		for range 1000 {
			for i := range g {
				g[i] = curvature[i] * params[i]
			}
			o.Step(params, g, rates[kind])
		}
		for i, p := range params {
			if math.Abs(float64(p)) > 0.02 {
				t.Errorf("%s: parameter %d is %v after 1000 steps, want near 0", kind, i, p)
			}
		}
	}
}

func TestConfigurationsAreChecked(t *testing.T) {
	t.Parallel()
	cases := []struct {
		config optimizers.Config
		want   string
	}{
		{optimizers.Config{Kind: "newton"}, `optimizer "newton": expected one of sgd, momentum`},
		{optimizers.Config{}, `optimizer "": expected one of`},
		{optimizers.Config{Kind: optimizers.SGD, Momentum: 0.9}, "momentum 0.9: sgd does not use it"},
		{optimizers.Config{Kind: optimizers.RMSProp, Beta1: 0.9, Beta2: 0.9, Epsilon: 1}, "beta1 0.9: rmsprop does not use it"},
		{optimizers.Config{Kind: optimizers.Momentum, Momentum: 1}, "momentum 1: want"},
		{optimizers.Config{Kind: optimizers.Momentum, Momentum: 0.999999999}, "momentum 0.999999999: want"},
		{optimizers.Config{Kind: optimizers.Adam, Beta1: -0.1, Beta2: math.NaN(), Epsilon: 1}, "beta2 NaN: want"},
		{optimizers.Config{Kind: optimizers.Adam, Beta1: 0.9, Beta2: 0.99}, "epsilon 0: want"},
		{optimizers.Config{Kind: optimizers.Yogi, Epsilon: 1, Initial: math.Inf(1)}, "initial +Inf: want"},
	}
	for _, c := range cases {
		_, err := optimizers.New(c.config, 1)
		must.Say(t, err, c.want)
	}
	if _, err := optimizers.New(optimizers.Config{Kind: optimizers.SGD}, 0); err == nil {
		t.Error("an optimizer for no parameters")
	}
	if _, err := optimizers.Defaults("newton"); err == nil {
		t.Error("defaults of an unknown kind")
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestStepsAllocateNothing(t *testing.T) {
	params, g := make([]float32, 100), make([]float32, 100)
	for _, kind := range optimizers.Kinds() {
		o := mustNew(t, mustDefaults(t, kind), 100)
		if n := testing.AllocsPerRun(10, func() { o.Step(params, g, 0.1) }); n != 0 {
			t.Errorf("%s: %v allocations a step, want 0", kind, n)
		}
	}
}

func TestSchedulesGiveTheirRates(t *testing.T) {
	t.Parallel()
	stepWise := optimizers.Schedule{Kind: optimizers.StepWise, WarmUp: 2, Every: 10, Factor: 0.5}
	cosine := optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 4, Last: 104, Floor: 0.1}
	cases := []struct {
		schedule optimizers.Schedule
		step     int
		want     float64
	}{
		{optimizers.Schedule{}, 0, 8},
		{optimizers.Schedule{Kind: optimizers.Constant}, 1e9, 8},
		{optimizers.Schedule{WarmUp: 4}, 0, 2},
		{optimizers.Schedule{WarmUp: 4}, 3, 8},
		{optimizers.Schedule{WarmUp: 4}, 4, 8},
		{stepWise, 0, 4}, {stepWise, 1, 8}, {stepWise, 11, 8}, {stepWise, 12, 4}, {stepWise, 22, 2},
		{cosine, 1, 4}, {cosine, 4, 8}, {cosine, 54, 4.4}, {cosine, 104, 0.8}, {cosine, 1000, 0.8},
		{optimizers.Schedule{Kind: optimizers.Cosine, Last: 3}, 1, 6}, // (1 + cos 60°)/2 = 3/4
	}
	for _, c := range cases {
		if err := c.schedule.Validate(); err != nil {
			t.Errorf("%+v: %v", c.schedule, err)
		}
		if got := c.schedule.Rate(8, c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: rate %v at step %d, want %v", c.schedule, got, c.step, c.want)
		}
	}
}

func TestACosineBeginsAtTheFullRateAndEndsExactlyAtItsFloor(t *testing.T) {
	t.Parallel()
	for _, floor := range []float64{0, 0.1, 1.0 / 3, 1} {
		for _, warmUp := range []int{0, 1, 7} {
			for _, steps := range []int{warmUp + 2, warmUp + 3, warmUp + 1000} {
				s := optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: warmUp, Floor: floor}.For(steps)
				if err := s.Validate(); err != nil {
					t.Fatalf("%+v: %v", s, err)
				}
				if first, last := s.Rate(0.3, warmUp), s.Rate(0.3, steps-1); first != 0.3 || last != 0.3*floor {
					t.Errorf("%d steps, %d of warm-up, floor %v: rates %v and %v after the warm-up and at the end, want %v and %v",
						steps, warmUp, floor, first, last, 0.3, 0.3*floor)
				}
				for step := warmUp + 1; step < steps; step++ {
					if s.Rate(0.3, step) > s.Rate(0.3, step-1) {
						t.Errorf("%+v: the rate rises at step %d", s, step)
					}
				}
			}
		}
	}
}

func TestOnlyTheCosineDependsOnTheLengthOfTheTraining(t *testing.T) {
	t.Parallel()
	for _, c := range optimizers.Courses() {
		s := optimizers.Schedule{Kind: c.Kind, Every: 2, Factor: 0.5}
		if depends := s.For(10) != s.For(11); depends != (c.Kind == optimizers.Cosine) || depends != c.NeedsLength {
			t.Errorf("%s: depends on the length: %v, and its entry says %v", c.Kind, depends, c.NeedsLength)
		}
	}
}

func TestSchedulesAreChecked(t *testing.T) {
	t.Parallel()
	cases := []struct {
		schedule optimizers.Schedule
		want     string
	}{
		{optimizers.Schedule{Kind: "linear"}, `schedule "linear": expected one of constant, step, cosine`},
		{optimizers.Schedule{WarmUp: -1}, "warm_up -1: want"},
		{optimizers.Schedule{Kind: optimizers.StepWise, Factor: 0.5}, "every 0: want"},
		{optimizers.Schedule{Kind: optimizers.StepWise, Every: 3, Factor: 1.5}, "factor 1.5: want"},
		{optimizers.Schedule{Kind: optimizers.Cosine, WarmUp: 5, Last: 5}, "6 steps with a warm-up of 5: want at least 2 after"},
		{optimizers.Schedule{Kind: optimizers.Cosine, Last: 5, Floor: math.NaN()}, "floor NaN: want"},
	}
	for _, c := range cases {
		must.Say(t, c.schedule.Validate(), c.want)
	}
}
