package models

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// TreeScorer scores the sequences of a prefix tree (a trie): sequences with a common
// prefix share the node at its end, whose state is computed once for all of them. Results depend
// only on the states and tokens, bit for bit, not on other edges of a batch. It is not safe for
// concurrent use: one TreeScorer per goroutine, over shared Tables.
type TreeScorer struct {
	tables *Tables
	work   Work

	// A block of edges, gathered by their parents.
	parents []int     // the states that the edges start from
	place   []int     // by edge: index of its parent in parents
	outputs []float32 // [parents, out], or [parents, recalled()] of the lowest layer
	// The cell along each edge.
	vectors      []float32 // [block, embedding] of the tokens; unused if inputs are tabulated
	inputs       []float32 // [block, gates]: the inputs' share of the gates; unused like vectors
	recurrent    []float32 // [parents, gates]: the outputs' share of the gates
	gruCandidate []float32 // [parents, units]: the outputs' share of a GRU's candidate activation
	gates        []float32 // [gates] of one edge
	squash       []float32 // [units] of one edge
	emitted      []float32 // [block, units]: the cells' emissions, before the projection
	// Softmax.
	logits  []float32  // [block, tileWidth or merged tokens]
	targets []float32  // by edge: its token's logit
	sums    []Interval // by parent: bounds of the normaliser
	rounded kernels.RoundedRows
	normaliser
	// A pruned advance.
	errors     []float64 // by parent: bounds the error of the coarse bound's recurrent product
	stride     int       // of the rows of recurrent for the coarse bound
	remaining  []int     // numbers of the edges that remain after coarse bounds
	edges      []Edge    // the remaining edges
	candidates []Candidate
	kept       []int // the remaining edges that are not pruned later
}

// Edge is an edge of the prefix tree: from the node of a state to its child by a token.
type Edge struct {
	Parent int // index of the state
	Token  int32
}

func compareEdges(a, b Edge) int {
	return cmp.Or(cmp.Compare(a.Parent, b.Parent), cmp.Compare(a.Token, b.Token))
}

// Work counts the operations of a TreeScorer.
type Work struct {
	// Advanced is the number of new states.
	Advanced int64
	// Exact counts states with a computed normaliser, Bounded those with a bounded one. LookedAhead
	// is the number of edges given to AdvancePruned.
	Exact, Bounded, LookedAhead int64
	// FLOPs counts the operations of all matrix products, including quantised ones.
	FLOPs float64
}

// Add adds the work of another scorer.
func (w *Work) Add(other Work) {
	w.Advanced += other.Advanced
	w.Exact += other.Exact
	w.Bounded += other.Bounded
	w.LookedAhead += other.LookedAhead
	w.FLOPs += other.FLOPs
}

// NewTreeScorer returns a tree scorer with no memory yet.
func (t *Tables) NewTreeScorer() *TreeScorer { return &TreeScorer{tables: t} }

// Work returns the work of the tree scorer so far.
func (ts *TreeScorer) Work() Work { return ts.work }

// Scorer returns the scorer with the parameters that score the tree.
func (ts *TreeScorer) Scorer() *Scorer { return ts.tables.scorer }

// LogProbs sets dst[i] to the log probability of edge i, bit for bit as Scorer.LogProbs. Edges must
// be sorted by parent and token. The normaliser of a parent is computed once for all its edges.
func (ts *TreeScorer) LogProbs(states *States, edges []Edge, dst []float32) error {
	return eachBlock(ts, states, edges, dst, ts.reduce)
}

// Interval contains a surprisal (-log p) or a sum of them, in nats. It is exact if its
// ends are equal.
type Interval struct{ Low, High float64 }

// Bounds sets dst[i] to an interval that contains -log p of edge i, as LogProbs computes
// it. Its ends are at least 0; after an output that is not finite they are NaN or exclude nothing.
// Edges must be sorted, and normaliser must come from the same tables. On a large vocabulary Bounds
// takes a few hundredths of the time of LogProbs.
func (ts *TreeScorer) Bounds(normaliser *NormaliserBounds, states *States, edges []Edge, dst []Interval) error {
	return eachBlock(ts, states, edges, dst, func(edges []Edge, dst []Interval) { ts.bound(normaliser, edges, dst) })
}

// eachBlock checks edges after states, gathers the outputs of one block of parents after the other, and scores their edges.
func eachBlock[T any](ts *TreeScorer, states *States, edges []Edge, dst []T, score func(edges []Edge, dst []T)) error {
	if err := ts.check(states, edges, len(dst)); err != nil {
		return err
	}
	for len(edges) > 0 {
		n := ts.gather(states.top(), ts.width(), edges, true, scoringBlock)
		score(edges[:n], dst[:n])
		edges, dst = edges[n:], dst[n:]
	}
	return nil
}

