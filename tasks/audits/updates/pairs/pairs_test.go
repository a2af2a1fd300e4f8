package pairs

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/lists"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/tasks/audits"
)

// The example of average_precision_score and of roc_auc_score in scikit-learn's
// documentation, as pairs.
func TestMeasureMatchesScikitLearn(t *testing.T) {
	t.Parallel()
	m, err := Measure([]Pair{{1, 2, 0.1}, {1, 3, 0.4}, {1, 1, 0.35}, {2, 2, 0.8}}, 1, 0)
	if err != nil || m.Users != 2 || math.Abs(m.AP.Value-0.8333333333) > 1e-9 || m.AUC.Value != 0.75 || m.Pairs != 4 || m.Same != 2 {
		t.Errorf("measurement %+v, want 2 users, an average precision of 0.83 and an area of 0.75", m)
	}
}

// byDefinition goes through all thresholds and all pairs of pairs; a pair counts as often
// as its weight says.
func byDefinition(pairs []Pair, weigh func(*Pair) float64) (ap, auc float64) {
	thresholds := []float64{}
	for _, p := range pairs {
		thresholds = append(thresholds, p.Score)
	}
	slices.Sort(thresholds)
	thresholds = slices.Compact(thresholds)
	slices.Reverse(thresholds)
	count := func(fits func(*Pair) bool) (n float64) {
		for i := range pairs {
			if fits(&pairs[i]) {
				n += weigh(&pairs[i])
			}
		}
		return n
	}
	all, before := count((*Pair).same), 0.0
	for _, at := range thresholds {
		hits := count(func(p *Pair) bool { return p.same() && p.Score >= at })
		taken := count(func(p *Pair) bool { return p.Score >= at })
		if hits > before {
			ap += (hits - before) / all * (hits / taken)
		}
		before = hits
	}
	var above, of float64
	for i := range pairs {
		for j := range pairs {
			p, q := &pairs[i], &pairs[j]
			if p.same() && !q.same() {
				w := weigh(p) * weigh(q)
				of += w
				if p.Score > q.Score {
					above += w
				} else if p.Score == q.Score {
					above += w / 2
				}
			}
		}
	}
	return ap, above / of
}

func TestRankingFollowsTheDefinitions(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 5))
	for range 200 {
		pairs := []Pair{{0, 0, 1}, {0, 1, 1}}
		for range rng.IntN(30) {
			pairs = append(pairs, Pair{int32(rng.IntN(3)), int32(rng.IntN(3)), float64(rng.IntN(6))})
		}
		slices.SortFunc(pairs, func(a, b Pair) int { return int(b.Score - a.Score) })
		weights := []float64{1, float64(rng.IntN(3)), float64(rng.IntN(3))}
		weigh := func(p *Pair) float64 {
			if p.same() {
				return weights[p.A]
			}
			return weights[p.A] * weights[p.B]
		}
		// One more pair of each kind stands first, and last.
		e := ends{first: mass{float64(rng.IntN(2)), rng.Float64()}, last: mass{1, 1 + rng.Float64()}}
		weighted := lists.Map(pairs, func(p Pair) float64 { return weigh(&p) })
		all, count := total(pairs, weighted, e), total(pairs, unweighted(pairs), ends{})
		ap, auc := rank(pairs, weighted, e, count)
		ratio := count.others / all.others * (all.same / count.same)
		more := append(slices.Clone(pairs), Pair{7, 7, 9}, Pair{7, 8, 9}, Pair{9, 9, -9}, Pair{8, 9, -9})
		wantAP, wantAUC := byDefinition(more, func(p *Pair) (w float64) {
			switch at := slices.Index(more[len(pairs):], *p); at {
			case 0, 1, 2, 3:
				w = []float64{e.first.same, e.first.others, e.last.same, e.last.others}[at]
			default:
				w = weigh(p)
			}
			if !p.same() {
				w *= ratio
			}
			return w
		})
		if math.Abs(ap-wantAP) > 1e-12 || math.Abs(auc-wantAUC) > 1e-12 && !math.IsNaN(wantAUC) {
			t.Fatalf("%v with weights %v: %v and %v, want %v and %v", pairs, weights, ap, auc, wantAP, wantAUC)
		}
	}
}

