package replay

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/privacy"
)

// Claim is the mechanism that a training is accounted for.
type Claim struct {
	// NoiseMultiplier is the deviation of the noise in clip norms, above 0.
	NoiseMultiplier float64
	// Sampling draws cohorts of Cohort members, the mean under Poisson sampling, from Population
	// members. Separation and Participations are as in privacy.Round.
	Sampling                   privacy.Sampling
	Population, Cohort         int
	Separation, Participations int
}

// Sensitivity is the largest distance between the sums on Whole and on Inside, which lacks a
// member, in clip norms.
const Sensitivity = 1.0

// Test is a family of equal tests.
type Test struct {
	Name string `json:"name"`
	// Of names the member of the least p-value, if the family has several.
	Of string `json:"of,omitempty"`
	// Tests is the number of members.
	Tests int `json:"tests" doc:"number of tests in the family"`
	// Statistic of the member, and the parameter of its distribution: degrees of freedom or trials.
	Statistic float64 `json:"statistic" doc:"statistic of the test with the least p-value"`
	Freedom   int     `json:"freedom,omitempty" doc:"degrees of freedom or trials"`
	// Rate is the success probability of a trial, if Statistic is a count.
	Rate float64 `json:"rate,omitempty" doc:"success probability of a trial"`
	// P is the least p-value times Tests, at most 1.
	P float64 `json:"p" doc:"least p-value of the family times its number of tests, at most 1"`
}

// Multiplier is a measured noise multiplier.
type Multiplier struct {
	// Part is the name of the part measured.
	Part string `json:"part"`
	// Measured lies within Low and High with 95% confidence, over all parts.
	Measured float64 `json:"measured" doc:"measured noise multiplier"`
	Low      float64 `json:"low" doc:"lower end of the 95% interval of the noise multiplier"`
	High     float64 `json:"high" doc:"upper end of the 95% interval of the noise multiplier"`
	// Squares is the sum of Values squares, in units of the claimed variance; Parts is the number of parts.
	Squares float64 `json:"squares" doc:"sum of the squared noise values, in units of the claimed variance"`
	Values  int     `json:"values" doc:"number of values"`
	Parts   int     `json:"parts" doc:"number of parts"`
}

// Finding is the result of observations about a claim.
type Finding struct {
	// Sensitivity is the largest move by a member in the cohort, Outside the largest by a member
	// outside it, in clip norms; Moves counts the moves by members in the cohort.
	Sensitivity float64 `json:"sensitivity" doc:"largest move by a member of the cohort, in clip norms"`
	Outside     float64 `json:"outside" doc:"largest move by a member outside the cohort, in clip norms"`
	Moves       int     `json:"moves" doc:"number of measured moves of a release by leaving out a member of the cohort"`
	// Noise is the noise multiplier of the part with the lowest upper limit, divided by the
	// sensitivity if that exceeds the claimed one.
	Noise Multiplier `json:"noise" doc:"of the part with the lowest upper limit"`
	// P is the least p-value of all tests times their number, By the name of the test.
	P  float64 `json:"p" doc:"least p-value of the tests of the claim, times the number of tests"`
	By string  `json:"by"`
	// Refuted reports whether P is at most FalseAlarm.
	Refuted    bool    `json:"refuted"`
	FalseAlarm float64 `json:"false_alarm" doc:"largest p at which the claim is refuted"`
	Tests      []Test  `json:"tests"`
}

// Names of tests.
const (
	SensitivityTest   = "sensitivity"
	OutsideTest       = "members outside the cohort"
	NoiseTest         = "noise"
	WholeTest         = "noise with and without the member"
	PartsTest         = "noise of parts"
	ElementsTest      = "noise of elements"
	AlongTest         = "noise along the move"
	DirectionsTest    = "noise along random directions"
	ShiftTest         = "mean along the move"
	RoundsTest        = "successive rounds"
	RepeatedTest      = "repeated noise"
	CopiesTest        = "repeated elements"
	NeighboursTest    = "neighbouring elements"
	SharedTest        = "noise shared by parts"
	CohortTest        = "cohort sizes"
	EqualTest         = "equal cohort sizes"
	OverlapTest       = "cohorts in common"
	ParticipationTest = "participations"
)

// Tolerance is the allowance for rounding in sums of float32, in clip norms.
const Tolerance = 1e-3

// Examine tests the observations against a claim, so that a right training is refuted with a probability
// of at most falseAlarm. So is one with more noise than claimed, in all elements or in some.
func Examine(c Claim, o *Observations, falseAlarm float64) Finding {
	f := Finding{FalseAlarm: falseAlarm}
	f.sensitivity(o)
	x := examiner{c, o, o.parts()}
	f.Tests = append(f.Tests, x.scales()...)
	f.Tests = append(f.Tests, x.dependence()...)
	f.Tests = append(f.Tests, x.cohorts()...)
	f.Noise = x.multiplier(f.Sensitivity)
	f.P = 1
	for _, t := range f.Tests {
		if p := t.P * float64(len(f.Tests)); p < f.P {
			f.P, f.By = p, t.Name
		}
	}
	f.Refuted = f.P <= falseAlarm
	return f
}

