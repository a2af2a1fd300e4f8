package devices

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// crowd is a background of two topics, of which nothing stands in a bench's texts.
func (b *bench) crowd(examples int) *taskstest.Node {
	var lines strings.Builder
	for i := range examples {
		fmt.Fprintf(&lines, `{"user":"c%d","text":"%s"}`+"\n", i%3, strings.Repeat(string("xy"[i%2]), 1+i/2))
	}
	return b.encoded(lines.String())
}

// mixed runs Mix over the devices of the node.
func (b *bench) mixed(divided *taskstest.Node, p MixParams, edges ...taskstest.Edge) (*taskstest.Node, error) {
	return b.Try(Mix, p, append(edges, taskstest.In(population.Input, divided))...)
}

// Shadow devices stay as they are. Of an anonymous one the share that was asked for comes
// from the background, and all else is its own, in its place.
func TestAnonymousDevicesAreMixedWithBackground(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20, 33, 15)
	divided := b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)
	list, before := b.devices(divided), b.read(divided, divided)
	crowd := b.crowd(40)
	known := map[string]bool{}
	for _, x := range b.read(crowdPopulation(b, crowd), crowd) {
		known[fmt.Sprint(-1, x.tokens)] = true
	}
	for _, p := range []MixParams{{Replace: 0.25}, {Replace: 1}, {Augment: 0.5}, {Augment: 2}} {
		node := must.Get(b.mixed(divided, p, taskstest.In(BackgroundInput, crowd)))(t)
		if !slices.Equal(b.devices(node), list) {
			t.Errorf("%+v: the devices are others", p)
		}
		after, summary := b.read(node, node), Summary{}
		for device, d := range list {
			was, is := of(before, device), of(after, device)
			drawn := rounded(p.Replace+p.Augment, len(was))
			if d.Shadow {
				drawn = 0
			}
			foreign := 0
			for i, x := range is {
				if known[x] {
					foreign++
				} else if x != was[i] {
					t.Errorf("%+v: example %d of device %d is %s, was %s", p, i, device, x, was[i])
				}
			}
			grown := 0
			if p.Augment > 0 {
				grown = drawn
			}
			if foreign != drawn || len(is) != len(was)+grown {
				t.Errorf("%+v: device %d of %d examples has %d, %d of them of the background, want %d", p, device, len(was), len(is), foreign, drawn)
			}
			if !d.Shadow {
				summary.Background, summary.Private = summary.Background+foreign, summary.Private+len(is)-foreign
			}
		}
		if got, err := readWorld(b, node); err != nil || got.Background != summary.Background || got.Private != summary.Private {
			t.Errorf("%+v: the summary is %+v, %v, want %+v", p, got, err, summary)
		}
	}
}

// crowdPopulation is a background as a population.
func crowdPopulation(b *bench, parts *taskstest.Node) *taskstest.Node {
	balanced := b.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, parts))
	return b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, parts), taskstest.In(population.BalancedInput, balanced))
}

func readWorld(b *bench, node *taskstest.Node) (s Summary, err error) {
	task := b.Task(taskstest.In("d", node))
	data, err := task.Blob(b.t.Context(), "d", WorldBlob)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// A larger share mixes in all examples of a smaller one.
func TestSharesOfABackgroundAreNested(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	divided := b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)
	m := mixer{modes: [][]int{nil}}
	m.devices = b.devices(divided)
	task := b.Task(taskstest.In("p", divided), taskstest.In("b", b.crowd(50)))
	var err error
	if m.population, err = population.Open(t.Context(), task, "p", "p"); err != nil {
		t.Fatal(err)
	}
	if m.background, err = population.OpenPart(t.Context(), task, "b", population.Train); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]MixParams{{{Replace: 0.25}, {Replace: 0.75}}, {{Augment: 0.5}, {Augment: 2}}} {
		m.params = pair[0]
		few := m.draws(0)
		m.params = pair[1]
		many := m.draws(0)
		if len(few) >= len(many) || slices.ContainsFunc(few, func(d draw) bool { return !slices.Contains(many, d) }) {
			t.Errorf("%+v draws %v, and %+v draws %v", pair[0], few, pair[1], many)
		}
	}
}