// If an attack separates all pairs, the upper ends are exactly 1 for any rounding of the weights.
func TestNoIntervalEndsAboveOne(t *testing.T) {
	t.Parallel()
	var pairs []Pair
	for user := range int32(18) {
		pairs = append(pairs, Pair{user, user, 1}, Pair{user, (user + 1) % 18, 0})
	}
	for number := range 20 {
		if m, err := Measure(pairs, 1, number); err != nil || m.AP.High != 1 || m.AUC.High != 1 || m.AP.Value != 1 || m.AUC.Value != 1 {
			t.Errorf("measurement %+v (%v)", m, err)
		}
	}
}

// Users whose pairs are told as well as all others give intervals that are little wider than the
// share of 20 users that may never have been seen, 1 - 0.025^(1/20) = 17%; users that differ give
// wider ones, though the pairs are as many.
func TestIntervalsWidenWithDifferencesBetweenUsers(t *testing.T) {
	t.Parallel()
	width := func(ofUser func(user int) float64) float64 {
		rng := rand.New(rand.NewPCG(1, 1))
		var pairs []Pair
		for i := range 4000 {
			user := int32(i % 20)
			pairs = append(pairs, Pair{user, user, rng.NormFloat64() + ofUser(int(user))}, Pair{user, (user + 1 + int32(rng.IntN(19))) % 20, rng.NormFloat64()})
		}
		m, err := Measure(pairs, 1, 0)
		if err != nil || m.AUC.Low > m.AUC.Value || m.AUC.High < m.AUC.Value || m.AP.Low > m.AP.Value || m.AP.High < m.AP.Value {
			t.Errorf("measurement %+v outside of its interval", m)
		}
		return m.AUC.High - m.AUC.Low
	}
	alike := width(func(int) float64 { return 1 })
	apart := width(func(user int) float64 { return 2 * float64(user%2) })
	if alike > 0.22 || apart < 1.2*alike {
		t.Errorf("the interval is %v wide with users alike, %v with users apart", alike, apart)
	}
}

// Three users, told without an error, are too few to tell anything, however many others only take part in pairs of
// two. A perfect score of n users has the lower end 0.025^(1/n) of its AUC, were all pairs of two seen.
func TestIntervalsCountUsersWithSamePairsOnly(t *testing.T) {
	t.Parallel()
	var pairs []Pair
	for a := range int32(3) {
		for b := range int32(30) {
			if first, second := a, b; a != b {
				if b%2 == 0 {
					first, second = b, a
				}
				pairs = append(pairs, Pair{a, a, 1}, Pair{first, second, 0})
			}
		}
	}
	m := must.Get(Measure(pairs, 1, 0))(t)
	if m.Users != 3 || m.AUC.Low > math.Pow(0.025, 1./3)+0.03 || m.AP.Low > Chance || m.Few() == "" {
		t.Errorf("three users with pairs of their own among 30: %+v", m)
	}
}

// A score that is NaN has no place in a ranking: it is named, and nothing waits for its end.
func TestScoresThatAreNaNAreNamed(t *testing.T) {
	t.Parallel()
	pairs := func() []Pair { return []Pair{{1, 1, 2}, {3, 4, math.NaN()}, {1, 2, 0}} }
	want := "the score of two updates, of users 3 and 4, is NaN; expected a number: the attack's network has diverged, or the updates have"
	if _, err := Measure(pairs(), 1, 0); err == nil || err.Error() != want {
		t.Errorf("measure: error %v, want %s", err, want)
	}
	if _, err := AveragePrecision(pairs()); err == nil || err.Error() != want {
		t.Errorf("average precision: error %v, want %s", err, want)
	}
}

