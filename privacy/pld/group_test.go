package pld

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
)

// binomial returns the chances of 0 to k members, each in the sample with probability rate.
func binomial(k int, rate float64) []float64 {
	chances := make([]float64, k+1)
	chances[0] = 1
	for range k {
		for i := k; i > 0; i-- {
			chances[i] = chances[i]*(1-rate) + chances[i-1]*rate
		}
		chances[0] *= 1 - rate
	}
	return chances
}

func TestAGroupOfOneIsOneMember(t *testing.T) {
	t.Parallel()
	for _, s := range []Step{{0.04, 5, 100}, {0.001, 0.8, 3000}, {0.3, 2, 7}} {
		g := GroupStep{binomial(1, s.Rate), s.Sigma, s.Rounds}
		for _, of := range []struct {
			group  func(GroupStep, float64) (float64, error)
			member func([]Step, float64) (Bounds, error)
		}{{GroupEpsilon, Epsilon}, {FixedSizeGroupEpsilon, FixedSizeEpsilon}} {
			got, want := must.Get(of.group(g, 1e-6))(t), must.Get(of.member([]Step{s}, 1e-6))(t).Upper
			if math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%+v: group %v, member %v", s, got, want)
			}
		}
	}
}

// density returns the density of normal noise around 0, 1... with the chances.
func density(chances []float64, sigma, x float64) (sum float64) {
	for i, chance := range chances {
		sum += chance * math.Exp(-(x-float64(i))*(x-float64(i))/2/sigma/sigma)
	}
	return sum / sigma / math.Sqrt(2*math.Pi)
}

// integrated returns the hockey-stick divergence of p from q at epsilon, by the midpoint rule.
func integrated(p, q func(x float64) float64, low, high, epsilon float64) (sum float64) {
	const n = 6000
	for i := range n {
		x := low + (high-low)*(float64(i)+0.5)/n
		sum += math.Max(0, p(x)-math.Exp(epsilon)*q(x))
	}
	return sum * (high - low) / n
}

func TestAGroupOfOneRoundIsIntegratedDirectly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k                  int
		rate, sigma, delta float64
	}{{2, 0.1, 1, 1e-5}, {5, 0.03, 0.7, 1e-4}, {12, 0.2, 4, 1e-6}, {40, 0.02, 3, 1e-3}} {
		chances := binomial(c.k, c.rate)
		got := must.Get(GroupEpsilon(GroupStep{chances, c.sigma, 1}, c.delta))(t)
		with := func(x float64) float64 { return density(chances, c.sigma, x) }
		without := func(x float64) float64 { return density([]float64{1}, c.sigma, x) }
		reach := 12 * c.sigma
		removed := integrated(with, without, -reach, float64(c.k)+reach, got)
		added := integrated(without, with, -reach, float64(c.k)+reach, got)
		if most := math.Max(removed, added); most > c.delta*(1+1e-5) || most < c.delta*(1-1e-3) {
			t.Errorf("%+v: epsilon %v has delta %v removed, %v added", c, got, removed, added)
		}
	}
}

// The likelihood ratio test of one group whose members send equal updates is as good as the bound: its
// delta, over 20 rounds, is that of the bound within 4 standard errors (a false alarm in 16,000).
func TestTheLikelihoodRatioAttainsTheBoundOfAGroup(t *testing.T) {
	t.Parallel()
	const rounds, sigma, delta, draws = 20, 2.0, 0.02, 10_000
	chances := binomial(6, 0.1)
	epsilon := must.Get(GroupEpsilon(GroupStep{chances, sigma, rounds}, delta))(t)
	random := rand.New(rand.NewPCG(1, 2))
	sum, squares := 0.0, 0.0
	for range draws {
		loss := 0.0
		for range rounds {
			x := sigma * random.NormFloat64()
			for range 6 {
				if random.Float64() < 0.1 {
					x++
				}
			}
			loss += math.Log(density(chances, sigma, x) / density([]float64{1}, sigma, x))
		}
		excess := math.Max(0, -math.Expm1(epsilon-loss))
		sum, squares = sum+excess, squares+excess*excess
	}
	mean := sum / draws
	if err := math.Sqrt((squares/draws - mean*mean) / draws); math.Abs(mean-delta) > 4*err {
		t.Errorf("at epsilon %v the test has delta %v (standard error %v), want %v", epsilon, mean, err, delta)
	}
}