// sensitivity is exact: a p-value of 0 or 1.
func (f *Finding) sensitivity(o *Observations) {
	for _, m := range o.Moves {
		if m.Outside {
			f.Outside = max(f.Outside, m.Norm)
			continue
		}
		f.Sensitivity = max(f.Sensitivity, m.Norm)
		f.Moves++
	}
	exact := func(name string, tests int, moved, most float64) Test {
		t := Test{Name: name, Tests: tests, Statistic: moved, P: 1}
		if !(moved <= most+Tolerance) {
			t.P = 0
		}
		return t
	}
	f.Tests = append(f.Tests, exact(SensitivityTest, f.Moves, f.Sensitivity, Sensitivity), exact(OutsideTest, len(o.Moves)-f.Moves, f.Outside, 0))
}

type span struct {
	Columns
	first int
}

func (o *Observations) parts() (list []span) {
	first := 0
	for _, p := range o.Parts {
		list = append(list, span{p, first})
		first += p.Count
	}
	return list
}

type examiner struct {
	claim Claim
	seen  *Observations
	parts []span
}

// family returns a Test without members.
func family(name string) *Test { return &Test{Name: name, P: 2} }

func (t *Test) add(member string, statistic float64, freedom int, p float64) {
	t.Tests++
	if p < t.P {
		t.Of, t.Statistic, t.Freedom, t.P = member, statistic, freedom, p
	}
}

// end multiplies the p-value by the number of members.
func (t *Test) end() Test {
	t.P = min(1, t.P*float64(max(1, t.Tests)))
	if t.Tests == 1 {
		t.Of = ""
	}
	return *t
}

func (x *examiner) squares(rows func(i int) bool, first, count int) (sum float64, values int) {
	for i, row := range x.seen.Noise {
		if rows == nil || rows(i) {
			sum += dot(row[first:first+count], row[first:first+count])
			values += count
		}
	}
	return sum, values
}

func (x *examiner) width() int {
	last := x.parts[len(x.parts)-1]
	return last.first + last.Count
}

// scales tests sums of squares of the noise against the claimed deviation.
func (x *examiner) scales() []Test {
	scale := func(t *Test, member string, sum float64, values int) {
		if values > 0 {
			t.add(member, sum, values, belowChiSquare(sum, float64(values)))
		}
	}
	all, data, parts, elements, along, directions, shift := family(NoiseTest), family(WholeTest), family(PartsTest),
		family(ElementsTest), family(AlongTest), family(DirectionsTest), family(ShiftTest)
	sum, values := x.squares(nil, 0, x.width())
	scale(all, "", sum, values)
	for _, whole := range []bool{true, false} {
		sum, values := x.squares(func(i int) bool { return x.seen.Whole[i] == whole }, 0, x.width())
		scale(data, map[bool]string{true: "with", false: "without"}[whole], sum, values)
	}
	for _, p := range x.parts {
		sum, values := x.squares(nil, p.first, p.Count)
		scale(parts, p.Name, sum, values)
		for i := range p.Count {
			sum, values := x.squares(nil, p.first+i, 1)
			scale(elements, fmt.Sprintf("%s, kept element %d", p.Name, i), sum, values)
		}
	}
	for j := range randomDirections {
		sum := 0.0
		direction := randomSigns(j, x.width())
		for _, row := range x.seen.Noise {
			projected := dot(row, direction)
			sum += float64(projected*projected) / float64(len(row))
		}
		scale(directions, fmt.Sprint(j), sum, len(x.seen.Noise))
	}
	if len(x.seen.Along) >= fewest {
		scale(along, "", dot(x.seen.Along, x.seen.Along), len(x.seen.Along))
	}
	if size := norm(x.seen.Along); size > 0 {
		total := 0.0
		for _, a := range x.seen.Along {
			total += a
		}
		total /= size
		shift.add("", total, len(x.seen.Along), unbalanced(total))
	}
	return ended(all, data, parts, elements, along, directions, shift)
}

// ended leaves out quantities that could not be tested.
func ended(families ...*Test) (list []Test) {
	for _, t := range families {
		if t.Tests > 0 {
			list = append(list, t.end())
		}
	}
	return list
}

const randomDirections = 16

// fewest is the least number of values along moves that are tested: discrete noise may be 0 in fewer.
const fewest = 8

