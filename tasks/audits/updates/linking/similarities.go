package linking

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/sameuser"
)

// collection is the anonymous updates that are linked.
type collection struct {
	reader *observed.Reader
	// updates are in the order of rounds. The User of each is the number of its device.
	updates []sameuser.Update
	// chosen are the devices that they are of, so many as devices says; all counts the
	// anonymous updates of all devices.
	chosen       map[int]bool
	devices, all int
}

// choose draws devices until their updates are as many as may be looked at.
func (c *collection) choose(ctx context.Context, seed uint64, atMost int) error {
	counts, err := c.count(ctx)
	if err != nil {
		return err
	}
	c.chosen = map[int]bool{}
	room := atMost
	for _, device := range seeds.Stream(seed, seeds.LinkedDevices).Perm(len(counts)) {
		if n := counts[device]; n > 0 && n <= room {
			c.chosen[device] = true
			room -= n
		}
	}
	c.devices = len(c.chosen)
	if c.devices < 2 {
		return tasks.Permanent(fmt.Errorf("%d anonymous devices with at most %d recorded updates together; expected two at least: raise audit.linking.updates, or record more of the training", c.devices, atMost))
	}
	return c.list(ctx)
}

// count is the number of anonymous updates of each device.
func (c *collection) count(ctx context.Context) (counts []int, err error) {
	err = c.reader.Each(ctx, func(o *observed.Observation) error {
		if o.Shadow {
			return nil
		}
		c.all++
		for o.Number >= len(counts) {
			counts = append(counts, 0)
		}
		counts[o.Number]++
		return nil
	})
	return counts, err
}

func (c *collection) list(ctx context.Context) error {
	return c.reader.Each(ctx, func(o *observed.Observation) error {
		if !o.Shadow && c.chosen[o.Number] {
			c.updates = append(c.updates, sameuser.Update{User: int32(o.Number), Round: int32(o.Round)})
		}
		return nil
	})
}

// matrixBytes bounds the part of the updates' values that is in memory. All updates are
// read once for each such part.
const matrixBytes = 256 << 20

// similarities are those of all pairs.
func (c *collection) similarities(ctx context.Context, t *tasks.Task) (*square, error) {
	n, values := len(c.updates), c.reader.Values()
	s := newSquare(n)
	width := min(values, max(1, matrixBytes/4/n))
	part := columns{of: c, rows: make([]float32, n*width)}
	for from := 0; from < values; from += width {
		part.from, part.to = from, min(from+width, values)
		if err := part.read(ctx); err != nil {
			return nil, err
		}
		w := part.to - part.from
		kernels.Gemm(false, true, n, n, w, 1, part.rows, w, part.rows, w, 1, s.values, n)
		t.Progress(tasks.Progress{Done: int64(part.to), Total: int64(values)})
	}
	s.normalize()
	return s, nil
}

// columns are some of the values of the chosen updates.
type columns struct {
	of       *collection
	from, to int
	rows     []float32

	sum   []float64 // over the anonymous updates of the round
	count int
	begin int // the first row of the round
	end   int // the row after the last so far
	round int
}

// read fills the rows with what the updates differ by from the mean of their round.
func (c *columns) read(ctx context.Context) error {
	c.sum, c.count, c.begin, c.end, c.round = make([]float64, c.to-c.from), 0, 0, 0, 0
	err := c.of.reader.Each(ctx, func(o *observed.Observation) error {
		if o.Shadow {
			return nil
		}
		if o.Round != c.round {
			c.endRound()
			c.round = o.Round
		}
		c.add(o.Values[c.from:c.to], c.of.chosen[o.Number])
		return nil
	})
	c.endRound()
	return err
}

func (c *columns) add(values []float32, chosen bool) {
	for i, v := range values {
		c.sum[i] += float64(v)
	}
	c.count++
	if chosen {
		copy(c.rows[c.end*len(values):], values)
		c.end++
	}
}

// endRound subtracts the mean from the rows of the round.
func (c *columns) endRound() {
	width := len(c.sum)
	for row := c.begin; row < c.end; row++ {
		for i, v := range c.rows[row*width : (row+1)*width] {
			c.rows[row*width+i] = float32(float64(v) - c.sum[i]/float64(c.count))
		}
	}
	clear(c.sum)
	c.begin, c.count = c.end, 0
}

// square is a symmetric matrix.
type square struct {
	n      int
	values []float32
}

func newSquare(n int) *square { return &square{n, make([]float32, n*n)} }

func (s *square) at(i, j int) float32 { return s.values[i*s.n+j] }

func (s *square) set(i, j int, v float32) { s.values[i*s.n+j], s.values[j*s.n+i] = v, v }

// normalize makes cosines of products. That with a vector of zeros is 0.
func (s *square) normalize() {
	norms := make([]float64, s.n)
	for i := range norms {
		norms[i] = math.Sqrt(float64(s.at(i, i)))
	}
	for i := range s.n {
		for j := range i {
			product := norms[i] * norms[j]
			if product > 0 {
				s.set(i, j, float32(float64(s.at(i, j))/product))
			} else {
				s.set(i, j, 0)
			}
		}
	}
}
