package models

import (
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// coarseBounds are tables for the coarse bound of a candidate's surprisal. The coarse
// bound uses a cell of rational functions instead of the emission, a quantised recurrent
// product (of 16-bit integers) where few edges share one, and one merged token instead of the vocabulary. It
// subtracts the largest possible error of all of these.
type coarseBounds struct {
	recurrent *kernels.Rounded // weights of the lowest layer, quantised
	sizes     []float64        // by token: the sum of the absolute values of its target
	// margin covers rounding after any emission. Elements of an emission are at most tanh 1 in
	// magnitude, because the memory never exceeds 1.
	margin float64
}

// newCoarseBounds returns nil if the model's cell has no rational approximation, or
// its emissions allow no look-ahead.
func (t *Tables) newCoarseBounds() *coarseBounds {
	l := &t.scorer.layers[0]
	if t.targets == nil || !l.kind.coarse {
		return nil
	}
	b := &coarseBounds{
		recurrent: kernels.RoundB(l.out, l.gates(), t.scorer.weights.layers[0].recurrent, l.gates()),
		sizes:     make([]float64, t.scorer.model.config.Vocabulary),
		margin:    t.emissionMargin(math.Tanh(1) * math.Sqrt(float64(t.units)) * (1 + 1e-6)),
	}
	for w := range b.sizes {
		b.sizes[w] = absoluteSum(row(t.targets, w, t.units))
	}
	return b
}

// whole is the merged token of the whole vocabulary, multiplied back through the projection: the
// log-sum-exp after an emission e is at least e vector + bias. That is looser than the bound of
// several merged tokens, and costs one inner product.
type whole struct {
	vector []float32 // [units]
	bias   float64
	size   float64 // the sum of the vector's absolute values
}

func (s *Scorer) newWhole(mean []float32, bias float64) whole {
	vector := s.emissionVectors(mean)
	return whole{vector: vector, bias: bias, size: absoluteSum(vector)}
}

// absoluteSum returns an upper bound of the sum of the absolute values.
func absoluteSum(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(float64(v))
	}
	return sum * (1 + 1e-12)
}

// No constant changes a result.
const (
	// sampleSize is the number of edges that AdvancePruned samples to decide whether coarse bounds
	// pay for the remaining edges.
	sampleSize = 64
	// coarseParents is the number of parents processed together; their recurrent products stay in
	// the cache.
	coarseParents = 24
	// coarseSharing is the number of edges of a state from which an exact recurrent product, which they
	// share, costs less than the error of a quantised one.
	coarseSharing = 8
)

// pays reports whether a bound that leaves left edges of a total was worth its time.
func pays(left, total int) bool { return left <= total-total/8 }

// pruneCoarsely sets ts.remaining to the edges whose coarse bound is within the limit, in ascending
// order. A coarse bound costs less than an emission and computes no emission. It returns whether a
// look-ahead from the emissions of these edges may pay too: not if coarse bounds prune nothing.
func (ts *TreeScorer) pruneCoarsely(from *States, edges []Edge, candidates []Candidate, limit float64, normaliser *NormaliserBounds) bool {
	ts.remaining = ts.remaining[:0]
	if ts.tables.coarse == nil {
		ts.remaining = upTo(ts.remaining, 0, len(edges))
		return true
	}
	for at := 0; at < len(edges); {
		end := len(edges)
		if at < sampleSize {
			end = min(sampleSize, end)
		}
		at += ts.pruneBlockCoarsely(from, edges[at:end], candidates[at:end], at, limit, normaliser)
		if left := len(ts.remaining); at == sampleSize && !pays(left, sampleSize) {
			ts.remaining = upTo(ts.remaining, at, len(edges))
			return left < sampleSize
		}
	}
	return true
}

func upTo(numbers []int, start, end int) []int {
	for i := start; i < end; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// pruneBlockCoarsely handles the edges of the first few parents, starting with edge
// start, and returns their number.
func (ts *TreeScorer) pruneBlockCoarsely(from *States, edges []Edge, candidates []Candidate, start int, limit float64, normaliser *NormaliserBounds) int {
	n := ts.gather(from.output[0], ts.width(), edges, true, coarseParents)
	ts.recurCoarsely(edges[:n])
	for i, c := range candidates[:n] {
		if c.Next == NoToken || !(c.Cost+ts.coarseBound(from, edges[:n], candidates, i, normaliser) > limit) {
			ts.remaining = append(ts.remaining, start+i)
		}
	}
	return n
}

// recurCoarsely computes the recurrent products of the gathered parents. Parents with many edges get
// those of emit, bit for bit, so that only the cell adds an error; the others get quantised ones.
func (ts *TreeScorer) recurCoarsely(edges []Edge) {
	recurrent, parents := ts.tables.coarse.recurrent, len(ts.parents)
	ts.errors = grow(ts.errors, parents)
	if ts.shares() && len(edges) >= coarseSharing*parents {
		clear(ts.errors)
		ts.stride = ts.tables.scorer.layers[0].gates()
		ts.recur(edges)
		return
	}
	ts.stride = recurrent.Stride()
	ts.recurrent = grow(ts.recurrent, recurrent.Room(parents))
	kernels.GemmRounded(parents, ts.outputs, recurrent, ts.recurrent, ts.errors)
	ts.work.FLOPs += 2 * float64(parents*ts.width()*ts.tables.scorer.layers[0].gates())
}

// coarseBound returns a lower bound of the surprisal of edge i's candidate, in nats.
func (ts *TreeScorer) coarseBound(from *States, edges []Edge, candidates []Candidate, i int, normaliser *NormaliserBounds) float64 {
	t, e, token := ts.tables, edges[i], candidates[i].Next
	l, target := &t.scorer.layers[0], row(t.targets, int(token), t.units)
	recurrent := row(ts.recurrent, ts.place[i], ts.stride)[:l.gates()]
	logits := kernels.CIFGRoughDot(ts.input(i, e.Token), recurrent, row(from.memory[0], e.Parent, l.units),
		normaliser.whole.vector, target, ts.upcoming(edges, i), ts.target(candidates, min(i+1, len(edges)-1), target))
	surprisal := float64(logits) + normaliser.whole.bias - float64(t.scorer.weights.outputBias[token])
	off := kernels.CIFGRoughError + gateSlope*ts.errors[ts.place[i]] + sumError
	return surprisal - t.coarse.margin - off*(normaliser.whole.size+t.coarse.sizes[token])
}

const (
	// gateSlope is the largest change of an element of an emission if each of its three
	// pre-activations changes by at most 1. A sigmoid's slope is at most 1/4. The input gate moves
	// the memory by 1/4 of its distance to the cell's candidate activation, which is at most 2;
	// that activation moves it by at most 1; the output gate moves the emission by 1/4 of at most
	// tanh 1.
	gateSlope = 0.25*2 + 1 + 0.25*0.77
	// sumError is the rounding error per unit: of the sum over units in float32 and of the rational
	// cell.
	sumError = 1e-4
)

// takeRemaining returns copies of the remaining edges and of their candidates.
func (ts *TreeScorer) takeRemaining(edges []Edge, candidates []Candidate) ([]Edge, []Candidate) {
	ts.edges, ts.candidates = slices.Grow(ts.edges[:0], len(ts.remaining)), slices.Grow(ts.candidates[:0], len(ts.remaining))
	for _, i := range ts.remaining {
		ts.edges, ts.candidates = append(ts.edges, edges[i]), append(ts.candidates, candidates[i])
	}
	return ts.edges, ts.candidates
}
