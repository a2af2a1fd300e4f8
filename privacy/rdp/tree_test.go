package rdp_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/privacy/correlated"
	"coalmine/privacy/rdp"
)

// TensorFlow Privacy, tree_aggregation_accountant_test.py.
func TestTreeSensitivityMatchesPublishedValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    correlated.Participation
		want int
	}{
		{correlated.Participation{Rounds: 8, Separation: 8, Times: 1}, 4},
		{correlated.Participation{Rounds: 9, Separation: 4, Times: 3}, 11},
		{correlated.Participation{Rounds: 7, Separation: 3, Times: 3}, 9},
		{correlated.Participation{Rounds: 24, Separation: 3, Times: 8}, 88},
		{correlated.Participation{Rounds: 8, Separation: 1, Times: 8}, 120},
		{correlated.Participation{Rounds: 8, Separation: 1, Times: 200}, 120},
	} {
		if got, err := (correlated.Tree{}).WorstSquares(c.p); err != nil || got != c.want {
			t.Errorf("%+v: squared sensitivity %d (%v), published %d", c.p, got, err, c.want)
		}
	}
}

// squaresOf is the definition: the squared numbers of the user's leaves below every complete node.
func squaresOf(leaves []bool) int {
	sum := 0
	for size := 1; size <= len(leaves); size *= 2 {
		for from := 0; from+size <= len(leaves); from += size {
			n := 0
			for _, taken := range leaves[from : from+size] {
				if taken {
					n++
				}
			}
			sum += n * n
		}
	}
	return sum
}

func TestTreeSensitivityEqualsBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := correlated.Participation{
			Rounds: rapid.IntRange(1, 14).Draw(t, "steps"), Times: rapid.IntRange(1, 6).Draw(t, "times"),
			Separation: rapid.IntRange(1, 7).Draw(t, "separation"),
		}
		want := 0
		leaves := make([]bool, p.Rounds)
		var place func(from, left int)
		place = func(from, left int) {
			want = max(want, squaresOf(leaves))
			for i := from; i < p.Rounds && left > 0; i++ {
				leaves[i] = true
				place(i+p.Separation, left-1)
				leaves[i] = false
			}
		}
		place(0, p.Times)
		if got, err := (correlated.Tree{}).WorstSquares(p); err != nil || got != want {
			t.Errorf("%+v: squared sensitivity %d (%v), by all placements %d", p, got, err, want)
		}
	})
}

// tree is the curve of tree aggregation with a noise of sigma clip norms on each node.
func tree(p correlated.Participation, sigma float64) (rdp.Curve, error) {
	squared, err := correlated.Tree{}.WorstSquares(p)
	if err != nil {
		return rdp.Curve{}, err
	}
	return rdp.ZeroConcentrated(float64(squared)/(2*sigma*sigma), opacusOrders())
}

// Gboard's Spanish model by DP-FTRL (google-research/federated, dp_ftrl): noise 7
// over 2,000 steps, at most 6 participations with 313 steps between them.
func TestTreeAggregationMatchesTheSpanishModel(t *testing.T) {
	t.Parallel()
	p := correlated.Participation{Rounds: 2000, Times: 6, Separation: 314}
	squared := must.Get(correlated.Tree{}.WorstSquares(p))(t)
	if rho := float64(squared) / (2 * 7 * 7); math.Abs(rho-0.81) > 0.005 {
		t.Errorf("zero-concentrated %v, published 0.81", rho)
	}
	epsilon, _ := valid(tree(p, 7)).Epsilon(1e-10, rdp.Improved)
	if math.Abs(epsilon-8.90) > 0.005 {
		t.Errorf("epsilon %v, published 8.90", epsilon)
	}
}
