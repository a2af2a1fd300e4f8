package attacks

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/must"
)

// byBruteForce are the k nearest ids of a query, of vectors of small whole numbers, whose
// distances are exact.
func byBruteForce(query []float32, vectors []float32, ids []int, k int) []int {
	type at struct {
		square float32
		place  int
	}
	all := make([]at, len(ids))
	for v := range ids {
		all[v].place = v
		for i, x := range query {
			d := x - vectors[v*len(query)+i]
			all[v].square += d * d
		}
	}
	slices.SortStableFunc(all, func(a, b at) int { return cmp.Compare(a.square, b.square) })
	var near []int
	for _, a := range all[:min(k, len(all))] {
		near = append(near, ids[a.place])
	}
	return near
}

func whole(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.IntN(4))
	}
	return x
}

// The numbers are whole and few, so that many distances are equal.
func TestTheNearestAreThoseOfBruteForceHoweverTheyAreShown(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 0))
	for range 60 {
		dimension, n, k := 1+rng.IntN(6), rng.IntN(3*tile), 1+rng.IntN(12)
		queries, vectors := whole(rng, dimension*(1+rng.IntN(5))), whole(rng, dimension*n)
		ids := rng.Perm(n)
		search := NewSearch(queries, dimension, k)
		for from := 0; from < n; {
			to := min(n, from+1+rng.IntN(2*tile))
			must.Do(t, search.Show(t.Context(), vectors[from*dimension:to*dimension], ids[from:to]))
			from = to
		}
		for q := range len(queries) / dimension {
			want := byBruteForce(queries[q*dimension:(q+1)*dimension], vectors, ids, k)
			if got := search.Nearest(q); !slices.Equal(got, want) {
				t.Fatalf("query %d, %d of %d vectors of %d values: %v, want %v", q, k, n, dimension, got, want)
			}
		}
	}
}

func TestASearchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := NewSearch([]float32{1}, 1, 1).Show(ctx, []float32{1}, []int{0}); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
}
