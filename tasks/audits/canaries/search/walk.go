package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
)

type Settings struct {
	// Batch is the number of nodes that an iteration expands.
	Batch int `json:"batch"`
	// Results is the number of best sequences that are kept.
	Results int `json:"results"`
	// Prove is the number of them that must be certain before the search ends. With 0 it ends after twice the
	// iterations of the first sequence, as in the paper.
	Prove int `json:"prove"`
	// Memory bounds the memory of the search, in bytes.
	Memory int64 `json:"memory"`
}

// Sequence is a sequence after the prefix, and its log-perplexity there in nats.
type Sequence struct {
	Tokens        []int32 `json:"tokens"`
	LogPerplexity float64 `json:"log_perplexity"`
}

func compareSequences(a, b Sequence) int {
	return cmp.Or(cmp.Compare(a.LogPerplexity, b.LogPerplexity), slices.Compare(a.Tokens, b.Tokens))
}

// Stop is the reason why a search ended.
type Stop string

// Only the first two are a complete search.
const (
	Proved     Stop = "proved"     // the requested number of sequences is certain to be the best
	Iterations Stop = "iterations" // twice the iterations of the first sequence, as in the paper
	Expansions Stop = "expansions" // the limit of expansions was reached
	Memory     Stop = "memory"     // part of the queue did not fit in memory
)

func (s Stop) complete() bool { return s == Proved || s == Iterations }

// Progress is the state of a search except for its nodes and its queue.
type Progress struct {
	// Expanded is the number of expanded nodes, in Iterations. First is the iteration that found the first
	// whole sequence, or 0.
	Expanded   int `json:"expanded"`
	Iterations int `json:"iterations"`
	First      int `json:"first"`
	// Dropped is the cost of the cheapest entry that did not fit in memory; nil if all did.
	Dropped *float64 `json:"dropped,omitempty"`
	// Best are the best whole sequences so far, the best first.
	Best []Sequence `json:"best"`
}

// walk is a shortest-path search (Carlini et al. 2019, section 8.1). Its result depends only on the tree and
// the settings, not on interruptions or on the kept states.
type walk struct {
	Settings
	Progress
	tree  *Tree
	nodes []node
	queue queue
	kept  keptStates
}

func newWalk(tree *Tree, s Settings) *walk {
	return &walk{Settings: s, tree: tree, queue: queue{{parent: -1, token: -1}}}
}

// certain returns the number of certain best sequences: those that cost less than every unexpanded entry.
func (w *walk) certain() int {
	least := w.dropped()
	if len(w.queue) > 0 {
		least = min(least, w.queue[0].cost)
	}
	n, _ := slices.BinarySearchFunc(w.Best, least, func(s Sequence, cost float64) int { return cmp.Compare(s.LogPerplexity, cost) })
	return n
}

func (w *walk) dropped() float64 {
	if w.Dropped == nil {
		return math.Inf(1)
	}
	return *w.Dropped
}

// limit returns the cost from which entries are irrelevant.
func (w *walk) limit() float64 {
	if len(w.Best) < w.Results {
		return math.Inf(1)
	}
	return w.Best[len(w.Best)-1].LogPerplexity
}

// ended returns the reason to stop after at most the given number of expansions, or "".
func (w *walk) ended(expansions int) Stop {
	exhausted := len(w.queue) == 0
	switch {
	case exhausted && w.Dropped == nil, w.certain() >= cmp.Or(w.Prove, w.Results):
		return Proved
	case w.Prove == 0 && w.First > 0 && w.Iterations >= 2*w.First:
		return Iterations
	case exhausted || w.queue[0].cost >= w.dropped() || int64(len(w.nodes))*nodeBytes > w.Memory/8:
		return Memory
	case w.Expanded >= expansions:
		return Expansions
	}
	return ""
}

// run searches until it has ended. It finishes an iteration, so that the limit does not change the path.
func (w *walk) run(ctx context.Context, expansions int, report func(expanded int)) (Searched, error) {
	w.kept.start(w.tree, min(w.Memory/8/w.stateBytes(), int64(max(0, expansions-w.Expanded)+w.Batch)))
	for {
		if stop := w.ended(expansions); stop != "" {
			return Searched{w.Progress, w.certain(), stop}, nil
		}
		if err := ctx.Err(); err != nil {
			return Searched{}, err
		}
		if err := w.iterate(); err != nil {
			return Searched{}, err
		}
		report(w.Expanded)
	}
}

func (w *walk) stateBytes() int64 { return int64(w.tree.Scorer.Model().StateBytes()) }

// expandedTogether bounds the memory of the model's output, which has the length of the vocabulary for
// each node.
const expandedTogether = 192

func (w *walk) iterate() error {
	w.Iterations++
	pulled := make([]entry, 0, min(w.Batch, len(w.queue)))
	for len(w.queue) > 0 && len(pulled) < w.Batch && w.queue[0].cost < w.dropped() {
		pulled = append(pulled, w.queue.pop())
	}
	for block := range slices.Chunk(pulled, expandedTogether) {
		if err := w.expand(block); err != nil {
			return err
		}
	}
	if w.First == 0 && len(w.Best) > 0 {
		w.First = w.Iterations
	}
	return nil
}

