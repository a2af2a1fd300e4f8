package audits

import (
	"context"

	"coalmine/models"
	"coalmine/tasks/datasets"
)

// scoringStates is how many sequences are advanced together. It does not show
// in any result: a state's numbers do not depend on its neighbours.
const scoringStates = 192

// ranker counts the references that a model finds at most as surprising as a
// canary, after the canary's prefix. It walks the sorted references as a tree:
// sequences with common first words share the steps through them, and a branch
// ends where its words alone already cost more than the whole canary, since
// every further word can only add to that. The count is exact.
type ranker struct {
	scorer     *models.Scorer
	vocabulary int
	references *References
	bound      float64
	found      int64
	scored     int64 // states advanced, for progress
	levels     []level
}

// level is the memory of one depth of the tree.
type level struct {
	states *models.States
	rows   []float32
}

// branch is a set of references with common first words: [first, end) of the
// sorted set, and the log-perplexity of those words in nats.
type branch struct {
	first, end int
	cost       float64
	parent     int   // row of the state before its last word
	word       int32 // its last word
}

func newRanker(scorer *models.Scorer, references *References) *ranker {
	return &ranker{
		scorer:     scorer,
		vocabulary: scorer.Model().Config().Vocabulary,
		references: references,
		levels:     make([]level, references.length),
	}
}

// count returns how many references have a log-perplexity of at most bound
// after the state, which is that of begin and prefix.
func (r *ranker) count(ctx context.Context, state *models.States, bound float64) (int64, error) {
	r.bound, r.found = bound, 0
	root := []branch{{first: 0, end: r.references.Count()}}
	err := r.visit(ctx, 0, state, root)
	return r.found, err
}

// visit handles branches that end at depth words; states holds theirs, one each.
func (r *ranker) visit(ctx context.Context, depth int, states *models.States, branches []branch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l := &r.levels[depth]
	l.rows = grow(l.rows, len(branches)*r.vocabulary)
	if err := r.scorer.LogProbRows(states, l.rows); err != nil {
		return err
	}
	r.scored += int64(len(branches))
	var children []branch
	for i, b := range branches {
		children = r.split(children, depth, b, i, l.rows[i*r.vocabulary:(i+1)*r.vocabulary])
	}
	if depth+1 == r.references.length {
		for _, c := range children {
			r.found += int64(c.end - c.first)
		}
		return nil
	}
	return r.descend(ctx, depth, states, children)
}

// split appends the children of a branch that can still win: one for each
// distinct next word, whose log probabilities are in row.
func (r *ranker) split(children []branch, depth int, b branch, parent int, row []float32) []branch {
	for first := b.first; first < b.end; {
		word := r.references.row(first)[depth]
		end := first + 1
		for end < b.end && r.references.row(end)[depth] == word {
			end++
		}
		if cost := b.cost + surprise(row[word]); cost <= r.bound {
			children = append(children, branch{first, end, cost, parent, word})
		}
		first = end
	}
	return children
}

// descend advances the children's states by their words, a block at a time.
func (r *ranker) descend(ctx context.Context, depth int, states *models.States, children []branch) error {
	var parents []int
	var words []int32
	for len(children) > 0 {
		block := children[:min(scoringStates, len(children))]
		children = children[len(block):]
		parents, words = parents[:0], words[:0]
		for _, b := range block {
			parents, words = append(parents, b.parent), append(words, b.word)
		}
		l := &r.levels[depth]
		if l.states == nil {
			l.states = r.scorer.Start(0)
		}
		if err := l.states.Gather(states, parents); err != nil {
			return err
		}
		if err := r.scorer.Step(l.states, words); err != nil {
			return err
		}
		if err := r.visit(ctx, depth+1, l.states, block); err != nil {
			return err
		}
	}
	return nil
}

// surprise is -log p in nats, never negative: rounding may put a certain word
// a hair above probability 1, and a branch must never become cheaper.
func surprise(logProb float32) float64 { return max(0, -float64(logProb)) }

// prefixState is the state after begin and the words.
func prefixState(scorer *models.Scorer, words []int32) (*models.States, error) {
	state := scorer.Start(1)
	for _, w := range append([]int32{datasets.Begin}, words...) {
		if err := scorer.Step(state, []int32{w}); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// logPerplexity is the sum of -log p over the words, in nats, each after the
// ones before it (Carlini et al. 2019, definition 1; Thakkar et al. 2020,
// section 4.1). It takes the same path through the kernels as the references.
// The state is advanced.
func logPerplexity(scorer *models.Scorer, state *models.States, words []int32) (float64, error) {
	sum := 0.0
	row := make([]float32, scorer.Model().Config().Vocabulary)
	for i, w := range words {
		if err := scorer.LogProbRows(state, row); err != nil {
			return 0, err
		}
		sum += surprise(row[w])
		if i+1 < len(words) {
			if err := scorer.Step(state, []int32{w}); err != nil {
				return 0, err
			}
		}
	}
	return sum, nil
}

// grow returns a slice of n elements with arbitrary values, reusing x's memory.
func grow[T any](x []T, n int) []T {
	if cap(x) < n {
		return make([]T, n)
	}
	return x[:n]
}
