package replay

import (
	"context"
	"fmt"
	"math"

	"coalmine/internal/lists"
)

// Data names one of the data sets of a round.
type Data int

// The data sets of a round.
const (
	// Whole has all members of the comparison.
	Whole Data = iota
	// Inside differs from Whole in one member who takes part in the round.
	Inside
	// Outside differs from Whole in one member who does not take part.
	Outside
)

// Part is a named run of elements of a release, such as a tensor.
type Part struct {
	Name         string
	Offset, Size int
}

// Round describes a round to be replayed.
type Round struct {
	// Members are the participants in ascending order.
	Members []int
	// Inside and Outside report which data sets the round has in addition to Whole.
	Inside, Outside bool
}

// Replay asks for one release.
type Replay struct {
	Round, State int
	Data         Data
	Noise        bool
	// Shrunk asks for a clip norm far below the one of the training, so that every contribution is
	// clipped.
	Shrunk bool
}

// Release is the outcome of a step before any optimizer: the sum of the clipped contributions, with
// noise or without, in clip norms. A mean is multiplied by the claimed divisor, never by a value
// that depends on the data.
type Release struct {
	Sum []float32
	// Count is the noisy count of an adaptive clip norm, in deviations of its noise.
	Count float64
}

// Step replays steps of a training from given states. Equal replays give equal releases. A round
// has the same cohort and the same randomness, except for the noise, with any data.
type Step interface {
	// Parts cover a release.
	Parts() []Part
	// Counts reports whether releases have a Count.
	Counts() bool
	// Begin prepares a round, counted from 1. Later replays are of this round.
	Begin(ctx context.Context, round int) (Round, error)
	Release(ctx context.Context, r Replay) (Release, error)
}

// Plan limits the observations.
type Plan struct {
	// Repeats is the number of rounds whose noise is observed, 2 or more.
	Repeats int
	// States is the number of initial states, used in turn.
	States int
	// Moves is the number of inside moves to look for, in at most Search further rounds.
	Moves, Search int
	// NoiseMultiplier is the claimed deviation of the noise in clip norms, above 0.
	NoiseMultiplier float64
	// WholeOnly observes noise only on the data set Whole.
	WholeOnly bool
	// Columns limits the noise elements kept of a round.
	Columns int
	// Progress receives the number of completed rounds; it may be nil.
	Progress func(done int)
}

// Move is the distance between the releases of two data sets.
type Move struct {
	Round, State int
	Outside      bool
	Shrunk       bool
	// Norm is in clip norms.
	Norm float64
}

// Columns counts the kept elements of a Part.
type Columns struct {
	Name string
	// Lead counts the kept elements from the start of the part, in order; Count includes those
	// after them.
	Lead, Count int
}

// Observations are the results of replays.
type Observations struct {
	Parts []Columns
	// Noise has a row for each round: the kept elements in claimed deviations, part after part.
	Noise [][]float64
	// Whole reports for each row whether it was observed on the data set Whole.
	Whole []bool
	// Along has, for each round with an inside move, the component of the noise along that move, in
	// claimed deviations; positive if the noise lengthens the move.
	Along []float64
	// Moves are in the order of rounds.
	Moves []Move
	// Cohorts are the members of each row.
	Cohorts [][]int
}

// Observe replays the rounds of a plan.
func Observe(ctx context.Context, s Step, p Plan) (*Observations, error) {
	o := &observer{step: s, plan: p, kept: keep(s.Parts(), p.Columns)}
	o.seen.Parts = columns(s, o.kept)
	for round := 1; round <= p.Repeats; round++ {
		if err := o.round(ctx, round); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
		if p.Progress != nil {
			p.Progress(round)
		}
	}
	for round := p.Repeats + 1; o.inside < p.Moves && round <= p.Repeats+p.Search; round++ {
		if err := o.search(ctx, round); err != nil {
			return nil, fmt.Errorf("round %d: %w", round, err)
		}
	}
	return &o.seen, nil
}

type observer struct {
	step   Step
	plan   Plan
	kept   [][]int
	inside int // moves
	seen   Observations
}

// replay returns the replay of a round. States take turns, and so do the two clip norms.
func (o *observer) replay(round int) Replay {
	return Replay{Round: round, State: (round - 1) / 2 % o.plan.States, Shrunk: round%2 == 0}
}

