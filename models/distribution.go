package models

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/kernels"
	"coalmine/internal/numbers"
)

// distribution is the distribution of the next token. Call set first.
type distribution struct {
	// logits are those of the tokens that may be drawn. kept names the tokens, unless they are all
	// tokens in order.
	logits []float32
	kept   []int32
	// scales and masses of the tiles are the peaks and sums of a finished normaliser: the probability of
	// a token is its e^(logit - peak) in the tile times the tile's scale.
	scales []float32
	masses []float64
	exps   [tileWidth]float32

	changed []float32  // memory of logits
	own     normaliser // of changed
}

// set makes the distribution that of a sampling, given the logits of all tokens, which it keeps, and
// their normaliser, of row i. An error is a *DivergedError.
func (d *distribution) set(s Sampling, logits []float32, z *normaliser, i int) error {
	if !numbers.IsFinite(z.logs[i]) {
		return &DivergedError{Name: "log probability", Value: z.logs[i]}
	}
	d.kept = d.kept[:0]
	if s.Temperature == 1 && (s.TopK == 0 || s.TopK >= len(logits)) {
		d.logits, d.scales, d.masses = logits, row(z.peaks, i, z.tiles), z.sums[i*z.tiles:(i+1)*z.tiles]
		return nil
	}
	d.change(s, logits, z, i)
	return d.reduce()
}

// change sets logits to the log probabilities of the tokens that may be drawn, divided by the temperature.
func (d *distribution) change(s Sampling, logits []float32, z *normaliser, i int) {
	d.changed = d.changed[:0]
	for _, logit := range logits {
		d.changed = append(d.changed, z.logProb(i, logit))
	}
	if 0 < s.TopK && s.TopK < len(logits) {
		d.keep(s.TopK)
	}
	for j, l := range d.changed {
		d.changed[j] = float32(float64(l) / s.Temperature)
	}
	d.logits = d.changed
}

// reduce computes scales and masses of the logits.
func (d *distribution) reduce() error {
	d.own.reset(1, tileCount(len(d.logits)))
	for k := range d.own.tiles {
		d.own.add(0, k, d.tile(k))
	}
	d.own.finish()
	d.scales, d.masses = d.own.peaks, d.own.sums
	if !numbers.IsFinite(d.own.logs[0]) {
		return &DivergedError{Name: "log probability", Value: d.own.logs[0]}
	}
	return nil
}

func (d *distribution) tile(k int) []float32 {
	from, to := tileBounds(len(d.logits), k)
	return d.exps[:copy(d.exps[:], d.logits[from:to])]
}

// keep leaves the topK largest of changed, in descending order.
func (d *distribution) keep(topK int) {
	kept := d.changed[:0] // never longer than the part that has been read
	for token, l := range d.changed {
		if len(kept) == topK && l <= kept[topK-1] {
			continue
		}
		// After all equal values: the lower token comes first.
		at, _ := slices.BinarySearchFunc(kept, l, func(have, l float32) int {
			return cmp.Or(cmp.Compare(l, have), -1)
		})
		if len(kept) == topK {
			kept, d.kept = kept[:topK-1], d.kept[:topK-1]
		}
		kept, d.kept = slices.Insert(kept, at, l), slices.Insert(d.kept, at, int32(token))
	}
	d.changed = kept
}

// draw returns the first token at which the cumulative probability exceeds u, which is at least 0
// and less than 1; if rounding leaves no such token, the last with a positive probability.
func (d *distribution) draw(u float64) int32 {
	at := d.place(u)
	if len(d.kept) > 0 {
		return d.kept[at]
	}
	return int32(at)
}

func (d *distribution) place(u float64) int {
	total := 0.0
	for k, mass := range d.masses {
		total += float64(float64(d.scales[k]) * mass)
	}
	rest, last := float64(u*total), 0
	for k, mass := range d.masses {
		of := float64(float64(d.scales[k]) * mass)
		if of == 0 {
			continue
		}
		if rest < of {
			return d.placeIn(k, rest/float64(d.scales[k]))
		}
		rest, last = rest-of, k
	}
	return d.placeIn(last, math.Inf(1))
}

// placeIn returns the first index of a tile at which the cumulative weight exceeds
// rest, or the last with a weight.
func (d *distribution) placeIn(k int, rest float64) int {
	weights := d.tile(k)
	kernels.SoftmaxTile(weights)
	last := 0
	for i, weight := range weights {
		if weight == 0 {
			continue
		}
		last = i
		if rest -= float64(weight); rest < 0 {
			break
		}
	}
	return k*tileWidth + last
}
