package enumeration

import (
	"context"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Numbers of states and edges that are advanced and scored together. They do not affect results.
const (
	blockStates = 768
	blockEdges  = 1 << 16
)

// space is the prefix tree of the sequences after a prefix, numbered from 0 in lexicographic order.
type space struct {
	choices [][]int32 // by position: possible tokens, ascending
	below   []int     // by depth: number of sequences below a node; all at 0, 1 at the last
}

func newSpace(choices [][]int32) *space {
	s := &space{choices, make([]int, len(choices)+1)}
	s.below[len(choices)] = 1
	for depth, among := range slices.Backward(choices) {
		s.below[depth] = s.below[depth+1] * len(among)
	}
	return s
}

// walk visits the sequences of a span depth first and block by block, so that its memory depends on their
// length but not on their number. Sequences share the states of a common beginning.
type walk struct {
	*space
	tree       *models.TreeScorer
	first, end int
	// limit prunes nodes that cost more: each sequence below a node costs at least as much as the node.
	limit float64
	// found receives the cost of every sequence within the limit.
	found  func(cost float64)
	levels []level // by depth
}

// level holds the visited nodes of one depth.
type level struct {
	nodes    []node
	states   *models.States // one for each node
	children []node
	edges    []models.Edge // to the children, or to the nodes' states
	logProbs []float32
}

// node is a beginning of sequences.
type node struct {
	models.Edge
	first int     // number of its first sequence
	cost  float64 // sum over its tokens, in nats
}

// enumerate calls found with the log-perplexity, after the state, of every sequence of the span that costs at
// most limit. Values equal those of audits.LogPerplexity to the last bit.
func (s *space) enumerate(ctx context.Context, tree *models.TreeScorer, span audits.Span, state *models.States, limit float64, found func(cost float64)) error {
	w := &walk{space: s, tree: tree, first: span.First, end: span.First + span.Count, limit: limit, found: found, levels: make([]level, len(s.choices))}
	for depth := range w.levels {
		w.levels[depth].states = new(models.States)
	}
	w.levels[0].states, w.levels[0].nodes = state, []node{{}}
	return w.visit(ctx, 0)
}

func (w *walk) visit(ctx context.Context, depth int) error {
	l := &w.levels[depth]
	atOnce := max(1, blockEdges/len(w.choices[depth]))
	for from := 0; from < len(l.nodes); from += atOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		children, err := w.extend(depth, from, min(from+atOnce, len(l.nodes)))
		if err != nil {
			return err
		}
		if err := w.descend(ctx, depth+1, children); err != nil {
			return err
		}
	}
	return nil
}

// extend returns the children of the nodes that are in the span and within the limit.
func (w *walk) extend(depth, from, to int) ([]node, error) {
	l := &w.levels[depth]
	l.children, l.edges = l.children[:0], l.edges[:0]
	for parent := from; parent < to; parent++ {
		first := l.nodes[parent].first
		for _, token := range w.choices[depth] {
			if first < w.end && first+w.below[depth+1] > w.first {
				edge := models.Edge{Parent: parent, Token: token}
				l.children, l.edges = append(l.children, node{edge, first, l.nodes[parent].cost}), append(l.edges, edge)
			}
			first += w.below[depth+1]
		}
	}
	l.logProbs = slices.Grow(l.logProbs[:0], len(l.edges))[:len(l.edges)]
	if err := w.tree.LogProbs(l.states, l.edges, l.logProbs); err != nil {
		return nil, err
	}
	kept := l.children[:0]
	for i, c := range l.children {
		c.cost += audits.Surprisal(l.logProbs[i])
		switch {
		case c.cost <= w.limit:
			kept = append(kept, c)
		case !(c.cost > w.limit):
			return nil, tasks.Permanent(&models.DivergedError{Name: "log-perplexity of a sequence", Value: c.cost})
		}
	}
	return kept, nil
}

func (w *walk) descend(ctx context.Context, depth int, nodes []node) error {
	if depth == len(w.choices) {
		for _, n := range nodes {
			w.found(n.cost)
		}
		return nil
	}
	above, l := &w.levels[depth-1], &w.levels[depth]
	for len(nodes) > 0 {
		l.nodes = nodes[:min(blockStates, len(nodes))]
		nodes = nodes[len(l.nodes):]
		l.edges = l.edges[:0]
		for _, n := range l.nodes {
			l.edges = append(l.edges, n.Edge)
		}
		if err := w.tree.Advance(l.states, above.states, l.edges); err != nil {
			return err
		}
		if err := w.visit(ctx, depth); err != nil {
			return err
		}
	}
	return nil
}