// A background of two topics has two modes, and a device gets examples of one of them.
func TestADeviceIsMixedWithOneMode(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20, 20, 20, 20, 20, 20, 20, 20)
	divided := b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)
	crowd := b.crowd(40)
	modes := b.Run(Modes, ModesParams{Seed: 3, Modes: 2, Level: text.ByteLevel}, taskstest.In(BackgroundInput, crowd))
	node := must.Get(b.mixed(divided, MixParams{Seed: 4, Augment: 1}, taskstest.In(BackgroundInput, crowd), taskstest.In(ModesInput, modes)))(t)
	x, y := fmt.Sprint(text.FirstWord+'x'), fmt.Sprint(text.FirstWord+'y')
	topics := map[bool]int{}
	for device, d := range b.devices(node) {
		added := of(b.read(node, node), device)[10:]
		if d.Shadow {
			continue
		}
		isX := strings.Contains(added[0], x)
		topics[isX]++
		for _, text := range added {
			if strings.Contains(text, x) != isX || strings.Contains(text, y) == isX {
				t.Errorf("device %d is mixed with %v", device, added)
				break
			}
		}
	}
	if topics[true] == 0 || topics[false] == 0 {
		t.Errorf("devices with x and without: %v, want some of each", topics) // by the seed
	}
}

func TestBackgroundsThatCannotBeMixedAreRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t, 20)
	divided := b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)
	crowd := b.crowd(10)
	for _, p := range []MixParams{{}, {Replace: 0.5, Augment: 0.5}, {Replace: 1.5}, {Augment: -1}, {Augment: 101}} {
		if _, err := b.mixed(divided, p, taskstest.In(BackgroundInput, crowd)); err == nil || !tasks.IsPermanent(err) {
			t.Errorf("%+v: the error is %v", p, err)
		}
	}
	for _, modes := range []int{0, 1, 11} {
		if _, err := b.Try(Modes, ModesParams{Modes: modes, Level: text.ByteLevel}, taskstest.In(BackgroundInput, crowd)); err == nil || !tasks.IsPermanent(err) {
			t.Errorf("%d modes: the error is %v", modes, err)
		}
	}
	other := b.Run(Modes, ModesParams{Modes: 2, Level: text.ByteLevel}, taskstest.In(BackgroundInput, b.crowd(8)))
	if _, err := b.mixed(divided, MixParams{Augment: 1}, taskstest.In(BackgroundInput, crowd), taskstest.In(ModesInput, other)); err == nil {
		t.Error("modes of another background are taken")
	}
}

// Lloyd's steps end where each vector is with its nearest mean, and each mean in the middle of
// its vectors; more steps change nothing.
func TestClustersAreFixedPointsOfLloydsSteps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		vectors := make([][]float32, 30)
		for i := range vectors {
			vectors[i] = []float32{float32(rng.IntN(3)) + 0.1*rng.Float32(), rng.Float32(), 0.5 * rng.Float32()}
		}
		means := must.Get(cluster(t.Context(), vectors, 4, rng))(t)
		groups := map[int][][]float32{}
		for _, x := range vectors {
			best, least := 0, math.Inf(1)
			for m, mean := range means {
				var d float64
				for j := range x {
					d += math.Pow(float64(x[j])-float64(mean[j]), 2)
				}
				if d < least {
					best, least = m, d
				}
			}
			groups[best] = append(groups[best], x)
		}
		for m, group := range groups {
			for j := range means[m] {
				var sum float64
				for _, x := range group {
					sum += float64(x[j])
				}
				if got, want := float64(means[m][j]), sum/float64(len(group)); math.Abs(got-want) > 1e-6 {
					t.Errorf("seed %d: mean %d is %v at %d, and its vectors' is %v", seed, m, got, j, want)
				}
			}
		}
	}
}

func TestGoldenMix(t *testing.T) {
	t.Parallel()
	b := newBench(t, 14, 9, 17)
	divided := b.Run(Split, SplitParams{Seed: 1, Prior: Random, Share: 0.5}, b.data()...)
	crowd := taskstest.In(BackgroundInput, b.crowd(30))
	modes := b.Run(Modes, ModesParams{Seed: 1, Modes: 3, Level: text.ByteLevel}, crowd)
	var nodes []*taskstest.Node
	for _, edges := range [][]taskstest.Edge{{crowd}, {crowd, taskstest.In(ModesInput, modes)}} {
		for _, p := range []MixParams{{Seed: 2, Replace: 0.5}, {Seed: 2, Augment: 1.5}} {
			node := must.Get(b.mixed(divided, p, edges...))(t)
			nodes = append(nodes, node)
		}
	}
	taskstest.Golden(t, nodes...)
	taskstest.Golden(t, modes)
}
