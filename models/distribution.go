package models

import (
	"cmp"
	"math"
	"slices"

	"coalmine/internal/kernels"
)

// distribution is the distribution of the next token. Its zero value is for set.
type distribution struct {
	// weights are the probabilities of the tokens that may be drawn, up to a factor for
	// each tile. kept names the tokens, unless they are all tokens in order.
	weights []float32
	kept    []int32
	// scales are the factors of the tiles, masses the sums of their weights.
	scales []float32
	masses []float64
}

// set makes the distribution that of a sampling, given the log probabilities of all tokens.
func (d *distribution) set(s Sampling, logProbs []float32) error {
	d.keep(s.TopK, logProbs)
	if s.Temperature != 1 {
		for i, l := range d.weights {
			d.weights[i] = float32(float64(l) / s.Temperature)
		}
	}
	tiles := tileCount(len(d.weights))
	d.scales, d.masses = grow(d.scales, tiles), grow(d.masses, tiles)
	for k := range tiles {
		from, to := tileBounds(len(d.weights), k)
		d.scales[k], d.masses[k] = kernels.SoftmaxTile(d.weights[from:to])
	}
	if sum := kernels.SoftmaxMerge(d.scales, d.masses); !finite(sum) {
		return &DivergedError{What: "log probability", Value: sum}
	}
	return nil
}

// keep sets the weights to the log probabilities of the tokens that may be drawn.
func (d *distribution) keep(topK int, logProbs []float32) {
	d.kept = d.kept[:0]
	if topK == 0 || topK >= len(logProbs) {
		d.weights = append(d.weights[:0], logProbs...)
		return
	}
	d.weights = d.weights[:0]
	for token, l := range logProbs {
		if len(d.kept) == topK && l <= d.weights[topK-1] {
			continue
		}
		// After all equal values: the lower token comes first.
		at, _ := slices.BinarySearchFunc(d.weights, l, func(have, l float32) int {
			return cmp.Or(cmp.Compare(l, have), -1)
		})
		d.weights, d.kept = slices.Insert(d.weights, at, l), slices.Insert(d.kept, at, int32(token))
		d.weights, d.kept = d.weights[:min(topK, len(d.weights))], d.kept[:min(topK, len(d.kept))]
	}
}

// draw returns the first token at which the cumulative probability exceeds u, which
// is at least 0 and less than 1; if rounding leaves none, the last with a positive
// probability.
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
		from, to := tileBounds(len(d.weights), k)
		if rest < of {
			return d.placeIn(from, to, rest/float64(d.scales[k]))
		}
		rest, last = rest-of, k
	}
	from, to := tileBounds(len(d.weights), last)
	return d.placeIn(from, to, math.Inf(1))
}

// placeIn returns the first index in [from, to) at which the cumulative weight exceeds
// rest, or the last with a weight.
func (d *distribution) placeIn(from, to int, rest float64) int {
	last := from
	for i, weight := range d.weights[from:to] {
		if weight == 0 {
			continue
		}
		last = from + i
		if rest -= float64(weight); rest < 0 {
			break
		}
	}
	return last
}
