package randomsampling

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// pilotSizes are the numbers of first draws from which a large rank may be estimated.
var pilotSizes = []int{20_000, 200_000}

// minPilotHits is the minimum number of a pilot's references at or below a canary for an estimate. With
// fewer, the next larger set is ranked.
const minPilotHits = 200

// References is a set of random sequences in lexicographic order, so that those with common first words share
// their scoring.
type References struct {
	length int
	tokens []int32 // [count, length]
	drawn  []int32 // [count]: index of each draw; nil before sorting
}

func (r *References) Count() int { return len(r.tokens) / r.length }

func (r *References) row(i int) []int32 { return r.tokens[i*r.length : (i+1)*r.length] }

func drawReferences(seed uint64, count, length int, excluded [][]int32, draw sampler) *References {
	r := &References{length: length, tokens: make([]int32, 0, count*length)}
	for row := range eachReference(seed, count, length, excluded, draw) {
		r.tokens = append(r.tokens, row...)
	}
	return r
}

// DrawReferences draws the references of an audit in order: each word uniform among the possible ones at its
// place after the prefix, except the canaries. The task has audits.CanariesInput. A sequence is valid until
// the next.
func (p *Params) DrawReferences(ctx context.Context, t *tasks.Task, ordinary int, list []population.Placement) (iter.Seq[[]int32], error) {
	choices, excluded, err := p.readChoices(ctx, t, ordinary, list)
	return p.each(choices, excluded), err
}

// DrawIn draws as DrawReferences does, with a given vocabulary.
func (p *Params) DrawIn(v *text.Vocabulary, list []population.Placement) (iter.Seq[[]int32], error) {
	switch err := p.Check(v.Ordinary()); {
	case err != nil:
		return nil, err
	case p.Prefix < 0 || p.Prefix >= p.Words:
		return nil, fmt.Errorf("canaries %q after a prefix of %d: expected from 0 to %d, which leaves something to find", p.Space, p.Prefix, p.Words-1)
	}
	choices, err := p.ChoicesIn(v)
	if err != nil {
		return nil, err
	}
	choices = choices[p.Prefix:]
	excluded := suffixes(list, p.Prefix, choices)
	return p.each(choices, excluded), p.checkRoom(v.Ordinary(), len(excluded))
}

// readChoices returns the tokens of each place of a reference, and the excluded canaries.
func (p *Params) readChoices(ctx context.Context, t *tasks.Task, ordinary int, list []population.Placement) (choices, excluded [][]int32, err error) {
	if choices, err = audits.SuffixChoices(ctx, t, p.Space, p.Prefix, ordinary); err != nil {
		return nil, nil, err
	}
	excluded = suffixes(list, p.Prefix, choices)
	if err := p.checkRoom(ordinary, len(excluded)); err != nil {
		return nil, nil, tasks.Permanent(err)
	}
	return choices, excluded, nil
}

func (p *Params) each(choices, excluded [][]int32) iter.Seq[[]int32] {
	return eachReference(p.Seed, p.References, len(choices), excluded, p.Sampler(choices, p.Prefix))
}

// checkRoom checks that there are enough sequences after the prefix.
func (p *Params) checkRoom(ordinary, canaries int) error {
	room := p.Sequences(ordinary, p.Prefix)
	if float64(p.References+canaries) <= room {
		return nil
	}
	return fmt.Errorf("%d references and %d canaries, which differ after the prefix; expected at most the %.0f sequences that may follow it: use fewer references (of an audit: --references), a shorter prefix or longer canaries", p.References, canaries, room)
}

// suffixes returns the suffixes of canaries that could be drawn as references.
func suffixes(all []population.Placement, prefix int, choices [][]int32) [][]int32 {
	drawn := lists.Filter(all, func(c population.Placement) bool {
		return len(c.Tokens) == prefix+len(choices) && among(c.Tokens[prefix:], choices)
	})
	return lists.Map(drawn, func(c population.Placement) []int32 { return c.Tokens[prefix:] })
}

func among(tokens []int32, choices [][]int32) bool {
	for i, token := range tokens {
		if _, found := slices.BinarySearch(choices[i], token); !found {
			return false
		}
	}
	return true
}

type sampler = func(rng *rand.Rand, row []int32)

// eachReference draws count sequences of a length, and redraws those in excluded. A smaller set has the first
// draws of a larger one. A sequence is valid until the next.
func eachReference(seed uint64, count, length int, excluded [][]int32, draw sampler) iter.Seq[[]int32] {
	byFirst := map[int32][][]int32{}
	for _, suffix := range excluded {
		byFirst[suffix[0]] = append(byFirst[suffix[0]], suffix)
	}
	return func(yield func([]int32) bool) {
		rng := seeds.Stream(seed, seeds.References, uint64(length))
		row := make([]int32, length)
		for range count {
			for draw(rng, row); contains(byFirst[row[0]], row); {
				draw(rng, row)
			}
			if !yield(row) {
				return
			}
		}
	}
}

func contains(rows [][]int32, row []int32) bool {
	return slices.ContainsFunc(rows, func(other []int32) bool { return slices.Equal(other, row) })
}

// first returns a sorted copy of the first n sequences of a set in the order of its draws.
func (r *References) first(n int) *References {
	sorted := &References{length: r.length, tokens: make([]int32, 0, n*r.length), drawn: make([]int32, n)}
	places := lists.Make(n, func(i int) place { return place{r.key(i), int32(i)} })
	slices.SortFunc(places, func(a, b place) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Or(slices.Compare(r.row(int(a.draw)), r.row(int(b.draw))), cmp.Compare(a.draw, b.draw))
	})
	for i, p := range places {
		sorted.drawn[i] = p.draw
		sorted.tokens = append(sorted.tokens, r.row(int(p.draw))...)
	}
	return sorted
}

// place is a sequence during sorting. Few share a key, so that most comparisons do not read the sequences.
type place struct {
	key  uint64
	draw int32
}

func (r *References) key(i int) uint64 {
	key := uint64(r.tokens[i*r.length]) << 32
	if r.length > 1 {
		key |= uint64(r.tokens[i*r.length+1])
	}
	return key
}

// nested returns the sorted pilots that are smaller than the set, ascending, and the sorted set.
func (r *References) nested() []*References {
	var sets []*References
	for _, n := range pilotSizes {
		if n < r.Count() {
			sets = append(sets, r.first(n))
		}
	}
	return append(sets, r.first(r.Count()))
}

// readReferences draws the set and its pilots once for all audits of a worker.
func readReferences(ctx context.Context, t *tasks.Task, p *Params, ordinary int, list []population.Placement) ([]*References, error) {
	choices, excluded, err := p.readChoices(ctx, t, ordinary, list)
	if err != nil {
		return nil, err
	}
	return tasks.Memoize(t, referencesKey(p, choices, excluded), "references", func() ([]*References, int64, error) {
		sets := drawReferences(p.Seed, p.References, len(choices), excluded, p.Sampler(choices, p.Prefix)).nested()
		size := int64(0)
		for _, set := range sets {
			size += int64(4 * (len(set.tokens) + len(set.drawn)))
		}
		return sets, size, nil
	})
}

// referencesKey returns the key of a set in a worker's memory.
func referencesKey(p *Params, choices, excluded [][]int32) storage.Key {
	h := tasks.NewHasher("references")
	h.String(fmt.Sprint(p.Seed, p.References, p.WholeWords(), p.Symbols, choices, excluded))
	return h.Sum()
}
