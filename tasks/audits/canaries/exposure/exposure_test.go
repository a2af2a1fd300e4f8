package exposure

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
)

// outcome is an exposure in bits of one basis.
type outcome struct {
	basis   Basis
	bits    float64
	err     float64
	support int64
}

func (o outcome) Exposed() *Exposure {
	return &Exposure{Basis: o.basis, Bits: o.bits, Error: max(o.err, 1), Support: cmp.Or(o.support, Enough)}
}

// cell has canaries by their copies, each with a sampled exposure.
func cell(byCopies map[int][]float64) *audits.Cell {
	var c audits.Cell
	for copies, all := range byCopies {
		role := audits.Inserted
		if copies == 0 {
			role = audits.HeldBack
		}
		for _, bits := range all {
			c.Canaries = append(c.Canaries, audits.Canary{Role: role, Insertions: copies, Outcomes: []audits.CanaryOutcome{outcome{basis: Sampled, bits: bits}}})
		}
	}
	return &c
}

func TestInsertedCanariesAreComparedWithControls(t *testing.T) {
	t.Parallel()
	v := derive(cell(map[int][]float64{
		0: {0.1, 1.4, 0.2, 2.2, 3.1, 0.9}, 1: {0.3, 1.5, 2.5, 0.4, 2.0}, 3: {9, 10.5, 11, 8, 12}, 7: {14, 15},
	})).(*Outcome)
	// SciPy: mannwhitneyu(..., method="exact").
	const once, thrice, all = 0.7922077922077921, 0.004329004329004329, 0.03199741435035553
	s := v.Samples
	if s == nil || s.Basis != "sampled" || len(s.Copies) != 2 || s.Without.P != nil || s.Without.Canaries != 6 {
		t.Fatalf("%+v", s)
	}
	for _, c := range []struct {
		got              Sample
		copies, canaries int
		mean, p          float64
	}{{s.Copies[0], 1, 5, 6.7 / 5, once}, {s.Copies[1], 3, 5, 50.5 / 5, thrice}, {s.Inserted, 0, 12, 86.2 / 12, all}} {
		if c.got.Copies != c.copies || c.got.Canaries != c.canaries || math.Abs(c.got.Mean-c.mean) > 1e-12 || math.Abs(*c.got.P/c.p-1) > 1e-12 {
			t.Errorf("%v, p %v; want %+v", c.got, *c.got.P, c)
		}
	}
	const want = "exposures in bits: mean sampled 1.32 of 6 controls, 1.34 of 5 with 1 copy (p 0.79), 10.10 of 5 with 3 copies (p 0.0043), " +
		"7.18 of all 12 inserted (p 0.032) (Mann and Whitney's test, two-sided, against the controls; all tests together, by Bonferroni: p 0.013)"
	if got := v.Note(nil); got != want {
		t.Errorf("note\n%s, want\n%s", got, want)
	}
	if *s.P != 3**s.Copies[1].P || !s.found() {
		t.Errorf("together p %v, want 3 tests times %v, and a finding", *s.P, *s.Copies[1].P)
	}
	for column, want := range map[string]float64{"inserted_exposure_p": *s.Inserted.P, "inserted_mean_exposure": s.Inserted.Mean, "without_copies_mean_exposure": s.Without.Mean} {
		if got := auditstest.Value(&Audit, v, column); got != want {
			t.Errorf("%s is %v, want %v", column, got, want)
		}
	}
}

// A cell whose comparison finds memory is not said to have found nothing: the highest exposure, 8.4 bits of 10 canaries,
// is no finding, for chance exceeds log2(10/0.05) = 7.64 bits, but not 9.
func TestNoFindingOnlyIfNoTestFinds(t *testing.T) {
	t.Parallel()
	s := &audits.Setting{Canaries: &audits.Canaries{Inserted: 10}, Audits: []audits.Fields{measurer{}}}
	controls := []float64{0.1, 1.4, 0.2, 2.2, 3.1, 0.9}
	for _, c := range []struct {
		name     string
		inserted []float64
		nothing  bool
	}{
		{"chance", []float64{0.3, 1.5, 2.5, 0.4, 2.0, 1.1, 0.6, 0.8, 3.0, 0.2}, true},
		{"all a little higher", []float64{5.3, 5.5, 6.5, 7.4, 5.0, 6.1, 6.6, 5.8, 6.0, 7.2}, false},
		{"one far higher", []float64{0.3, 1.5, 2.5, 0.4, 2.0, 1.1, 0.6, 0.8, 3.0, 9}, false},
	} {
		v := derive(cell(map[int][]float64{0: controls, 2: c.inserted})).(*Outcome)
		x := power(s, v)[0]
		if got := x.Nothing(v); got != c.nothing || x.Finds != "an exposure above 7.64 bits" {
			t.Errorf("%s: nothing found %t, want %t; a find is %s", c.name, got, c.nothing, x.Finds)
		}
	}
}

