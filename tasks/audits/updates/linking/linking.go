// Package linking finds the updates of one device by their similarity.
//
//	audits/linking  ranks pairs of anonymous updates by their similarity, follows each device
//	                to its next update, and clusters all updates
//
// The similarity of two updates is the cosine of their differences from the mean of the anonymous
// updates of their round, over the recorded layers. Updates are scaled to length 1 first.
package linking

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/kernels"
	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/updates/observed"
	"coalmine/tasks/audits/updates/pairs"
)

type Params struct {
	Seed uint64 `json:"seed"`
	observed.View
	// Updates bounds the number of updates, which are those of devices drawn at random.
	Updates int `json:"updates"`
	// Pairs is the number of pairs drawn to measure AP and AUC.
	Pairs int `json:"pairs"`
}

// Kind links recorded updates. Its inputs are those of observed.Inputs, its metrics an Outcome. It needs 4
// bytes of memory for each pair of updates, and matrixBytes.
var Kind = tasks.Kind{Name: "audits/linking", Version: 4, Class: tasks.Compute, Run: audits.Measuring(link)}

func link(ctx context.Context, t *tasks.Task, p *Params) (*Outcome, error) {
	r, err := p.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	c := collection{reader: r}
	if err := c.choose(ctx, p.Seed, p.Updates); err != nil {
		return nil, err
	}
	similarities, err := c.similarities(ctx, t)
	if err != nil {
		return nil, err
	}
	v := &Outcome{Devices: len(c.chosen), Updates: len(c.updates), All: c.all}
	if v.Pairs, err = p.measure(&c, similarities); err != nil {
		return nil, err
	}
	v.Next = next(c.updates, similarities)
	v.Clusters = compare(c.updates, cluster(c.updates, similarities, len(c.chosen)))
	return v, nil
}

func (p *Params) measure(c *collection, similarities *square) (pairs.Measurement, error) {
	updates := &pairs.Side{Of: c.updates}
	drawn, err := pairs.Draw(updates, updates, p.Pairs, seeds.Stream(p.Seed, seeds.UpdatePairs, linkedPairs))
	if err != nil {
		return pairs.Measurement{}, tasks.Permanent(fmt.Errorf("anonymous updates: %w", err))
	}
	return pairs.Measure(drawn.Pairs(func(a, b int) float64 { return float64(similarities.at(a, b)) }), p.Seed, linkedPairs)
}

// linkedPairs numbers the pairs of this audit in an experiment.
const linkedPairs = 0

// next finds, for each update of a device with an earlier one, the most similar earlier update, the first of
// equals, and counts those of the same device.
func next(list []pairs.Update, similarities *square) Next {
	n := Next{}
	for i, u := range list {
		best, own, earlier := -1, 0, 0
		for j := range list[:i] {
			if list[j].Round >= u.Round {
				break // updates are in the order of rounds
			}
			earlier++
			if list[j].User == u.User {
				own++
			}
			if best < 0 || similarities.at(i, j) > similarities.at(i, best) {
				best = j
			}
		}
		if own > 0 {
			n.Of++
			n.Chance += float64(own) / float64(earlier)
			if list[best].User == u.User {
				n.Followed++
			}
		}
	}
	if n.Of > 0 {
		n.Share, n.Chance = float64(n.Followed)/float64(n.Of), n.Chance/float64(n.Of)
	}
	return n
}

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
	c.updates = lists.Filter(all, func(u pairs.Update) bool { return c.chosen[int(u.User)] })
	return nil
}

// matrixBytes bounds the updates' values in memory. All updates are read once for each part of this size.
const matrixBytes = 256 << 20

func (c *collection) similarities(ctx context.Context, t *tasks.Task) (*square, error) {
	n, values := len(c.updates), c.reader.Values()
	s := &square{n, make([]float32, n*n)}
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

func (s *square) at(i, j int) float32 { return s.values[i*s.n+j] }

func (s *square) set(i, j int, v float32) { s.values[i*s.n+j], s.values[j*s.n+i] = v, v }

// normalize turns products into cosines. Cosines with a zero vector are 0.
func (s *square) normalize() {
	norms := lists.Make(s.n, func(i int) float64 { return math.Sqrt(float64(s.at(i, i))) })
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