// randomSigns draws n values of +1 or -1 from a fixed generator.
func randomSigns(j, n int) []float64 {
	rng := rand.New(rand.NewPCG(uint64(j), uint64(n)))
	return lists.Make(n, func(int) float64 { return float64(2*rng.IntN(2) - 1) })
}

// signs has a bit for each positive, and one for each negative element of a vector.
type signs struct{ positive, negative []uint64 }

func signsOf(vector []float64) signs {
	s := signs{make([]uint64, (len(vector)+63)/64), make([]uint64, (len(vector)+63)/64)}
	for i, v := range vector {
		if v > 0 {
			s.positive[i/64] |= 1 << (i % 64)
		} else if v < 0 {
			s.negative[i/64] |= 1 << (i % 64)
		}
	}
	return s
}

// compare returns the number of elements that are 0 in neither vector, the number of equal signs among them, and the
// p-value of that.
func (s signs) compare(other signs) (equal, both int, p float64) {
	for i, positive := range s.positive {
		same := bits.OnesCount64(positive&other.positive[i] | s.negative[i]&other.negative[i])
		equal += same
		both += same + bits.OnesCount64(positive&other.negative[i]|s.negative[i]&other.positive[i])
	}
	return equal, both, counted(equal, both, 0.5)
}

// copies is the number of columns that are compared with each other.
const copies = 2048

// dependence tests rounds, elements and parts for shared noise. Compared vectors share no draw if the claim is true, so
// their signs are equal with probability 1/2, also if deviations are above the claim, and differ.
func (x *examiner) dependence() []Test {
	successive, shared, neighbours := family(RoundsTest), family(SharedTest), family(NeighboursTest)
	repeated, copied := family(RepeatedTest), family(CopiesTest)
	for _, t := range []*Test{successive, repeated, copied, neighbours, shared} {
		t.Rate = 0.5
	}
	compare := func(t *Test, member string, a, b []float64) {
		if equal, both, p := signsOf(a).compare(signsOf(b)); both > 0 {
			t.add(member, float64(equal), both, p)
		}
	}
	rows := x.seen.Noise
	var odd, even []float64
	for i := 0; i+1 < len(rows); i += 2 {
		odd, even = append(odd, rows[i]...), append(even, rows[i+1]...)
	}
	compare(successive, "", odd, even)
	repeated.pairs(lists.Make(len(rows), func(i int) signs { return signsOf(rows[i]) }), "rounds")
	n := min(copies, x.width())
	copied.pairs(lists.Make(n, func(i int) signs { return signsOf(x.block(i*x.width()/n, 1)) }), "elements")
	for i, p := range x.parts {
		a, b := x.pairs(p)
		compare(neighbours, p.Name, a, b)
		for _, q := range x.parts[:i] {
			n := min(p.Lead, q.Lead)
			compare(shared, q.Name+" and "+p.Name, x.block(q.first, n), x.block(p.first, n))
		}
	}
	return ended(successive, repeated, copied, neighbours, shared)
}

// pairs adds all pairs of vectors.
func (t *Test) pairs(vectors []signs, of string) {
	for j, later := range vectors {
		for i, earlier := range vectors[:j] {
			switch equal, both, p := earlier.compare(later); {
			case p < t.P && both > 0:
				t.add(fmt.Sprintf("%s %d and %d", of, i+1, j+1), float64(equal), both, p)
			case both > 0:
				t.Tests++
			}
		}
	}
}

// block returns some columns of all rows.
func (x *examiner) block(first, count int) (values []float64) {
	for _, row := range x.seen.Noise {
		values = append(values, row[first:first+count]...)
	}
	return values
}

// pairs returns the even columns of a part and the odd column after each.
func (x *examiner) pairs(p span) (even, odd []float64) {
	for _, row := range x.seen.Noise {
		for i := 0; i+1 < p.Count; i += 2 {
			even, odd = append(even, row[p.first+i]), append(odd, row[p.first+i+1])
		}
	}
	return even, odd
}

func (x *examiner) cohorts() []Test {
	switch x.claim.Sampling {
	case privacy.Poisson:
		return x.poisson()
	case privacy.FixedSize:
		return append([]Test{x.sizes()}, ended(x.overlap(), x.participations())...)
	case privacy.Shuffled:
		epoch := x.claim.Population / max(1, x.claim.Cohort)
		return []Test{x.sizes(), x.apart(func(earlier, later int) bool { return earlier/epoch != later/epoch }, 0)}
	case privacy.Separated:
		return []Test{x.sizes(), x.apart(func(earlier, later int) bool { return later-earlier >= x.claim.Separation }, x.claim.Participations)}
	case privacy.NoSampling:
	}
	return nil
}