// Samples of 2 of 5 users, of whom 2 are replaced: no data whose updates are at most 1 exceed delta.
func TestNoDataExceedTheBoundOfAReplacedGroup(t *testing.T) {
	t.Parallel()
	chances, random := []float64{0.3, 0.6, 0.1}, rand.New(rand.NewPCG(3, 4))
	for _, sigma := range []float64{0.5, 1.5, 4} { // the distance of a replacement is 2
		for _, delta := range []float64{0.2, 0.03, 1e-3} {
			bound := must.Get(FixedSizeGroupEpsilon(GroupStep{chances, sigma / 2, 1}, delta))(t)
			for n := range 12 {
				before, after := make([]float64, 5), make([]float64, 5)
				for i := range before {
					before[i], after[i] = 2*random.Float64()-1, 2*random.Float64()-1
					if n < 6 { // extreme data
						before[i], after[i] = float64(2*random.IntN(2)-1), float64(2*random.IntN(2)-1)
					}
					if i >= 2 {
						after[i] = before[i]
					}
				}
				switch n {
				case 0:
					before, after = []float64{1, 1, -1, -1, -1}, []float64{-1, -1, -1, -1, -1}
				case 1:
					before, after = []float64{1, 1, 0, 0, 0}, []float64{-1, -1, 0, 0, 0}
				}
				if got := integrated(ofPairs(before, sigma), ofPairs(after, sigma), -2-12*sigma, 2+12*sigma, bound); got > delta*(1+1e-5) {
					t.Errorf("sigma %v: %v and %v have delta %v at epsilon %v, want at most %v", sigma, before, after, got, bound, delta)
				}
			}
		}
	}
}

// ofPairs returns the density of the noisy sum of two random users.
func ofPairs(users []float64, sigma float64) func(x float64) float64 {
	return func(x float64) (sum float64) {
		for i := range users {
			for j := range i {
				sum += density([]float64{1}, sigma, x-users[i]-users[j]) / 10
			}
		}
		return sum
	}
}

func TestLargerGroupsCostMore(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(GroupStep, float64) (float64, error){"poisson": GroupEpsilon, "fixed size": FixedSizeGroupEpsilon} {
		last := 0.0
		for _, k := range []int{1, 2, 3, 6, 12, 24, 200} {
			got := must.Get(of(GroupStep{binomial(k, 0.01), 3, 300}, 1e-6))(t)
			if !(got > last) || math.IsInf(got, 1) {
				t.Errorf("%s: %d members cost %v, fewer %v", name, k, got, last)
			}
			last = got
		}
		if got := must.Get(of(GroupStep{binomial(400, 0.5), 3, 300}, 1e-6))(t); !math.IsInf(got, 1) {
			t.Errorf("%s: 200 members in a sample cost %v, want no bound", name, got)
		}
	}
}

// A group costs at least as much as one of its data sets, in which all others send the opposite.
func TestReplacingAGroupCostsNoLessThanRemovingIt(t *testing.T) {
	t.Parallel()
	for _, c := range []GroupStep{{binomial(3, 0.1), 0.5, 5}, {binomial(8, 0.02), 2, 1000}, {[]float64{0, 0.5, 0.5}, 3, 10}} {
		replaced, removed := must.Get(FixedSizeGroupEpsilon(c, 1e-5))(t), must.Get(GroupEpsilon(c, 1e-5))(t)
		if replaced < removed*(1-1e-5) || replaced > 1.5*removed {
			t.Errorf("%+v: replaced %v, removed %v", c, replaced, removed)
		}
	}
}

func TestImpossibleGroupsAreErrors(t *testing.T) {
	t.Parallel()
	good := GroupStep{[]float64{0.5, 0.5}, 1, 1}
	for _, c := range []struct {
		step  GroupStep
		delta float64
	}{{good, 0}, {good, 1}, {GroupStep{nil, 1, 1}, 0.1}, {GroupStep{good.Chances, 0, 1}, 0.1}, {GroupStep{good.Chances, 1, 0}, 0.1}} {
		if _, err := GroupEpsilon(c.step, c.delta); err == nil {
			t.Errorf("%+v, delta %v: no error", c.step, c.delta)
		}
	}
}