// Where there is nothing to find, weights alone find nothing: the mean over resamples of the
// average precision, without an unseen user, is at most a little above that of the pairs, though
// weights of 5 users spread their pairs of one user, and not those of two, over few users.
func TestPairsOfFewUsersAreNotFoundByTheirWeights(t *testing.T) {
	t.Parallel()
	var pairs []Pair
	for i := range 5 {
		for j := range 5 {
			if i == j {
				pairs = append(pairs, slices.Repeat([]Pair{{int32(i), int32(i), 0}}, 4)...)
				continue
			}
			pairs = append(pairs, Pair{int32(i), int32(j), 0})
		}
	}
	for _, weights := range [][]float64{{1, 1, 1, 1, 1}, {9, 1, 1, 1, 1}, {0, 0, 1, 1, 8}} {
		m := Measurement{Pairs: len(pairs), Same: 20}
		weigh := make([]float64, len(pairs))
		m.weights(append(slices.Clone(weights), 0), pairs, weigh)
		if ap, auc := rank(pairs, weigh, ends{}, total(pairs, unweighted(pairs), ends{})); math.Abs(ap-0.5) > 1e-12 || math.Abs(auc-0.5) > 1e-12 {
			t.Errorf("weights %v: AP %v and AUC %v of pairs of one score, want 0.5", weights, ap, auc)
		}
	}
}

// A plan asks for each cell whether its users suffice for any find: a simulated audit takes milliseconds, and the
// first find decides.
func TestFirstSimulatedFindShowsThatUsersSuffice(t *testing.T) {
	t.Parallel()
	simulated := 0
	power := audits.Simulated(trials, 0, func([]int, float64) func(*rand.Rand) bool {
		return func(*rand.Rand) bool { simulated++; return simulated > 2 }
	}, func([]int, float64) func(bool) bool {
		return func(found bool) bool { return found }
	})
	if why := none(10, power); why != "" || simulated != 3 {
		t.Errorf("%q after %d simulated audits, of which the third is a find", why, simulated)
	}
	never := func(audits.Question) float64 { return 0 }
	if why := none(10, never); why == "" {
		t.Error("no sentence for users of whom no audit finds anything")
	}
}

func TestPairsAreOfBothKindsAndOfTwoRounds(t *testing.T) {
	t.Parallel()
	rng := seeds.Stream(1, seeds.UpdatePairs, 0)
	for range 100 {
		list := func(n int) (all []Update) {
			for range n {
				all = append(all, Update{int32(rng.IntN(4)), int32(rng.IntN(5))})
			}
			return all
		}
		a, b := list(1+rng.IntN(8)), list(1+rng.IntN(8))
		c, err := Draw(&Side{Of: a}, &Side{Of: b}, 20, rng)
		if err != nil {
			possible := slices.ContainsFunc(a, func(u Update) bool {
				return slices.ContainsFunc(b, func(v Update) bool { return v.User == u.User && v.Round != u.Round }) &&
					slices.ContainsFunc(b, func(v Update) bool { return v.User != u.User && v.Round != u.Round })
			})
			if possible {
				t.Fatalf("pairs of %v and %v: %v", a, b, err)
			}
			continue
		}
		if len(c.Drawn) != 20 {
			t.Fatalf("%d pairs", len(c.Drawn))
		}
		for i, d := range c.Drawn {
			if a[d.A].Round == b[d.B].Round || (a[d.A].User == b[d.B].User) != d.Same || d.Same != (i%2 == 0) {
				t.Errorf("pair %+v of %v and %v", d, a[d.A], b[d.B])
			}
		}
	}
}

// Every pair of one user is drawn about as often as any other. The counts are binomial;
// five standard deviations are passed with probability 6e-7 each.
func TestPairsAreDrawnUniformly(t *testing.T) {
	t.Parallel()
	list := &Side{Of: []Update{{0, 1}, {0, 2}, {1, 1}, {1, 3}, {2, 2}}}
	const n = 40_000
	c := must.Get(Draw(list, list, n, seeds.Stream(1, seeds.UpdatePairs, 1)))(t)
	counts := map[IndexPair]int{}
	for _, d := range c.Drawn {
		counts[d]++
	}
	for _, d := range []IndexPair{{0, 1, true}, {1, 0, true}, {2, 3, true}, {3, 2, true}} {
		if p := 0.25; math.Abs(float64(counts[d])-p*n/2) > 5*math.Sqrt(p*(1-p)*n/2) {
			t.Errorf("%+v was drawn %d times of %d", d, counts[d], n/2)
		}
	}
}

