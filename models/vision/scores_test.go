package vision

import (
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
)

func normalRows(rng *rand.Rand, n int, means, deviations []float64) [][]float32 {
	rows := make([][]float32, n)
	for i := range rows {
		for j, m := range means {
			rows[i] = append(rows[i], float32(m+deviations[j]*rng.NormFloat64()))
		}
	}
	return rows
}

// Of independent columns the distance is the sum over columns of the squared differences of
// means and of standard deviations.
func TestFrechetDistanceOfIndependentColumnsIsSum(t *testing.T) {
	t.Parallel()
	cross := func(shift, scale float64) [][]float32 { // uncorrelated columns, of deviation 1 and 2 times scale
		var rows [][]float32
		for _, r := range [][]float64{{1, 2}, {1, -2}, {-1, 2}, {-1, -2}} {
			rows = append(rows, []float32{float32(shift + scale*r[0]), float32(scale*r[1] - shift)})
		}
		return rows
	}
	got, err := FrechetDistance(cross(0, 1), cross(3, 2))
	check(t, err)
	deviation := math.Sqrt(4.0 / 3) // of 1, 1, -1, -1, with 3 below
	want := 2*9 + 5*deviation*deviation
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("distance %v, want %v", got, want)
	}
}

func TestTheFrechetDistanceIsSymmetricAndZeroOfEqualSets(t *testing.T) {
	t.Parallel()
	rng := testRand(1)
	a := normalRows(rng, 200, []float64{0, 1, 2, 3, 4}, []float64{1, 2, 1, 0.5, 0})
	b := normalRows(rng, 100, []float64{0, 1, 2, 3, 5}, []float64{2, 2, 1, 1, 0.1})
	self, err := FrechetDistance(a, a)
	check(t, err)
	one, err := FrechetDistance(a, b)
	check(t, err)
	other, err := FrechetDistance(b, a)
	check(t, err)
	if math.Abs(self) > 1e-6 || math.Abs(one-other) > 1e-6 || one < 1 {
		t.Errorf("distances %v of a set to itself, %v and %v of two", self, one, other)
	}
}

func TestClassifierScoreCountsCertainClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows [][]float32
		want float64
	}{
		{[][]float32{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, 3},
		{[][]float32{{0.2, 0.3, 0.5}, {0.2, 0.3, 0.5}}, 1},
		{[][]float32{{1, 0}, {0.5, 0.5}}, math.Exp(0.5*math.Log(1/0.75) + 0.25*math.Log(0.5/0.75) + 0.25*math.Log(0.5/0.25))},
	} {
		got, err := ClassifierScore(c.rows)
		check(t, err)
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("score %v of %v, want %v", got, c.rows, c.want)
		}
	}
}

func TestScoresRejectBadInput(t *testing.T) {
	t.Parallel()
	two, ragged := [][]float32{{1, 2}, {3, 4}}, [][]float32{{1, 2}, {3}}
	nan := [][]float32{{1, float32(math.NaN())}, {3, 4}}
	distance := func(a, b [][]float32) error { _, err := FrechetDistance(a, b); return err }
	score := func(a [][]float32) error { _, err := ClassifierScore(a); return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{distance(two[:1], two), "at least 2 images, not 1"},
		{distance(two, nil), "at least 2 images, not 0"},
		{distance(ragged, two), "row 1 has 1 columns"},
		{distance(two, [][]float32{{1}, {2}}), "rows of 2 columns in one set and of 1"},
		{distance(nan, two), "are all columns of all rows finite?"},
		{score(nil), "at least 1 images, not 0"},
		{score([][]float32{{}}), "row 0 has 0 columns"},
	} {
		must.Say(t, c.err, c.want)
	}
}
