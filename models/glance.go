package models

import (
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// glances are what AdvancePruned needs to glance at edges: to bound what their
// candidates cost, without making their emissions.
type glances struct {
	recurrent *kernels.Rounded // the lowest layer's
	sizes     []float64        // by token: the sum of the absolute values of its target
	// margin is that for rounding after any emission, whose elements are at most
	// tanh 1 in magnitude, as the memory never exceeds 1.
	margin float64
}

// newGlances returns nil if the emissions of the model's cells have no rough version.
func (t *Tables) newGlances() *glances {
	l := &t.scorer.layers[0]
	if t.targets == nil || l.kind != CIFGLSTM {
		return nil
	}
	g := &glances{
		recurrent: kernels.RoundB(l.out, l.gates(), t.scorer.weights.layers[0].recurrent, l.gates()),
		sizes:     make([]float64, t.scorer.model.config.Vocabulary),
		margin:    t.emissionMargin(math.Tanh(1) * math.Sqrt(float64(t.units)) * (1 + 1e-6)),
	}
	for w := range g.sizes {
		g.sizes[w] = absoluteSum(row(t.targets, w, t.units))
	}
	return g
}

// whole is the merged token of the whole vocabulary, carried back through the
// projection: the log-sum-exp after an emission e is at least e vector + bias. It is
// looser than that of more merged tokens, and costs one product.
type whole struct {
	vector []float32 // [units]
	bias   float64
	size   float64 // the sum of the vector's absolute values
}

func (s *Scorer) newWhole(mean []float32, bias float64) whole {
	vector := s.emissionVectors(mean)
	return whole{vector: vector, bias: bias, size: absoluteSum(vector)}
}

// absoluteSum is at least the sum of the absolute values.
func absoluteSum(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(float64(v))
	}
	return sum * (1 + 1e-12)
}

// Neither of these shows in a result.
const (
	// sampleSize is how many edges AdvancePruned glances at to see whether it pays to
	// glance at the others.
	sampleSize = 64
	// glancedParents are few enough that their recurrent products stay in the cache.
	glancedParents = 24
)

// pays says whether it is worth its time to find so many left of so many.
func pays(left, of int) bool { return left <= of-of/8 }

// glance sets ts.likely to those edges that a rough look at their emissions
// leaves in the race, in ascending order. It costs less than an emission, and makes
// none. It returns whether it may pay to foresee what these cost, once there are
// emissions: not where a glance leaves out nothing.
func (ts *TreeScorer) glance(from *States, edges []Edge, candidates []Candidate, limit float64, normaliser *NormaliserBounds) bool {
	ts.likely = ts.likely[:0]
	if ts.tables.glances == nil {
		ts.likely = upTo(ts.likely, 0, len(edges))
		return true
	}
	for at := 0; at < len(edges); {
		end := len(edges)
		if at < sampleSize {
			end = min(sampleSize, end)
		}
		at += ts.glanceBlock(from, edges[at:end], candidates[at:end], at, limit, normaliser)
		if left := len(ts.likely); at == sampleSize && !pays(left, sampleSize) {
			ts.likely = upTo(ts.likely, at, len(edges))
			return left < sampleSize
		}
	}
	return true
}

// upTo appends the numbers from start up to end.
func upTo(numbers []int, start, end int) []int {
	for i := start; i < end; i++ {
		numbers = append(numbers, i)
	}
	return numbers
}

// glanceBlock handles the first edges, those of a block of parents, and returns
// how many these are; start is the number of the first.
func (ts *TreeScorer) glanceBlock(from *States, edges []Edge, candidates []Candidate, start int, limit float64, normaliser *NormaliserBounds) int {
	recurrent := ts.tables.glances.recurrent
	n, parents := ts.gather(from.output[0], ts.width(), edges, true, glancedParents), len(ts.parents)
	ts.recurrent, ts.errors = grow(ts.recurrent, recurrent.Room(parents)), grow(ts.errors, parents)
	kernels.GemmRounded(parents, ts.outputs, recurrent, ts.recurrent, ts.errors)
	ts.work.FLOPs += 2 * float64(parents*ts.width()*ts.tables.scorer.layers[0].gates())
	for i, c := range candidates[:n] {
		if c.Next == NoToken || !(c.Cost+ts.glimpse(from, edges[:n], candidates, i, normaliser) > limit) {
			ts.likely = append(ts.likely, start+i)
		}
	}
	return n
}

// glimpse is a lower bound of what the candidate of edge i costs, in nats.
func (ts *TreeScorer) glimpse(from *States, edges []Edge, candidates []Candidate, i int, normaliser *NormaliserBounds) float64 {
	t, e, token := ts.tables, edges[i], candidates[i].Next
	l, target := &t.scorer.layers[0], row(t.targets, int(token), t.units)
	recurrent := row(ts.recurrent, ts.place[i], t.glances.recurrent.Stride())[:l.gates()]
	logits := kernels.CIFGRoughDot(ts.input(i, e.Token), recurrent, row(from.memory[0], e.Parent, l.units),
		normaliser.whole.vector, target, ts.upcoming(edges, i), ts.target(candidates, min(i+1, len(edges)-1), target))
	price := float64(logits) + normaliser.whole.bias - float64(t.scorer.weights.outputBias[token])
	off := kernels.CIFGRoughError + gateSlope*ts.errors[ts.place[i]] + sumError
	return price - t.glances.margin - off*(normaliser.whole.size+t.glances.sizes[token])
}

const (
	// gateSlope is how much an element of an emission moves with its pre-activations
	// at most, if all three move by 1. A sigmoid's slope is at most 1/4: the input
	// gate moves the memory by a quarter of 2, its distance to the candidate, the
	// candidate by 1, and the output gate scales at most tanh 1.
	gateSlope = 0.25*2 + 1 + 0.25*0.77
	// sumError is that of a sum over units in float32, for each unit, in products of
	// rough emissions, and of the cell itself.
	sumError = 1e-4
)

// likelyOnes copies the edges that a glance has left, and their candidates.
func (ts *TreeScorer) likelyOnes(edges []Edge, candidates []Candidate) ([]Edge, []Candidate) {
	ts.edges, ts.candidates = slices.Grow(ts.edges[:0], len(ts.likely)), slices.Grow(ts.candidates[:0], len(ts.likely))
	for _, i := range ts.likely {
		ts.edges, ts.candidates = append(ts.edges, edges[i]), append(ts.candidates, candidates[i])
	}
	return ts.edges, ts.candidates
}
