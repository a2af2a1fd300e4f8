package probabilisticextraction

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

type Fields struct {
	// Probability that a sample of the model after a canary's prefix completes the canary.
	ProbabilisticExtraction *Block `json:"probabilistic_extraction,omitempty" source:"Hayes et al. 2024"`
}

type Block struct {
	audits.PrefixField
	// Further prefix lengths, for sampling and greedy decoding: one or a list.
	Prefixes []int `json:"prefixes,omitempty" range:"[1,999]" unit:"words (byte level: bytes)" source:"Carlini et al. 2022"`
	// Temperature that logits are divided by before the softmax.
	Temperature float64 `json:"temperature" default:"1" range:"(0,1000]"`
	// Most probable tokens that are drawn from. Absent: all.
	TopK *int `json:"top_k,omitempty" range:"[1,1000000]" unit:"tokens"`
	// Samples drawn to extract a canary, n.
	Queries int `json:"queries" default:"1000" range:"[1,1000000000000]" unit:"samples" also:"n"`
	// Probability p that n samples contain an extractable canary.
	Chance numbers.Probability `json:"chance" default:"50%" range:"(0,1)" also:"p"`
}

const path = "audit.probabilistic_extraction"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	f.ProbabilisticExtraction.CompletePrefix(s, path, given)
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	b := f.ProbabilisticExtraction
	b.CheckPrefix(s, path, fail)
	if s.Canaries == nil {
		return
	}
	shortest, source := math.MaxInt, 0
	for _, g := range s.Canaries.Groups {
		shortest = min(shortest, g.Words)
		if g.Target != "" {
			source = max(source, g.SourceWords())
		}
	}
	for i, prefix := range b.Prefixes {
		paths := []string{fmt.Sprintf("%s.prefixes[%d]", path, i), "canaries.words", "canaries.format"}
		switch {
		case prefix >= shortest:
			fail(paths, "is %d; expected less than the length of a canary, %d, so that a word is left to extract", prefix, shortest)
		case prefix < source:
			fail(paths, "is %d; expected at least %d, the source and the separator: the target is what is predicted", prefix, source)
		}
	}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	return b.Node(Kind, fmt.Sprintf("probabilistic extraction after %d", round), f.ProbabilisticExtraction.params(b.Setting().Canaries.Groups),
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: audits.PlacementsInput, Key: b.Placements()})
}

func (b *Block) params(groups []audits.Group) Params {
	p := Params{Sampling: models.Sampling{Temperature: b.Temperature}, Queries: b.Queries, Chance: b.Chance.Float64()}
	for _, g := range groups {
		prefixes := append([]int{g.Prefix(b.Prefix)}, b.Prefixes...)
		slices.Sort(prefixes)
		p.Groups = append(p.Groups, Group{First: g.First, Count: g.Count, Prefix: g.Prefix(b.Prefix), Prefixes: slices.Compact(prefixes)})
	}
	if b.TopK != nil {
		p.TopK = *b.TopK
	}
	return p
}

func (f *Fields) States(s *audits.Setting) float64 {
	return s.Canaries.Sum(func(g audits.Group) float64 { return float64(g.Count * g.Words) })
}

// byChance bounds the probability that more than k of n unmemorized canaries are extractable.
func byChance(s *audits.Setting, k, n, _ int) float64 {
	f, ok := audits.FieldsOf[*Fields](s)
	if !ok {
		return 0
	}
	b := f.ProbabilisticExtraction
	return audits.BinomialTail(k, n, extractableByChance(b.Queries, b.Chance.Float64(), s.Canaries.MinSequences(s.Ordinary, b.Prefix)))
}

// extractableByChance bounds the probability that the samples contain an unmemorized canary with at least the
// chance. The probabilities of samples sum to at most 1, so at most 1/p sequences have a probability of p or
// more, and an unmemorized canary is any of the sequences.
func extractableByChance(queries int, chance, sequences float64) float64 {
	least := -math.Expm1(math.Log1p(-chance) / float64(queries))
	return min(1, 1/(least*sequences))
}