func (ts *TreeScorer) check(states *States, edges []Edge, room int) error {
	s := ts.tables.scorer
	if err := s.checkPredicts(states, states.Len(), "states"); err != nil {
		return err
	}
	if err := checkLength("the destination", room, len(edges)); err != nil {
		return err
	}
	if !slices.IsSortedFunc(edges, compareEdges) {
		return fmt.Errorf("edges are not sorted: sort them by parent, then token")
	}
	for _, e := range edges {
		if e.Parent < 0 || e.Parent >= states.Len() || e.Token < 0 || int(e.Token) >= s.model.config.Vocabulary {
			return fmt.Errorf("edge of state %d by token %d: want one of %d states and %d tokens", e.Parent, e.Token, states.Len(), s.model.config.Vocabulary)
		}
	}
	return nil
}

// gather collects the outputs, or the recalled values, of at most most parents, those of the first
// edges, and returns the number of these edges. Edges of one parent share its output if share is
// set; otherwise each gets a copy.
func (ts *TreeScorer) gather(outputs []float32, width int, edges []Edge, share bool, most int) int {
	ts.parents, ts.place = ts.parents[:0], ts.place[:0]
	for _, e := range edges {
		if last := len(ts.parents) - 1; last < 0 || !share || ts.parents[last] != e.Parent {
			if len(ts.parents) == most {
				break
			}
			ts.parents = append(ts.parents, e.Parent)
		}
		ts.place = append(ts.place, len(ts.parents)-1)
	}
	ts.outputs = grow(ts.outputs, len(ts.parents)*width)
	gatherStates(ts.outputs, outputs, width, ts.parents)
	return len(ts.place)
}

func (ts *TreeScorer) width() int { return ts.tables.scorer.model.config.outputWidth() }

// reduce computes the log probabilities of edges from the gathered outputs, tile by tile.
func (ts *TreeScorer) reduce(edges []Edge, dst []float32) {
	s, rows := ts.tables.scorer, len(ts.parents)
	ts.logits, ts.targets = grow(ts.logits, rows*tileWidth), grow(ts.targets, len(edges))
	ts.reset(rows, len(s.tiles))
	next := ts.firstEdges()
	for k := range s.tiles {
		from, to := tileBounds(s.model.config.Vocabulary, k)
		columns := to - from
		s.tileLogits(k, rows, ts.outputs, ts.logits, columns)
		for i := range rows {
			logits := row(ts.logits, i, columns)
			for ; next[i] < len(edges) && ts.place[next[i]] == i && int(edges[next[i]].Token) < to; next[i]++ {
				ts.targets[next[i]] = logits[int(edges[next[i]].Token)-from]
			}
			ts.add(i, k, logits)
		}
	}
	ts.finish()
	for i := range edges {
		dst[i] = ts.logProb(ts.place[i], ts.targets[i])
	}
	ts.work.Exact += int64(rows)
	ts.work.FLOPs += 2 * float64(rows) * float64(s.model.config.Vocabulary) * float64(ts.width())
}

func (ts *TreeScorer) firstEdges() []int {
	first := make([]int, 0, len(ts.parents))
	for i, parent := range ts.place {
		if parent == len(first) {
			first = append(first, i)
		}
	}
	return first
}

// bound bounds the surprisals of edges from the gathered outputs.
func (ts *TreeScorer) bound(normaliser *NormaliserBounds, edges []Edge, dst []Interval) {
	t, width := ts.tables, ts.width()
	rows, columns := len(ts.parents), len(normaliser.ofOutputs.bias)
	ts.logits, ts.sums = grow(ts.logits, rows*columns), grow(ts.sums, rows)
	kernels.GemmPackedBias(false, rows, ts.outputs, width, &normaliser.ofOutputs.vectors, normaliser.ofOutputs.bias, ts.logits, columns)
	for i := range ts.sums {
		h := row(ts.outputs, i, width)
		squared := kernels.SquaredNorm(h)
		margin := t.margin(math.Sqrt(squared))
		ts.sums[i] = Interval{kernels.LogSumExp(row(ts.logits, i, columns)) - margin, normaliser.upper.logSum(h, squared) + margin}
	}
	ts.boundEdges(edges, dst)
	ts.work.Bounded += int64(rows)
	ts.work.FLOPs += 2 * float64(rows) * float64(columns) * float64(width)
}

// boundEdges bounds the surprisals of edges from the gathered outputs and the bounds of their normalisers.
func (ts *TreeScorer) boundEdges(edges []Edge, dst []Interval) {
	t, width := ts.tables, ts.width()
	for i, e := range edges {
		sum := ts.sums[ts.place[i]]
		logit := kernels.Dot(row(ts.outputs, ts.place[i], width), row(t.scorer.weights.output, int(e.Token), width))
		logit += float64(t.scorer.weights.outputBias[e.Token])
		dst[i] = Interval{max(0, sum.Low-logit), max(0, sum.High-logit)}
	}
}