// The definition: of every threshold the precision and the recall, and for each step the first
// threshold, from above, that reaches it.
func TestCurveMatchesDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	for range 200 {
		var pairs []Pair
		for range 2 + rng.IntN(40) {
			pairs = append(pairs, Pair{A: int32(rng.IntN(3)), B: int32(rng.IntN(3)), Score: float64(rng.IntN(6))})
		}
		pairs[0].B = pairs[0].A
		steps := 1 + rng.IntN(12)
		var want []float64
		for step := 1; step <= steps; step++ {
			for threshold := 5.0; len(want) < step; threshold-- {
				above, found, all := 0, 0, 0
				for _, p := range pairs {
					if p.A == p.B {
						all++
					}
					if p.Score >= threshold {
						above++
						if p.A == p.B {
							found++
						}
					}
				}
				if found*steps >= step*all {
					want = append(want, float64(found)/float64(above))
				}
			}
		}
		if got := Curve(pairs, steps); !slices.Equal(got, want) {
			t.Fatalf("curve %v, want %v", got, want)
		}
	}
	if got := Curve([]Pair{{A: 1, B: 2}}, 3); got != nil {
		t.Errorf("without a pair of one user %v", got)
	}
}

func TestLearnedWarnsOfTrainingEndedByLastEpoch(t *testing.T) {
	t.Parallel()
	for best, want := range map[int]string{
		3: "stopped by 5 users after epoch 3 of 3 (its training ended with its last epoch, 3: more may tell more)",
		2: "stopped by 5 users after epoch 2 of 3",
	} {
		l := &Learned{ValidationUsers: 5, Course: make([]Epoch, 3), Best: best}
		if got := l.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The intervals are over users alone; they say so unless networks from other initial values are measured.
func TestLearnedReportsSpreadOfInitialValues(t *testing.T) {
	t.Parallel()
	l := &Learned{}
	if got, want := l.Chance("audit.matching"), "the intervals hold the chance of users, not that of the network's initial values: audit.matching.networks above 1 measures it"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	l.Networks = audits.NewEstimate([]float64{0.5, 0.6, 0.7})
	if got, want := l.Chance("audit.matching"), "; AP of anonymous pairs by 3 networks from other initial values 60.0, standard deviation 10.0, 95% interval of the networks' mean 35.2 to 84.8"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	l.Networks = audits.NewEstimate([]float64{0.9, 0.99, 1})
	if got := l.Chance("audit.matching"); !strings.HasSuffix(got, "mean 82.7 to 100.0") {
		t.Errorf("an average precision of more than 1: %q", got)
	}
}

// Reversed scores mirror an interval of the AUC at 1/2. The unseen user has w/n of the pairs of one user, and 2w/n^2 of
// those of two.
func TestUnseenUserKeepsIntervalsSymmetric(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	var up, down []Pair
	for i := range int32(60) {
		p := Pair{i % 4, i % 4, rng.NormFloat64() + 1}
		if i%2 == 0 {
			p = Pair{i % 4, (i + 1) % 4, rng.NormFloat64()}
		}
		up, down = append(up, p), append(down, Pair{p.A, p.B, -p.Score})
	}
	a, b := must.Get(Measure(up, 1, 0))(t), must.Get(Measure(down, 1, 0))(t)
	if math.Abs(a.AUC.High+b.AUC.Low-1) > 1e-12 || math.Abs(a.AUC.Low+b.AUC.High-1) > 1e-12 {
		t.Errorf("AUC %+v, reversed %+v", a.AUC, b.AUC)
	}
	m := Measurement{Pairs: 14, Same: 6, Users: 2}
	weigh := make([]float64, 2)
	if got := m.weights([]float64{0.5, 0.3, 0.2}, []Pair{{0, 0, 1}, {0, 1, 1}}, weigh); math.Abs(got.same-0.6) > 1e-15 || math.Abs(got.others-0.8) > 1e-15 || weigh[0] != 0.5 || math.Abs(weigh[1]-0.3) > 1e-15 {
		t.Errorf("unseen %+v, weights %v", got, weigh)
	}
	if got := simulate(10_000, 3, 0.7, rng).Pairs; got != pairsOfUser*3 {
		t.Errorf("%d pairs of three users are simulated", got)
	}
}