// measurer is an audit with 1024 references.
type measurer struct{ audits.Fields }

func (measurer) Exposures(*audits.Setting) Range {
	return OfReferences(1024, "audit.random_sampling.references")
}

// 10 is the limit of 1024 references: the mean of exposures at it is a lower bound.
func TestAMeanOfExposuresAtTheLimitIsALowerBound(t *testing.T) {
	t.Parallel()
	c := cell(map[int][]float64{0: {0, 1, 2, 3, 4}, 1: {1, 2, 3, 4, 10}, 2: {10, 10, 10, 10, 10}})
	for i := range c.Canaries {
		if o := c.Canaries[i].Outcomes[0].(outcome); o.bits == 10 {
			o.err = math.Inf(1)
			c.Canaries[i].Outcomes[0] = o
		}
	}
	v := derive(c).(*Outcome)
	const want = "mean sampled 2.00 of 5 controls, >= 4.00 of 5 with 1 copy (1 at the limit, p 0.44), >= 10.00 of 5 with 2 copies (5 at the limit, p 0.0079), " +
		">= 7.00 of all 10 inserted (6 at the limit, "
	if got := v.Note(nil); !strings.Contains(got, want) {
		t.Errorf("note\n%s, want\n%s", got, want)
	}
	if in, out := auditstest.Value(&Audit, v, "inserted_exposures_censored"), auditstest.Value(&Audit, v, "without_copies_exposures_censored"); in != int64(6) || out != int64(0) {
		t.Errorf("%v inserted and %v controls are at the limit, want 6 and 0", in, out)
	}
	// An exact exposure is no bound.
	for i := range c.Canaries {
		o := c.Canaries[i].Outcomes[0].(outcome)
		c.Canaries[i].Outcomes[0] = outcome{basis: Enumerated, bits: o.bits}
	}
	if note := derive(c).(*Outcome).Note(nil); strings.Contains(note, "limit") {
		t.Errorf("exact exposures: %s", note)
	}
}

// sampled are exposures with a standard error, of one basis.
func sampled(bits []float64) (all []*Exposure) {
	for _, b := range bits {
		all = append(all, &Exposure{Basis: Sampled, Bits: b, Error: 1})
	}
	return all
}

// A control has no copies: however high its exposure, it is no memory that a gate could limit.
func TestHighestExposureIgnoresUninsertedCanaries(t *testing.T) {
	t.Parallel()
	c := cell(map[int][]float64{0: {20}, 1: {3, 5}})
	c.Canaries = append(c.Canaries, audits.Canary{Role: audits.NeverInserted, Outcomes: []audits.CanaryOutcome{outcome{basis: Sampled, bits: 30}}})
	if v := derive(c).(*Outcome); ValueOf(v.Highest) != 5 {
		t.Errorf("highest exposure %v, want 5", ValueOf(v.Highest))
	}
}

// A sampled exposure counts before a fitted one, whose distance is in standard errors of both if both rest on enough
// references. An exposure below 0 is drawn at 0.
func TestSampledExposurePrecedesFitted(t *testing.T) {
	t.Parallel()
	canary := func(fitted, sampled outcome) audits.Canary {
		return audits.Canary{Role: audits.Inserted, Insertions: 1, Outcomes: []audits.CanaryOutcome{fitted, sampled}}
	}
	c := &audits.Cell{Canaries: []audits.Canary{
		canary(outcome{Fitted, 12, 3, 500}, outcome{Sampled, 8, 4, 500}),
		canary(outcome{Fitted, 20, 1, 500}, outcome{Sampled, 10, 1, 5}),
		canary(outcome{Fitted, 3, 1, 5}, outcome{Sampled, -1, 1, 5}),
	}}
	v := derive(c).(*Outcome)
	const want = "fitted less sampled +4.00 to +4.00 (at most 0.8 standard errors, which take the distribution for skew-normal) for 1 canary " +
		"with 100 references or more at or below, +4.00 to +10.00 for 2 canaries with fewer"
	if note := v.Note(c); ValueOf(v.Highest) != 10 || !strings.HasSuffix(note, want) {
		t.Errorf("highest %v, note %q; want 10 and %q", ValueOf(v.Highest), note, want)
	}
	// Few samples at or below the second canary say nothing about the fit, which has enough.
	beyond := &audits.Cell{Canaries: []audits.Canary{c.Canaries[0], c.Canaries[2]}}
	if note := derive(beyond).(*Outcome).Note(beyond); !strings.HasSuffix(note, "+4.00 to +4.00 for 1 canary with fewer, where the fit extrapolates") {
		t.Errorf("note %q", note)
	}
	if dots := v.Figure(c).Dots; dots[0].Y != 8 || dots[2].Y != 0 {
		t.Errorf("dots %+v", dots)
	}
}

