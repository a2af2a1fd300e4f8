package canaries

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/privacy/empirical"
)

func TestCosinesMatchUpdates(t *testing.T) {
	t.Parallel()
	rng, d := rand.New(rand.NewPCG(1, 2)), Directions{7}
	for _, dimension := range []int{1, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1000, 3001} {
		v, update := make([]float32, dimension), make([]float32, dimension)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		for i, got := range d.Cosines(v, 3, 20) {
			d.Fill(update, 3+i, 1)
			product, squares, of := 0.0, 0.0, 0.0
			for j := range v {
				product += float64(v[j]) * float64(update[j])
				squares += float64(v[j]) * float64(v[j])
				of += float64(update[j]) * float64(update[j])
			}
			if want := product / math.Sqrt(squares*of); math.Abs(got-want) > 1e-12 {
				t.Errorf("%d dimensions, canary %d: cosine %v, want %v", dimension, 3+i, got, want)
			}
		}
	}
}

// The last bit of a sum depends on its order, and largest cosines are compared and stored.
func TestCosinesAreAddedUpInOneOrder(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 9))
	for _, dimension := range []int{1, 64, 65, 190, 256, 700, 9001} {
		v := make([]float32, dimension)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * math.Exp(20*rng.NormFloat64()))
		}
		for i, got := range (Directions{5}).Cosines(v, 2, 9) {
			if want := cosineInOrder(v, seeds.Source(5, seeds.CanaryUpdates, uint64(2+i))); got != want {
				t.Errorf("%d dimensions, canary %d: cosine %x, want %x", dimension, 2+i, got, want)
			}
		}
	}
}

// cosineInOrder adds up elements by eights, these in pairs to words of 64, and words by fours.
func cosineInOrder(v []float32, source *rand.ChaCha8) float64 {
	total := 0.0
	for block := range slices.Chunk(v, 4*64) {
		sum := 0.0
		for elements := range slices.Chunk(block, 64) {
			bits, eights := source.Uint64(), [8]float64{}
			for i := range eights {
				eights[i] = underSigns(elements[min(8*i, len(elements)):min(8*i+8, len(elements))], bits>>(8*i))
			}
			sum += ((eights[0] + eights[1]) + (eights[2] + eights[3])) + ((eights[4] + eights[5]) + (eights[6] + eights[7]))
		}
		total += sum
	}
	return total / (math.Sqrt(kernels.SquaredNorm(v)) * math.Sqrt(float64(len(v))))
}

// underSigns takes all elements off, and adds those under a plus twice.
func underSigns(elements []float32, bits uint64) (sum float64) {
	for _, x := range elements {
		sum -= float64(x)
	}
	for i, x := range elements {
		if bits>>i&1 == 1 {
			sum += 2 * float64(x)
		}
	}
	return sum
}

func TestAVectorOfZerosHasNoCosine(t *testing.T) {
	t.Parallel()
	for i, got := range (Directions{1}).Cosines(make([]float32, 100), 0, 3) {
		if got != 0 {
			t.Errorf("canary %d: %v", i, got)
		}
	}
}

func TestFillNeverExceedsLength(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		update, length := make([]float32, 1+rng.IntN(5000)), math.Exp(4*rng.NormFloat64())
		Directions{rng.Uint64()}.Fill(update, rng.IntN(9), length)
		squares := 0.0
		for _, x := range update {
			squares += float64(x) * float64(x)
		}
		if got := math.Sqrt(squares); got > length || got < length*(1-3e-7) {
			t.Fatalf("%d elements of length %v have norm %v", len(update), length, got)
		}
	}
}

// The cosines of 2000 canaries with a vector are N(0, 1/d): their mean is within five standard
// errors of 0, their deviation within five of 1/sqrt(d), which another seed would leave with a
// probability of 1e-6; and so for a vector with few elements, of which 40 are not 0.
func TestUnseenCosinesFollowNullNormal(t *testing.T) {
	t.Parallel()
	const canaries, dimension = 2000, 4000
	rng := rand.New(rand.NewPCG(5, 6))
	for name, elements := range map[string]int{"dense": dimension, "sparse": 40} {
		v := make([]float32, dimension)
		for i := range elements {
			v[i*(dimension/elements)] = float32(rng.NormFloat64())
		}
		got := must.Get(empirical.FitNormal(Directions{11}.Cosines(v, 0, canaries)))(t)
		null := empirical.NullNormal(dimension)
		if math.Abs(got.Mean) > 5*null.Deviation/math.Sqrt(canaries) || math.Abs(got.Deviation/null.Deviation-1) > 5/math.Sqrt(2*canaries) {
			t.Errorf("%s: %+v, want %+v", name, got, null)
		}
	}
}

func TestTheLastUsersAreTheCanaries(t *testing.T) {
	t.Parallel()
	clients := &Clients{Count: 3}
	for user, want := range map[int]int{0: -1, 6: -1, 7: 0, 9: 2} {
		canary, ok := clients.Canary(user, 10)
		if ok != (want >= 0) || ok && canary != want {
			t.Errorf("user %d: canary %d (%v), want %d", user, canary, ok, want)
		}
	}
	if _, ok := (*Clients)(nil).Canary(9, 10); ok {
		t.Error("a training without canary clients has one")
	}
}

func TestAnUpdateNeedsALength(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ norm, over, clip, want float64 }{
		{0, 10, 2, 20}, {3, 10, 2, 20}, {3, 10, 0, 3}, {3, 0, 2, 0}, {3, 1, 2, 0}, {0, 10, 0, 0}, {math.NaN(), 10, 0, 0},
	} {
		got, err := (&Clients{Count: 1, Norm: c.norm, Over: c.over}).Length(c.clip)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: length %v (%v)", c, got, err)
		}
	}
}

// BenchmarkCosines is one round of a model of 1.3 million parameters that is watched by a
// thousand canaries and a thousand unseen ones.
func BenchmarkCosines(b *testing.B) {
	v := make([]float32, 1_300_000)
	for i := range v {
		v[i] = float32(i%17) - 8
	}
	for b.Loop() {
		Directions{1}.Cosines(v, 0, 2000)
	}
}

// BenchmarkFill is the update of one canary of such a model.
func BenchmarkFill(b *testing.B) {
	v := make([]float32, 1_300_000)
	for b.Loop() {
		Directions{1}.Fill(v, 0, 1)
	}
}
