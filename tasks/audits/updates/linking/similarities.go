package linking

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

// collection is the linked anonymous updates.
type collection struct {
	reader *observed.Reader
	// updates are in the order of rounds. Their User is the number of the device.
	updates []pairs.Update
	// chosen devices sent them; all counts the updates of all anonymous devices.
	chosen map[int]bool
	all    int
}

// choose draws devices until their updates reach the limit.
func (c *collection) choose(ctx context.Context, seed uint64, atMost int) error {
	var all []pairs.Update
	var counts []int // by device
	if err := c.reader.Each(ctx, func(o *observed.Observation) error {
		if !o.Shadow {
			all = append(all, pairs.Update{User: int32(o.Number), Round: int32(o.Round)})
			counts = append(counts, make([]int, max(0, o.Number+1-len(counts)))...)
			counts[o.Number]++
		}
		return nil
	}); err != nil {
		return err
	}
	c.chosen, c.all = map[int]bool{}, len(all)
	room := atMost
	for _, device := range seeds.Stream(seed, seeds.LinkedDevices).Perm(len(counts)) {
		if n := counts[device]; n > 0 && n <= room {
			c.chosen[device] = true
			room -= n
		}
	}
	if len(c.chosen) < 2 {
		return tasks.Permanent(fmt.Errorf("%d anonymous devices with at most %d recorded updates together; expected two at least: raise audit.linking.updates, or record more of the training", len(c.chosen), atMost))
	}
	for _, u := range all {
		if c.chosen[int(u.User)] {
			c.updates = append(c.updates, u)
		}
	}
	return nil
}

// matrixBytes bounds the updates' values in memory. All updates are read once for each part of this size.
const matrixBytes = 256 << 20

func (c *collection) similarities(ctx context.Context, t *tasks.Task) (*square, error) {
	n, values := len(c.updates), c.reader.Values()
	s := newSquare(n)
	width := min(values, max(1, matrixBytes/4/n))
	rows := make([]float32, n*width)
	for from := 0; from < values; from += width {
		to := min(from+width, values)
		if err := c.read(ctx, from, to, rows); err != nil {
			return nil, err
		}
		kernels.Gemm(false, true, n, n, to-from, 1, rows, to-from, rows, to-from, 1, s.values, n)
		t.Progress(tasks.Progress{Done: int64(to), Total: int64(values)})
	}
	s.normalize()
	return s, nil
}

// read fills rows with some values of the updates, minus the mean of the anonymous updates of their round.
func (c *collection) read(ctx context.Context, from, to int, rows []float32) error {
	begin, end := 0, 0
	return c.reader.EachRound(ctx, from, to, func(o *observed.Observation) bool {
		if !o.Shadow && c.chosen[o.Number] {
			end += copy(rows[end:], o.Values[from:to])
		}
		return !o.Shadow
	}, func(_ int, m *observed.Mean) {
		m.Subtract(rows[begin:end])
		begin = end
	})
}

// square is a symmetric matrix.
type square struct {
	n      int
	values []float32
}

func newSquare(n int) *square { return &square{n, make([]float32, n*n)} }

func (s *square) at(i, j int) float32 { return s.values[i*s.n+j] }

func (s *square) set(i, j int, v float32) { s.values[i*s.n+j], s.values[j*s.n+i] = v, v }

// normalize turns products into cosines. Cosines with a zero vector are 0.
func (s *square) normalize() {
	norms := make([]float64, s.n)
	for i := range norms {
		norms[i] = math.Sqrt(float64(s.at(i, i)))
	}
	for i := range s.n {
		for j := range i {
			cosine := float32(0)
			if product := norms[i] * norms[j]; product > 0 {
				cosine = float32(float64(s.at(i, j)) / product)
			}
			s.set(i, j, cosine)
		}
	}
}
