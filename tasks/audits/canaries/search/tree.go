package search

import (
	"fmt"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/tasks/audits"
)

// Tree is the tree of the sequences after a prefix (Carlini et al. 2019, section 8.1): a node is the
// beginning of a sequence, and an edge a token that costs its surprisal. The cost of a path is the
// log-perplexity of its sequence, in nats. The tree stores no nodes: a walk keeps a batch of states, one for
// each current node. A state's numbers do not depend on its batch, so the cost of a path does not either, to
// the last bit.
type Tree struct {
	Scorer *models.Scorer
	// Choices are the tokens of each position after the prefix, ascending.
	Choices [][]int32
	// Root is the state after the prefix.
	Root *models.States
	ends []int32
}

// NewTree returns the tree of the sequences that have, at each position after the prefix, one of its choices.
// Sequences also end with the first token in ends.
func NewTree(scorer *models.Scorer, prefix []int32, choices [][]int32, ends ...int32) (*Tree, error) {
	if len(choices) == 0 {
		return nil, fmt.Errorf("a prefix tree without a position after its prefix of %d tokens", len(prefix))
	}
	root, err := audits.PrefixState(scorer, prefix)
	if err != nil {
		return nil, err
	}
	return &Tree{scorer, choices, root, ends}, nil
}

// Leaf reports whether a sequence ends with this token at a position.
func (t *Tree) Leaf(position int, token int32) bool {
	return position+1 == len(t.Choices) || slices.Contains(t.ends, token)
}

// Leaves returns the number of sequences of a tree without ends.
func (t *Tree) Leaves() float64 {
	n := 1.0
	for _, among := range t.Choices {
		n *= float64(len(among))
	}
	return n
}

// Follow sets next to the states that tokens lead to, each from the state of its parent. It reuses the memory
// of next, which must be another batch.
func (t *Tree) Follow(next, states *models.States, parents []int, tokens []int32) error {
	if err := next.Gather(states, parents); err != nil {
		return err
	}
	return t.Scorer.Step(next, tokens)
}

// Rows are the log probabilities of every token after each of some states.
type Rows struct {
	logProbs   []float32
	vocabulary int
}

// Expand evaluates the model after each state.
func (t *Tree) Expand(states *models.States) (Rows, error) {
	r := Rows{vocabulary: t.Scorer.Model().Config().Vocabulary}
	r.logProbs = make([]float32, states.Len()*r.vocabulary)
	return r, t.Scorer.LogProbRows(states, r.logProbs)
}

// LogProbs returns the natural logarithms of the probabilities of all tokens after state i.
func (r Rows) LogProbs(i int) []float32 {
	return r.logProbs[i*r.vocabulary : (i+1)*r.vocabulary]
}

// Cost returns the surprisal of a token after state i, in nats, at least 0. The error is a
// *models.DivergedError if the model's numbers are not finite.
func (r Rows) Cost(i int, token int32) (float64, error) {
	cost := audits.Surprisal(r.LogProbs(i)[token])
	if !numbers.IsFinite(cost) {
		return 0, &models.DivergedError{Name: "log probability", Value: cost}
	}
	return cost, nil
}

// Cost returns the log-perplexity of a sequence after the prefix, in nats. Its tokens may be any tokens of
// the vocabulary.
func (t *Tree) Cost(tokens []int32) (float64, error) {
	states, sum := t.Root, 0.0
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
