package training

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/updates"
)

// everyLayer are all tensors of the bench's model.
func (b *bench) everyLayer() []string {
	var names []string
	for _, layer := range updates.LayersOf(b.model(b.origin).Network) {
		names = append(names, layer.Name)
	}
	return names
}

// sent are the updates that a chunk has recorded.
func sent(t *testing.T, n *taskstest.Node) (all []updates.Update) {
	t.Helper()
	s := must.Get(updates.Decode(n.Blob(updates.ShardBlob(0))))(t)
	for i := range s.Len() {
		u := s.At(i)
		u.Values = slices.Clone(u.Values)
		all = append(all, u)
	}
	return all
}

// Recording looks on: the sum has the same bytes with it, and the recorded updates are
// those of the definition, in the order of the devices.
func TestRecordedUpdatesMatchSentUpdates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, clip := range []float64{0, 0.05} {
		p := clientsParams()
		p.Clip = clip
		plain := b.mustStep(Clients, p, b.origin, 3, 0)
		p.Record = &updates.Recording{Every: 3, Layers: b.everyLayer()}
		n := b.mustStep(Clients, p, b.origin, 3, 0)
		if !slices.Equal(sumOf(t, plain), sumOf(t, n)) {
			t.Errorf("clip %v: the sum changes with recording", clip)
		}
		all, population := sent(t, n), b.users()
		members := cohortOf(t, &p, 3, population.Users())
		if len(all) != len(members) {
			t.Fatalf("%d updates of %d clients", len(all), len(members))
		}
		for i, user := range members {
			examples := must.Get(population.ReadUser(t.Context(), user))(t)
			want := clientUpdate(t, b.model(b.origin), &p, examples, 3, user)
			if clip > 0 {
				scale := min(1, clip/norm(want))
				for j := range want {
					want[j] *= scale
				}
			}
			if all[i].Device != user || all[i].Round != 3 {
				t.Errorf("update %d is of device %d in round %d, want device %d in round 3", i, all[i].Device, all[i].Round, user)
			}
			closeTo(t, fmt.Sprintf("clip %v: update of device %d", clip, user), all[i].Values, want)
		}
	}
}

func TestUnselectedRoundsRecordNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	plain := b.mustStep(Clients, p, b.origin, 2, 0)
	p.Record = &updates.Recording{Every: 3, Layers: b.everyLayer()}
	if n := b.mustStep(Clients, p, b.origin, 2, 0); n.Digest() != plain.Digest() {
		t.Errorf("round 2 of a training that records every third has the blobs %v", n.Names())
	}
}

func TestChunksRecordSameUpdatesAsWholeRound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Noise, p.Compress = 0.01, &Compression{Keep: 0.3, Bits: 6}
	p.Record = &updates.Recording{Every: 1, Layers: []string{"cell.bias"}}
	whole := sent(t, b.mustStep(Clients, p, b.origin, 1, 0))
	p.Chunks = 4
	var parts []updates.Update
	for j := range p.Chunks {
		parts = append(parts, sent(t, b.mustStep(Clients, p, b.origin, 1, j))...)
	}
	same := slices.EqualFunc(whole, parts, func(x, y updates.Update) bool {
		return x.Device == y.Device && slices.Equal(x.Values, y.Values)
	})
	if !same {
		t.Errorf("four chunks record %v, one %v", parts, whole)
	}
}

func TestClientNoiseIsOnEveryElementOfUpdate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Clip = 0.05
	p.Record = &updates.Recording{Every: 1, Layers: b.everyLayer()}
	plain := sent(t, b.mustStep(Clients, p, b.origin, 1, 0))
	p.Noise = 0.02
	n := b.mustStep(Clients, p, b.origin, 1, 0)
	total := make([]float64, len(plain[0].Values))
	for i, u := range sent(t, n) {
		rng := seeds.Stream(p.Seed, seeds.ClientNoise, 1, uint64(u.Device))
		want := make([]float64, len(u.Values))
		for j, v := range plain[i].Values {
			want[j] = float64(v) + p.Noise*rng.NormFloat64()
			total[j] += want[j]
		}
		closeTo(t, fmt.Sprintf("noisy update of device %d", u.Device), u.Values, want)
	}
	closeTo(t, "sum of noisy updates", sumOf(t, n), total)
	var m ChunkMetrics
	if n.DecodeMetrics(&m); m.Clipped == 0 {
		t.Error("no client is counted as clipped")
	}
}