func (x *examiner) poisson() []Test {
	n, q := x.claim.Population, float64(x.claim.Cohort)/float64(x.claim.Population)
	sizes, equal := family(CohortTest), family(EqualTest)
	total, pairs, same := 0, 0, 0
	for i, cohort := range x.seen.Cohorts {
		total += len(cohort)
		if i%2 == 1 {
			pairs++
			if len(cohort) == len(x.seen.Cohorts[i-1]) {
				same++
			}
		}
	}
	trials := n * len(x.seen.Cohorts)
	sizes.Rate, equal.Rate = q, equalSizes(n, q)
	sizes.add("", float64(total), trials, counted(total, trials, q))
	equal.add("", float64(same), pairs, exceeded(same, pairs, equal.Rate))
	return ended(sizes, equal, x.overlap(), x.participations())
}

// sizes tests exactly that every cohort has the claimed size.
func (x *examiner) sizes() Test {
	t := Test{Name: CohortTest, Tests: 1, Statistic: float64(x.claim.Cohort), P: 1}
	for _, cohort := range x.seen.Cohorts {
		if len(cohort) != x.claim.Cohort {
			t.Statistic, t.P = float64(len(cohort)), 0
		}
	}
	return t
}

// overlap counts the members that rounds of a distance have in common. Pairs of rounds are divided in two, so that no
// round is the first of one pair and the second of another. Given the first cohort of a pair, each of its members
// is in the second with the probability of any member.
func (x *examiner) overlap() *Test {
	const most = 256
	t := family(OverlapTest)
	t.Rate = float64(x.claim.Cohort) / float64(x.claim.Population)
	for apart := 1; apart < len(x.seen.Cohorts); apart++ {
		var trials, common [2]int
		for i, later := range x.seen.Cohorts[apart:] {
			earlier, half := x.seen.Cohorts[i], i/apart%2
			earlier = earlier[:min(most, len(earlier))]
			trials[half] += len(earlier)
			for _, member := range earlier {
				if _, found := slices.BinarySearch(later, member); found {
					common[half]++
				}
			}
		}
		for half, n := range trials {
			if n > 0 {
				t.add(fmt.Sprintf("rounds %d apart, from round %d", apart, half*apart+1), float64(common[half]), n, counted(common[half], n, t.Rate))
			}
		}
	}
	return t
}

// participations tests the largest number of participations of any member.
func (x *examiner) participations() *Test {
	t := family(ParticipationTest)
	t.Rate = float64(x.claim.Cohort) / float64(x.claim.Population)
	times := map[int]int{}
	for _, cohort := range x.seen.Cohorts {
		for _, member := range cohort {
			times[member]++
		}
	}
	most, often := 0, 0
	for member, n := range times {
		if n > often || n == often && member < most {
			most, often = member, n
		}
	}
	t.add(fmt.Sprintf("member %d", most), float64(often), len(x.seen.Cohorts), exceeded(often, len(x.seen.Cohorts), t.Rate))
	t.Tests = x.claim.Population
	return t
}

// apart tests exactly that the rounds of a member, counted from 0, are far enough apart, and that
// no member takes part more than most times; 0 is no limit.
func (x *examiner) apart(enough func(earlier, later int) bool, most int) Test {
	t := Test{Name: ParticipationTest, Tests: 1, P: 1}
	last, times := map[int]int{}, map[int]int{}
	for round, cohort := range x.seen.Cohorts {
		for _, member := range cohort {
			before, there := last[member]
			last[member] = round
			times[member]++
			if there && !enough(before, round) || most > 0 && times[member] > most {
				t.P, t.Of, t.Statistic = 0, fmt.Sprintf("member %d in round %d", member, round+1), float64(times[member])
			}
		}
	}
	return t
}

// multiplier returns the multiplier of the part with the lowest upper limit.
func (x *examiner) multiplier(sensitivity float64) Multiplier {
	var list []Multiplier
	add := func(part string, sum float64, values int) {
		if values > 0 {
			list = append(list, Multiplier{Part: part, Squares: sum, Values: values})
		}
	}
	sum, values := x.squares(nil, 0, x.width())
	add("all", sum, values)
	for _, p := range x.parts {
		sum, values := x.squares(nil, p.first, p.Count)
		add(p.Name, sum, values)
	}
	if len(x.seen.Along) >= fewest {
		add("along the move", dot(x.seen.Along, x.seen.Along), len(x.seen.Along))
	}
	unit := x.claim.NoiseMultiplier / max(1, sensitivity/Sensitivity)
	for i := range list {
		m := &list[i]
		m.Parts = len(list)
		miss := side(m.Parts)
		m.Measured = unit * math.Sqrt(m.Squares/float64(m.Values))
		m.Low = unit * math.Sqrt(m.Squares/chiSquareQuantile(1-miss, float64(m.Values)))
		m.High = unit * math.Sqrt(m.Squares/chiSquareQuantile(miss, float64(m.Values)))
	}
	return slices.MinFunc(list, func(a, b Multiplier) int { return cmp.Compare(a.High, b.High) })
}