func TestExposureIsInBitsOfTheSpace(t *testing.T) {
	t.Parallel()
	for rank, want := range map[int64]float64{1: 29.897352853986263, 2: 28.897352853986263, 1_000_000_000: 0} {
		if got := Of(1_000_000_000, rank); math.Abs(got-want) > 1e-13 {
			t.Errorf("rank %d of 10^9: exposure %v, want %v", rank, got, want)
		}
	}
}

// By chance, one of three secrets or more has two bits unless all three rank in the lower three quarters.
func TestByChanceCountsAnyOfSeveralSecrets(t *testing.T) {
	t.Parallel()
	if got, want := ByChance(3, 2), 1-0.75*0.75*0.75; math.Abs(got-want) > 1e-15 {
		t.Errorf("%v, want %v", got, want)
	}
}

// Rank 1 among n references means an exposure of log2 n or more.
func TestLimitReportsAtLeastForFirstRank(t *testing.T) {
	t.Parallel()
	limit := 4.0
	for most, want := range map[float64]string{
		12:  "exposure is 7.5, above the limit of 4",
		7.5: "exposure is at least 7.5, the most that the references can show, above the limit of 4",
	} {
		v := &Outcome{Max: most, Highest: new(7.5)}
		if got := limits[0].Breaches(&audits.Cell{Outcomes: []audits.Outcome{v}}, &limit); !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	limit = 7.5
	if got := limits[0].Breaches(&audits.Cell{Outcomes: []audits.Outcome{&Outcome{Max: 7.5, Highest: new(7.5)}}}, &limit); got != nil {
		t.Errorf("at the limit it says %q", got)
	}
}

// Where all canaries were held back there is no highest exposure, and 0 would be one.
func TestNoHighestExposureWithoutInsertedCanaries(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(derive(cell(map[int][]float64{0: {20, 3}})))
	if err != nil || strings.Contains(string(data), "highest") {
		t.Errorf("%s, %v", data, err)
	}
}

// Of fewer than five canaries on either side nothing is said, and exposures of two bases are
// never mixed.
func TestTooFewCanariesAreNotCompared(t *testing.T) {
	t.Parallel()
	five := []float64{1, 2, 3, 4, 5}
	for _, c := range []map[int][]float64{{0: five[:4], 1: five}, {0: five, 1: five[:2], 2: five[:2]}, {0: five}, {1: five}} {
		v := derive(cell(c)).(*Outcome)
		if v.Samples != nil || auditstest.Value(&Audit, v, "inserted_mean_exposure") != nil || strings.Contains(v.Note(nil), "Mann") {
			t.Errorf("%v: %+v", c, v.Samples)
		}
	}
	mixed := cell(map[int][]float64{0: five, 2: five})
	mixed.Canaries[0].Outcomes = []audits.CanaryOutcome{outcome{basis: Enumerated, bits: 3}}
	if v := derive(mixed).(*Outcome); v.Samples != nil {
		t.Errorf("sampled and exact ones together: %+v", v.Samples)
	}
	both := cell(map[int][]float64{0: five, 2: five})
	for i := range both.Canaries {
		both.Canaries[i].Outcomes = append(both.Canaries[i].Outcomes, outcome{basis: Enumerated, bits: 7})
	}
	if s := derive(both).(*Outcome).Samples; s.Basis != "exact" || s.Inserted.Mean != 7 || *s.Inserted.P != 1 {
		t.Errorf("with two bases: %+v", s)
	}
}

// A model that has memorized nothing is told from one that has only as often as the test
// says: the p-values of 2,000 such models are uniform, or the largest distance from that has
// a probability below 1e-9.
func TestUnmemorizedCanariesHaveUniformPValues(t *testing.T) {
	t.Parallel()
	const models = 2000
	counts := make([]int, 10)
	next := uint64(1)
	exponential := func() float64 { // exposures without memory are about that, of mean 1/ln 2
		next = next*6364136223846793005 + 1442695040888963407
		return -math.Log2((float64(next>>11) + 0.5) / (1 << 53))
	}
	for range models {
		with, without := make([]float64, 40), make([]float64, 90)
		for i := range with {
			with[i] = exponential()
		}
		for i := range without {
			without[i] = exponential()
		}
		p := *compareCopies(Sampled, map[int][]*Exposure{0: sampled(without), 1: sampled(with)}).Inserted.P
		counts[min(9, int(10*p))]++
	}
	chi := 0.0
	for _, n := range counts {
		chi += math.Pow(float64(n)-models/10, 2) / (models / 10)
	}
	if chi > 60 { // of 9 degrees of freedom, above 60 with a probability of 1.3e-9
		t.Errorf("p-values by tenths: %v, chi-squared %v", counts, chi)
	}
}
