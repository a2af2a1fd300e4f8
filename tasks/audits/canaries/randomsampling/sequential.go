package randomsampling

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"coalmine/tasks/datasets"
)

// Interval holds the ranks from Low to High.
type Interval struct{ Low, High int64 }

// sequentialBlock is how many references are scored together. It shows in no result.
const sequentialBlock = 4096

// Sequential ranks canaries of one length by scores alone, for models whose prefix tree cannot be walked.
// Canaries with the same prefix share their references, each of which is scored once.
type Sequential struct {
	*Params
	// Canaries are all canaries of this length.
	Canaries   []datasets.Placement
	Vocabulary *datasets.Vocabulary
	// Score returns the log-perplexities of sequences after a prefix, in nats and in their order.
	Score func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error)

	known map[string][]float64 // of the first references, by prefix
}

// Rank ranks a canary of log-perplexity cost. The rank is that of a task of Kind with the same scores:
// references come in the order in which they are drawn, and a large rank is estimated from the same pilots.
//
// If a score is known to margin nats, a canary and a reference that differ by less than twice the margin may
// stand either way round: Interval has the ranks that are then possible.
func (s *Sequential) Rank(ctx context.Context, prefix []int32, cost, margin float64) (Rank, Interval, error) {
	draws, err := s.DrawIn(s.Vocabulary, s.Canaries)
	if err != nil {
		return Rank{}, Interval{}, err
	}
	t := newTally(cost, margin)
	var block [][]int32
	for row := range draws {
		block = append(block, slices.Clone(row))
		drawn := t.scored + len(block)
		pilot := !s.Exact && slices.Contains(pilotSizes, drawn) && drawn < s.References
		if len(block) < sequentialBlock && !pilot && drawn < s.References {
			continue
		}
		costs, err := s.shared(ctx, prefix, t.scored, block)
		if err != nil {
			return Rank{}, Interval{}, err
		}
		t.add(costs)
		block = block[:0]
		if pilot && t.hits >= minPilotHits {
			break
		}
	}
	rank, interval := t.rank(s.References)
	return rank, interval, nil
}

// FirstCosts returns the log-perplexities of the first n references after a prefix.
func (s *Sequential) FirstCosts(ctx context.Context, prefix []int32, n int) ([]float64, error) {
	rows, err := s.FirstSequences(n)
	if err != nil {
		return nil, err
	}
	return s.shared(ctx, prefix, 0, rows)
}

// FirstSequences returns the first n references.
func (s *Sequential) FirstSequences(n int) ([][]int32, error) {
	draws, err := s.drawFirst(n)
	if err != nil {
		return nil, err
	}
	rows := make([][]int32, 0, n)
	for row := range draws {
		rows = append(rows, slices.Clone(row))
	}
	return rows, nil
}

// CheckRoom checks that n references can be drawn.
func (s *Sequential) CheckRoom(n int) error {
	_, err := s.drawFirst(n)
	return err
}

func (s *Sequential) drawFirst(n int) (iter.Seq[[]int32], error) {
	params := *s.Params
	params.References = n
	return params.DrawIn(s.Vocabulary, s.Canaries)
}

// shared returns the log-perplexities of references, the first of which is number from, and asks for those
// that no canary with this prefix has needed yet.
func (s *Sequential) shared(ctx context.Context, prefix []int32, from int, rows [][]int32) ([]float64, error) {
	name, end := fmt.Sprint(prefix), from+len(rows)
	if known := len(s.known[name]); end > known {
		more, err := s.Score(ctx, prefix, rows[known-from:])
		if err != nil {
			return nil, err
		}
		if s.known == nil {
			s.known = map[string][]float64{}
		}
		s.known[name] = append(s.known[name], more...)
	}
	return s.known[name][from:end], nil
}

// checkRoom checks that as many sequences may follow the prefix as are asked for.
func (p *Params) checkRoom(ordinary, canaries int) error {
	room := p.Sequences(ordinary, p.Prefix)
	if float64(p.References+canaries) <= room {
		return nil
	}
	return fmt.Errorf("%d references and %d canaries, which differ in what follows the prefix; expected at most the %.0f sequences that may follow it: use fewer references, a shorter prefix or longer canaries", p.References, canaries, room)
}

// tally counts the references that a canary is behind.
type tally struct {
	cost, margin float64
	scored       int
	// hits cost at most as much as the canary; low by more than the margin, high too with it.
	hits, low, high int64
}

// newTally knows scores to a margin, and so differences of two to twice that.
func newTally(cost, margin float64) *tally { return &tally{cost: cost, margin: 2 * margin} }

func (t *tally) add(costs []float64) {
	for _, cost := range costs {
		if cost <= t.cost {
			t.hits++
		}
		if cost <= t.cost-t.margin {
			t.low++
		}
		if cost <= t.cost+t.margin {
			t.high++
		}
	}
	t.scored += len(costs)
}

// rank is counted if all references were scored, else estimated.
func (t *tally) rank(references int) (Rank, Interval) {
	if t.scored == references {
		return Rank{LogPerplexity: t.cost, Rank: 1 + t.hits, Exact: true}, Interval{1 + t.low, 1 + t.high}
	}
	rank, deviation := estimate(t.hits, t.scored, references)
	low, _ := estimate(t.low, t.scored, references)
	high, _ := estimate(t.high, t.scored, references)
	return Rank{LogPerplexity: t.cost, Rank: rank, ExposureError: deviation}, Interval{low, high}
}
