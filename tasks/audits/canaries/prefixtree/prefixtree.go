// Package prefixtree is the tree of the sequences that may follow a prefix (Carlini et
// al. 2019, section 8.1): a node is the beginning of a sequence, an edge a token, and the
// edge's cost the surprisal of the token after what stands before it. The cost of a path
// is the log-perplexity of its sequence, in nats. Greedy decoding, beam search and
// shortest-path search walk it.
//
// The tree has no nodes of its own. A walk keeps a batch of states, one for each node
// that it stands at:
//
//	states := tree.Root()                          // one state: after the prefix
//	rows, err := tree.Expand(states)               // what follows each state
//	cost, err := rows.Cost(0, tree.Choices(0)[2])  // of an edge
//	err = tree.Follow(next, states, parents, tokens)
//
// A state's numbers do not depend on what it is handled with, so neither does the cost of
// a path, to the last bit.
package prefixtree

import (
	"fmt"
	"math"

	"coalmine/models"
	"coalmine/tasks/audits"
)

// Tree is the tree of sequences of one length, or of those that a token ends. It is immutable.
type Tree struct {
	scorer  *models.Scorer
	choices [][]int32
	root    *models.States
	end     int32 // noEnd where only the length ends a sequence
}

const noEnd = -1

// New returns the tree of the sequences that have, at each position after the prefix, one of its
// choices.
func New(scorer *models.Scorer, prefix []int32, choices [][]int32) (*Tree, error) {
	if len(choices) == 0 {
		return nil, fmt.Errorf("a prefix tree without a position after its prefix of %d tokens", len(prefix))
	}
	root, err := audits.PrefixState(scorer, prefix)
	if err != nil {
		return nil, err
	}
	return &Tree{scorer, choices, root, noEnd}, nil
}

// NewEnding is like New for sequences that also end with the first token end.
func NewEnding(scorer *models.Scorer, prefix []int32, choices [][]int32, end int32) (*Tree, error) {
	t, err := New(scorer, prefix, choices)
	if err != nil {
		return nil, err
	}
	t.end = end
	return t, nil
}

// Depth is the length of a sequence without the prefix; the largest if a token ends them.
func (t *Tree) Depth() int { return len(t.choices) }

// Leaf reports whether a sequence ends with this token at a position.
func (t *Tree) Leaf(position int, token int32) bool {
	return position+1 == t.Depth() || token == t.end
}

// Choices are the tokens of a position, counted from 0 after the prefix, ascending.
func (t *Tree) Choices(position int) []int32 { return t.choices[position] }

// Leaves is the number of sequences of a tree without an end.
func (t *Tree) Leaves() float64 {
	n := 1.0
	for _, among := range t.choices {
		n *= float64(len(among))
	}
	return n
}

func (t *Tree) Scorer() *models.Scorer { return t.scorer }

// Root is the state after the prefix. The caller must not change it.
func (t *Tree) Root() *models.States { return t.root }

// Follow sets next to the states that tokens lead to, each from the state of its parent. It reuses the
// memory of next, which must be another batch.
func (t *Tree) Follow(next, states *models.States, parents []int, tokens []int32) error {
	if err := next.Gather(states, parents); err != nil {
		return err
	}
	return t.scorer.Step(next, tokens)
}

// Rows are the log probabilities of every token after each of some states.
type Rows struct {
	logProbs   []float32
	vocabulary int
}

// Expand evaluates the model after each state.
func (t *Tree) Expand(states *models.States) (Rows, error) {
	r := Rows{vocabulary: t.scorer.Model().Config().Vocabulary}
	r.logProbs = make([]float32, states.Len()*r.vocabulary)
	return r, t.scorer.LogProbRows(states, r.logProbs)
}

// LogProbs are the natural logarithms of the probabilities of all tokens after state i.
func (r Rows) LogProbs(i int) []float32 {
	return r.logProbs[i*r.vocabulary : (i+1)*r.vocabulary]
}

// Cost is the surprisal of a token after state i, in nats, at least 0. The error is a
// *models.DivergedError if the model's numbers are not finite.
func (r Rows) Cost(i int, token int32) (float64, error) {
	cost := audits.Surprisal(r.LogProbs(i)[token])
	if math.IsNaN(cost) || math.IsInf(cost, 0) {
		return 0, &models.DivergedError{What: "log probability", Value: cost}
	}
	return cost, nil
}

// Cost is the log-perplexity of a sequence after the prefix, in nats. Its tokens may be any of the
// vocabulary.
func (t *Tree) Cost(tokens []int32) (float64, error) {
	states, sum := t.root, 0.0
	for i, token := range tokens {
		rows, err := t.Expand(states)
		if err != nil {
			return 0, err
		}
		cost, err := rows.Cost(0, token)
		if err != nil {
			return 0, err
		}
		if sum += cost; i+1 == len(tokens) {
			break
		}
		after := new(models.States)
		if err := t.Follow(after, states, []int{0}, []int32{token}); err != nil {
			return 0, err
		}
		states = after
	}
	return sum, nil
}