// expand makes nodes from entries, and entries or sequences from their children.
func (w *walk) expand(entries []entry) error {
	first := len(w.nodes)
	for _, e := range entries {
		w.nodes = append(w.nodes, node{e.parent, e.token})
	}
	w.Expanded += len(entries)
	states, err := w.states(first, len(entries))
	if err != nil {
		return err
	}
	rows, err := w.tree.Expand(states)
	if err != nil {
		return err
	}
	for i, e := range entries {
		if err := w.children(int32(first+i), e.cost, rows, i); err != nil {
			return err
		}
	}
	return nil
}

// children handles the children of a node of this cost, whose row is i.
func (w *walk) children(of int32, cost float64, rows Rows, i int) error {
	position := w.length(of)
	for _, token := range w.tree.Choices[position] {
		edge, err := rows.Cost(i, token)
		if err != nil {
			return err
		}
		if child := (entry{cost + edge, of, token}); w.tree.Leaf(position, token) {
			w.found(child)
		} else {
			w.enqueue(child)
		}
	}
	return nil
}

func (w *walk) found(leaf entry) {
	if leaf.cost > w.limit() {
		return
	}
	s := Sequence{append(w.path(leaf.parent), leaf.token), leaf.cost}
	at, _ := slices.BinarySearchFunc(w.Best, s, compareSequences)
	w.Best = slices.Insert(w.Best, at, s)
	w.Best = w.Best[:min(len(w.Best), w.Results)]
}

// enqueue keeps a relevant entry. When memory is full, it drops the more expensive half of the queue, and
// from then on every entry with at least that cost.
func (w *walk) enqueue(e entry) {
	if e.cost > w.limit() || e.cost >= w.dropped() {
		return
	}
	w.queue.push(e)
	if n := len(w.queue); n > 1 && int64(n)*entryBytes > w.Memory/4 {
		w.Dropped = new(w.queue.drop(n / 2))
	}
}

func (w *walk) length(n int32) int {
	length := 0
	for ; w.nodes[n].parent >= 0; n = w.nodes[n].parent {
		length++
	}
	return length
}

func (w *walk) path(n int32) []int32 {
	path := make([]int32, w.length(n), len(w.tree.Choices))
	for i := len(path) - 1; i >= 0; i-- {
		path[i], n = w.nodes[n].token, w.nodes[n].parent
	}
	return path
}

// states returns and keeps the states of the count newest nodes, starting with first.
func (w *walk) states(first, count int) (*models.States, error) {
	if first == 0 {
		return w.tree.Root, nil // one node, which always fits in memory
	}
	of := lists.Make(count, func(i int) int32 { return int32(first + i) })
	states, err := w.advance(of)
	if err != nil {
		return nil, err
	}
	for i, n := range of {
		if err := w.kept.keep(n, states, i); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// advance computes the states of nodes from those of their parents, and recomputes parents' states that are
// not kept.
func (w *walk) advance(of []int32) (*models.States, error) {
	states, tokens := w.tree.Scorer.Start(len(of)), make([]int32, len(of))
	var missing []int
	for i, n := range of {
		tokens[i] = w.nodes[n].token
		if parent := w.nodes[n].parent; w.kept.has(parent) {
			if err := w.kept.copy(states, i, parent); err != nil {
				return nil, err
			}
		} else {
			missing = append(missing, i)
		}
	}
	if err := w.recompute(states, of, missing); err != nil {
		return nil, err
	}
	return states, w.tree.Scorer.Step(states, tokens)
}

func (w *walk) recompute(states *models.States, of []int32, missing []int) error {
	if len(missing) == 0 {
		return nil
	}
	parents := lists.Distinct(lists.Map(missing, func(i int) int32 { return w.nodes[of[i]].parent }))
	before, err := w.advance(parents)
	if err != nil {
		return err
	}
	for _, i := range missing {
		j, _ := slices.BinarySearch(parents, w.nodes[of[i]].parent)
		if err := states.Set(i, before, j); err != nil {
			return err
		}
	}
	return nil
}

// keptStates are the states of the newest nodes, and of the root.
type keptStates struct {
	root   *models.States
	states *models.States // of node n at n modulo their number
	nodes  []int32        // the node of each; -1 if empty
}

func (k *keptStates) start(tree *Tree, n int64) {
	n = max(1, n)
	k.root, k.states = tree.Root, tree.Scorer.Start(int(n))
	k.nodes = slices.Repeat([]int32{-1}, int(n))
}

func (k *keptStates) has(n int32) bool { return n == 0 || k.nodes[int(n)%len(k.nodes)] == n }

func (k *keptStates) keep(n int32, states *models.States, i int) error {
	at := int(n) % len(k.nodes)
	k.nodes[at] = n
	return k.states.Set(at, states, i)
}

func (k *keptStates) copy(states *models.States, i int, n int32) error {
	if n == 0 {
		return states.Set(i, k.root, 0)
	}
	return states.Set(i, k.states, int(n)%len(k.nodes))
}

// Searched is the result of a search.
type Searched struct {
	Progress
	// Certain is the number of the best sequences that are certainly the best of all.
	Certain int  `json:"certain"`
	Stop    Stop `json:"stop"`
}

// Likeliest searches a tree for its most likely sequences, with a limit on expansions, and reports the number
// of expansions.
func Likeliest(ctx context.Context, tree *Tree, s Settings, expansions int, report func(expanded int)) (Searched, error) {
	return newWalk(tree, s).run(ctx, expansions, report)
}
