package devices

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// bench is a population of users with texts that all differ, and canaries among them.
type bench struct {
	*taskstest.Graph
	t                 *testing.T
	parts, population *taskstest.Node
	users             []record
}

// record is an example as it trains.
type record struct {
	user   int
	canary int // -1 for none
	tokens string
}

// newBench makes users with the given numbers of examples.
func newBench(t *testing.T, sizes ...int) *bench {
	t.Helper()
	b := &bench{Graph: taskstest.NewGraph(t), t: t}
	var lines strings.Builder
	for user, n := range sizes {
		for i := range n {
			fmt.Fprintf(&lines, `{"user":"u%d","text":"%d of %d"}`+"\n", user, i, user)
		}
	}
	b.parts = b.encoded(lines.String())
	balanced := b.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, b.parts))
	drawn := b.Run(canaries.Draw, canaries.DrawParams{
		Seed: 1, Configurations: []canaries.Configuration{{Times: 5}}, PerConfiguration: 3, Space: canaries.Space{Words: 6, Alphabet: canaries.Lower},
	}, taskstest.In(population.PartsInput, b.parts))
	inserted := b.Run(canaries.Insert, canaries.InsertParams{Seed: 1}, taskstest.In(population.BalancedInput, balanced), taskstest.In(canaries.CanariesInput, drawn))
	b.population = b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, b.parts), taskstest.In(population.BalancedInput, balanced), taskstest.In(population.InsertionsInput, inserted))
	b.users = b.read(b.population, b.parts)
	return b
}

// encoded is a source of texts read as bytes, all in the training part.
func (b *bench) encoded(lines string) *taskstest.Node {
	b.t.Helper()
	return b.encodedAs(source.Reading{Level: text.ByteLevel}, lines)
}

func (b *bench) encodedAs(reading source.Reading, lines string) *taskstest.Node {
	b.t.Helper()
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import([]byte(lines))}, Reading: reading})
	return b.Run(datasets.Encode, datasets.EncodeParams{Level: text.ByteLevel, Grouped: reading.Grouped}, taskstest.In(datasets.CorpusInput, corpus))
}

func (b *bench) data() []taskstest.Edge {
	return []taskstest.Edge{taskstest.In(population.Input, b.population), taskstest.In(population.ShardsInput, b.parts)}
}

func (b *bench) split(p SplitParams) (*taskstest.Node, error) { return b.Try(Split, p, b.data()...) }

// divided splits the population, and reads the devices and their examples.
func (b *bench) divided(p SplitParams) ([]Device, []record) {
	b.t.Helper()
	node := must.Get(b.split(p))(b.t)
	return b.devices(node), b.read(node, node)
}

func (b *bench) devices(node *taskstest.Node) []Device {
	b.t.Helper()
	return must.Get(Read(b.t.Context(), b.Task(taskstest.In("d", node)), "d"))(b.t)
}

// read is a population, user after user.
func (b *bench) read(pop, shards *taskstest.Node) (all []record) {
	b.t.Helper()
	p := must.Get(population.Open(b.t.Context(), b.Task(taskstest.In("p", pop), taskstest.In("s", shards)), "p", "s"))(b.t)
	for user := range p.Users() {
		sentences := must.Get(p.ReadUser(b.t.Context(), user))(b.t)
		for i, s := range sentences {
			all = append(all, record{user, p.Canary(user, i), fmt.Sprint(s)})
		}
	}
	return all
}

// of are the records of one user, or device.
func of(all []record, user int) (texts []string) {
	for _, r := range all {
		if r.user == user {
			texts = append(texts, fmt.Sprint(r.canary, r.tokens))
		}
	}
	return texts
}

// randomSizes draws the numbers of examples of some users, each at least the given one.
func randomSizes(rng *rand.Rand, least int) []int {
	sizes := make([]int, 3+rng.IntN(8))
	for i := range sizes {
		sizes[i] = least + rng.IntN(20)
	}
	return sizes
}

// randomParams divide users that have the number of examples of Needed.
func randomParams(rng *rand.Rand) SplitParams {
	p := SplitParams{Seed: rng.Uint64(), Prior: []Prior{Random, Chronological}[rng.IntN(2)], Share: []float64{0.5, 0.25, 0.7, 1. / 3}[rng.IntN(4)]}
	if rng.IntN(2) == 0 {
		p.Count = 1 + rng.IntN(3)
	}
	if rng.IntN(2) == 0 {
		p.Unseen, p.HeldOut = []float64{0, 0.25, 0.5}[rng.IntN(3)], 1./3
	}
	return p
}

func sorted(texts []string) []string { return slices.Sorted(slices.Values(texts)) }
