package observed

import (
	"context"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/tasks/devices"
)

// Sample holds updates in memory, in the order of rounds and devices.
type Sample struct {
	// Of are the updates without their values.
	Of     []Observation
	Values int
	rows   []float32
}

func (s *Sample) Row(i int) []float32 { return s.rows[i*s.Values : (i+1)*s.Values] }

// Users returns the users of the updates, ascending.
func (s *Sample) Users() []int {
	return lists.Distinct(lists.Map(s.Of, func(o Observation) int { return o.User }))
}

// Samples draws a sample of shadow devices' updates that fit, and, with the next number, one of anonymous
// devices' updates, without held-out users.
func (r *Reader) Samples(ctx context.Context, seed uint64, number, atMost int, fits func(*Observation) bool) (shadow, anonymous *Sample, err error) {
	shadow, err = r.Sample(ctx, seed, number, atMost, func(o *Observation) bool { return o.Shadow && fits(o) })
	if err != nil {
		return nil, nil, err
	}
	anonymous, err = r.Sample(ctx, seed, number+1, atMost, func(o *Observation) bool { return !o.Shadow && o.Set != devices.HeldOut && fits(o) })
	return shadow, anonymous, err
}

// Sample draws at most n of the updates that fit, each with equal probability. number distinguishes the
// samples of an experiment.
func (r *Reader) Sample(ctx context.Context, seed uint64, number, atMost int, fits func(*Observation) bool) (*Sample, error) {
	found := 0
	err := r.Each(ctx, func(o *Observation) error {
		if fits(o) {
			found++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	chosen := make([]bool, found)
	for _, i := range seeds.Stream(seed, seeds.SampledUpdates, uint64(number)).Perm(found)[:min(found, atMost)] {
		chosen[i] = true
	}
	s := &Sample{Values: r.Values(), rows: make([]float32, 0, min(found, atMost)*r.Values())}
	i := 0
	err = r.Each(ctx, func(o *Observation) error {
		if !fits(o) {
			return nil
		}
		if chosen[i] {
			s.rows = append(s.rows, o.Values...)
			kept := *o
			kept.Values = nil
			s.Of = append(s.Of, kept)
		}
		i++
		return nil
	})
	return s, err
}

// Centre subtracts from every row of samples the mean of all updates of its round: their common part at that
// stage.
func (r *Reader) Centre(ctx context.Context, samples ...*Sample) error {
	next := make([]int, len(samples)) // the first row of each sample that is not yet centred
	return r.EachRound(ctx, 0, r.Values(), func(*Observation) bool { return true }, func(round int, m *Mean) {
		for i, s := range samples {
			for ; next[i] < len(s.Of) && s.Of[next[i]].Round <= round; next[i]++ {
				m.Subtract(s.Row(next[i]))
			}
		}
	})
}

// Mean is the mean of the counted updates of a round.
type Mean struct {
	sum   []float64
	count int
}

// EachRound calls do as Each does, and end after each round, with the mean of the values [from, to) of the
// updates for which do returned true.
func (r *Reader) EachRound(ctx context.Context, from, to int, do func(*Observation) (counts bool), end func(round int, m *Mean)) error {
	m, round := &Mean{sum: make([]float64, to-from)}, 0
	err := r.Each(ctx, func(o *Observation) error {
		if o.Round != round {
			end(round, m)
			clear(m.sum)
			m.count, round = 0, o.Round
		}
		if do(o) {
			for i, v := range o.Values[from:to] {
				m.sum[i] += float64(v)
			}
			m.count++
		}
		return nil
	})
	end(round, m)
	return err
}

// Subtract subtracts the mean from consecutive rows.
func (m *Mean) Subtract(rows []float32) {
	for row := range slices.Chunk(rows, len(m.sum)) {
		for i, v := range row {
			row[i] = float32(float64(v) - m.sum[i]/float64(m.count))
		}
	}
}
