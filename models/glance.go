package models

import (
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// glances are what Pursue needs to glance at extensions: to bound what their
// prospects cost, without making their emissions.
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

// whole is the stand-in of the whole vocabulary, carried back through the
// projection: the log-sum-exp after an emission e is at least e vector + bias. It is
// looser than those of more stand-ins, and costs one product.
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
	// sampleSize is how many extensions Pursue glances at to see whether it pays to
	// glance at the others.
	sampleSize = 64
	// glancedParents are few enough that their recurrent products stay in the cache.
	glancedParents = 24
)

// pays says whether it is worth its time to find so many left of so many.
func pays(left, of int) bool { return left <= of-of/8 }

// glance sets w.likely to those extensions that a rough look at their emissions
// leaves in the race, in ascending order. It costs less than an emission, and makes
// none. It returns whether it may pay to foresee what these cost, once there are
// emissions: not where a glance leaves out nothing.
func (w *Walker) glance(from *States, extensions []Extension, prospects []Prospect, limit float64, near *StandIns) bool {
	w.likely = w.likely[:0]
	if w.tables.glances == nil {
		w.likely = upTo(w.likely, 0, len(extensions))
		return true
	}
	for at := 0; at < len(extensions); {
		end := len(extensions)
		if at < sampleSize {
			end = min(sampleSize, end)
		}
		at += w.glanceBlock(from, extensions[at:end], prospects[at:end], at, limit, near)
		if left := len(w.likely); at == sampleSize && !pays(left, sampleSize) {
			w.likely = upTo(w.likely, at, len(extensions))
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

// glanceBlock handles the first extensions, those of a block of parents, and returns
// how many these are; start is the number of the first.
func (w *Walker) glanceBlock(from *States, extensions []Extension, prospects []Prospect, start int, limit float64, near *StandIns) int {
	recurrent := w.tables.glances.recurrent
	n, parents := w.gather(from.output[0], w.width(), extensions, true, glancedParents), len(w.parents)
	w.recurrent, w.errors = grow(w.recurrent, recurrent.Room(parents)), grow(w.errors, parents)
	kernels.GemmRounded(parents, w.outputs, recurrent, w.recurrent, w.errors)
	w.work.FLOPs += 2 * float64(parents*w.width()*w.tables.scorer.layers[0].gates())
	for i, p := range prospects[:n] {
		if p.Next == NoToken || !(p.Spent+w.glimpse(from, extensions[:n], prospects, i, near) > limit) {
			w.likely = append(w.likely, start+i)
		}
	}
	return n
}

// glimpse is a lower bound of what the prospect of extension i costs, in nats.
func (w *Walker) glimpse(from *States, extensions []Extension, prospects []Prospect, i int, near *StandIns) float64 {
	t, e, token := w.tables, extensions[i], prospects[i].Next
	l, target := &t.scorer.layers[0], row(t.targets, int(token), t.units)
	recurrent := row(w.recurrent, w.place[i], t.glances.recurrent.Stride())[:l.gates()]
	logits := kernels.CIFGRoughDot(w.input(i, e.Token), recurrent, row(from.memory[0], e.Parent, l.units),
		near.whole.vector, target, w.upcoming(extensions, i), w.target(prospects, min(i+1, len(extensions)-1), target))
	price := float64(logits) + near.whole.bias - float64(t.scorer.weights.outputBias[token])
	off := kernels.CIFGRoughError + gateSlope*w.errors[w.place[i]] + sumError
	return price - t.glances.margin - off*(near.whole.size+t.glances.sizes[token])
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

// likelyOnes copies the extensions that a glance has left, and their prospects.
func (w *Walker) likelyOnes(extensions []Extension, prospects []Prospect) ([]Extension, []Prospect) {
	w.extensions, w.prospects = slices.Grow(w.extensions[:0], len(w.likely)), slices.Grow(w.prospects[:0], len(w.likely))
	for _, i := range w.likely {
		w.extensions, w.prospects = append(w.extensions, extensions[i]), append(w.prospects, prospects[i])
	}
	return w.extensions, w.prospects
}