// Of equal absolute values the first are kept; a sort says which these are.
func TestKeepLargestMatchesSort(t *testing.T) {
	t.Parallel()
	s := &sender{}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]float32{0, -1, 1, 1.0000001, 1e-38}), rapid.Float32Range(-2, 2)), 1, 50).Draw(t, "x")
		k := rapid.IntRange(1, len(x)).Draw(t, "k")
		order := make([]int, len(x))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			return cmp.Compare(math.Abs(float64(x[j])), math.Abs(float64(x[i])))
		})
		want := make([]float32, len(x))
		for _, i := range order[:k] {
			want[i] = x[i]
		}
		got := slices.Clone(x)
		s.keepLargest(got, k)
		if !slices.Equal(got, want) {
			t.Fatalf("%v became %v, want %v", x, got, want)
		}
	})
}

// A value is rounded to one of the two nearest levels, and stays the same in the mean: over
// n roundings a level's share deviates by at most 5 standard errors, which a right program
// fails once in a million seeds; the seed is fixed.
func TestRoundingToLevelsKeepsTheMean(t *testing.T) {
	t.Parallel()
	const levels, n = 7, 4000
	x := []float32{-2, 0.1, 0.5, -0.3, 1.9, 0, 2}
	step, rng := 2.0/levels, rand.New(rand.NewPCG(1, 1))
	sums := make([]float64, len(x))
	for range n {
		y := slices.Clone(x)
		roundToLevels(rng, y, levels)
		for i, v := range y {
			if whole := float64(v) / step; math.Abs(whole-math.Round(whole)) > 1e-6 || math.Abs(float64(v-x[i])) > step*(1+1e-6) {
				t.Fatalf("%v became %v, which is not one of the nearest multiples of %v", x[i], v, step)
			}
			sums[i] += float64(v) / n
		}
	}
	for i, mean := range sums {
		if off := math.Abs(mean - float64(x[i])); off > 5*step/2/math.Sqrt(n)+1e-6 {
			t.Errorf("%v is %v in the mean", x[i], mean)
		}
	}
}

func TestCompressionNeverLengthensAClippedUpdate(t *testing.T) {
	t.Parallel()
	const clip = 0.5
	b := newBench(t)
	network := b.model(b.origin).Network
	for bits := 2; bits <= 16; bits += 2 {
		s := newSender(nil, &ClientsParams{Seed: 1, Clip: clip, Compress: &Compression{Keep: 0.5, Bits: bits}}, network)
		x := make([]float32, network.Trained())
		rng := rand.New(rand.NewPCG(2, uint64(bits)))
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		scaleTo(x, privacy.ClipScale(math.Sqrt(kernels.SquaredNorm(x)), clip))
		must.Do(t, s.send(x, 1, 1))
		if norm := math.Sqrt(kernels.SquaredNorm(x)); norm > clip*(1+1e-6) || norm == 0 {
			t.Errorf("in %d bits an update clipped to %v has norm %v", bits, clip, norm)
		}
	}
}

func TestCompressionKeepsFewValuesOfEachTensor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := clientsParams()
	p.Compress = &Compression{Keep: 0.1, Bits: 4}
	p.Record = &updates.Recording{Every: 1, Layers: b.everyLayer()}
	for _, u := range sent(t, b.mustStep(Clients, p, b.origin, 1, 0)) {
		kept, rest := 0, u.Values
		for _, layer := range updates.LayersOf(b.model(b.origin).Network) {
			levels := map[float32]bool{}
			for _, v := range rest[:layer.Values] {
				levels[v] = true
				if v != 0 {
					kept++
				}
			}
			rest = rest[layer.Values:]
			if len(levels) > 15 {
				t.Errorf("%s of device %d has %d different values in 4 bits", layer.Name, u.Device, len(levels))
			}
		}
		if most := (len(u.Values) + 9) / 10; kept > most || kept == 0 {
			t.Errorf("device %d sends %d values of %d, expected at most %d", u.Device, kept, len(u.Values), most)
		}
	}
}

func TestInvalidCompressionAndLayersArePermanentErrors(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []Compression{{Keep: -0.1}, {Keep: 2}, {Keep: math.Inf(1)}, {Bits: 1}, {Bits: 17}} {
		if err := c.validate(); !tasks.IsPermanent(err) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	p := clientsParams()
	p.Record = &updates.Recording{Every: 1, Layers: []string{"dense"}}
	if _, err := b.step(Clients, p, b.origin, 1, 0); !tasks.IsPermanent(err) {
		t.Errorf("a layer that is not there: %v", err)
	}
}