func (o *observer) round(ctx context.Context, number int) error {
	round, err := o.step.Begin(ctx, number)
	if err != nil {
		return err
	}
	r := o.replay(number)
	clean, err := o.step.Release(ctx, r)
	if err != nil {
		return err
	}
	other, move, err := o.move(ctx, r, round, clean)
	if err != nil {
		return err
	}
	if other != nil && !o.plan.WholeOnly && number%4 >= 2 {
		r.Data, clean = Inside, *other
	}
	r.Noise = true
	noisy, err := o.step.Release(ctx, r)
	if err != nil {
		return err
	}
	o.noise(&clean, &noisy, move, r.Data == Whole)
	o.seen.Cohorts = append(o.seen.Cohorts, round.Members)
	return nil
}

// search looks only for an inside move.
func (o *observer) search(ctx context.Context, number int) error {
	round, err := o.step.Begin(ctx, number)
	if err != nil || !round.Inside {
		return err
	}
	r, round := o.replay(number), Round{Inside: true}
	r.State, r.Shrunk = o.inside%o.plan.States, o.inside/o.plan.States%2 == 1
	clean, err := o.step.Release(ctx, r)
	if err != nil {
		return err
	}
	_, _, err = o.move(ctx, r, round, clean)
	return err
}

// move measures the moves of a round, and returns the release of the data set Inside and the
// difference.
func (o *observer) move(ctx context.Context, r Replay, round Round, clean Release) (inside *Release, difference []float64, err error) {
	for _, data := range []Data{Inside, Outside} {
		if data == Inside && !round.Inside || data == Outside && !round.Outside {
			continue
		}
		r.Data = data
		other, err := o.step.Release(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		d := Subtract(clean.Sum, other.Sum)
		o.seen.Moves = append(o.seen.Moves, Move{Round: r.Round, State: r.State, Outside: data == Outside, Shrunk: r.Shrunk, Norm: norm(d)})
		if data == Inside {
			inside, difference = &other, d
			o.inside++
		}
	}
	return inside, difference, nil
}

func (o *observer) noise(clean, noisy *Release, move []float64, whole bool) {
	noise, row := Subtract(noisy.Sum, clean.Sum), []float64{}
	for _, kept := range o.kept {
		for _, i := range kept {
			row = append(row, noise[i]/o.plan.NoiseMultiplier)
		}
	}
	if o.step.Counts() {
		row = append(row, noisy.Count-clean.Count)
	}
	o.seen.Noise, o.seen.Whole = append(o.seen.Noise, row), append(o.seen.Whole, whole)
	if length := norm(move); length > 0 {
		along := dot(noise, move) / length / o.plan.NoiseMultiplier
		if !whole {
			along = -along
		}
		o.seen.Along = append(o.seen.Along, along)
	}
}

// CountPart is the name of the noise on the count of an adaptive clip norm.
const CountPart = "clip count"

func columns(s Step, kept [][]int) (list []Columns) {
	for i, p := range s.Parts() {
		lead := 0
		for lead < len(kept[i]) && kept[i][lead] == p.Offset+lead {
			lead++
		}
		list = append(list, Columns{p.Name, lead, len(kept[i])})
	}
	if s.Counts() {
		list = append(list, Columns{CountPart, 1, 1})
	}
	return list
}

// keep chooses the elements that are kept of each part: all if they are few, else a share of each
// part. The first half of a share is the part's beginning, which shows noise common to several
// parts; the second half is pairs of neighbours spread over the remaining elements.
func keep(parts []Part, most int) [][]int {
	all := 0
	for _, p := range parts {
		all += p.Size
	}
	kept := make([][]int, len(parts))
	for i, p := range parts {
		share := min(p.Size, max(least, int(float64(p.Size)*float64(most)/float64(all))))
		if all <= most {
			share = p.Size
		}
		for j := range share {
			at := j
			if half := share / 2; share < p.Size && j >= half {
				pair, pairs := (j-half)/2, (share-half+1)/2
				at = min(half+pair*((p.Size-half)/pairs)+(j-half)%2, p.Size-1)
			}
			kept[i] = append(kept[i], p.Offset+at)
		}
	}
	return kept
}

// least is the smallest number of elements kept of a part, if it has as many.
const least = 64

// Subtract returns a - b, element by element.
func Subtract(a, b []float32) []float64 {
	return lists.Make(len(a), func(i int) float64 { return float64(a[i]) - float64(b[i]) })
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i] * b[i])
	}
	return sum
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }
