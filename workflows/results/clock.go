package results

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"coalmine/internal/goroutines"

	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/availability"
)

// Tick is when a cell's training had come to a round, 0 being its initial model.
type Tick struct {
	Round int       `json:"round"`
	Time  time.Time `json:"time"`

	// began is when the task began after which the training was there.
	began time.Time
	// took are the seconds of the last steps of the chain up to there, as far as its commit tells;
	// 0 is unknown. See storage.Provenance.
	took []float64
}

// readClock is when the training came to the rounds whose records last, and to the last one.
// Steps that other runs computed were there before.
func readClock(ctx context.Context, archive *storage.Archive, cell *plan.Cell) ([]Tick, error) {
	nodes, err := timed(ctx, archive, cell)
	if err != nil {
		return nil, err
	}
	ticks := make([]Tick, len(nodes))
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, n := range nodes {
		group.Go(func() error {
			commit, err := archive.Committed(ctx, n.key)
			if errors.Is(err, storage.ErrNotFound) {
				return nil
			} else if err != nil {
				return err
			}
			p := &commit.Provenance
			ended := p.Started.Add(time.Duration(p.Seconds * float64(time.Second)))
			ticks[i] = Tick{n.round, ended, p.Started, p.Took}
			return nil
		})
	}
	err = group.Wait()
	return slices.DeleteFunc(ticks, func(t Tick) bool { return t.Time.IsZero() }), err
}

// timedNode is a node after which the training has come to a round.
type timedNode struct {
	round int
	key   storage.Key
}

// timed are the nodes of a cell's training whose records last, and the last that is there.
func timed(ctx context.Context, archive *storage.Archive, cell *plan.Cell) ([]timedNode, error) {
	nodes := []timedNode{{0, cell.Initial.Key}}
	if cell.Chain != nil {
		steps, err := timedSteps(ctx, archive, cell)
		if err != nil {
			return nil, err
		}
		for _, step := range steps {
			nodes = append(nodes, timedNode{step * cell.Chain.StepRounds, cell.Chain.Key(step)})
		}
	}
	if cell.Tail.Rounds > 0 {
		nodes = append(nodes, timedNode{cell.Rounds(), cell.Tail.Node.Key})
	}
	return nodes, nil
}

// timedSteps are those of the cell's chain, which may go on for other cells.
func timedSteps(ctx context.Context, archive *storage.Archive, cell *plan.Cell) ([]int, error) {
	done, err := availability.LastStep(ctx, archive, cell.Chain)
	if err != nil {
		return nil, err
	}
	done = min(done, cell.ChainSteps())
	steps := slices.DeleteFunc(cell.Chain.LastingSteps(), func(step int) bool { return step > done })
	if done > 0 && !slices.Contains(steps, done) {
		steps = append(steps, done)
	}
	return steps, nil
}

// addSpeeds sets the speed of all rounds of which commits say how long they took, and, for commits
// that do not say it yet, a mean of all rounds between two ticks.
func addSpeeds(rounds []Round, clock []Tick, cell *plan.Cell) {
	addMeanSpeeds(rounds, clock, cell)
	for i := range clock {
		for j, seconds := range clock[i].took {
			round := clock[i].Round - (len(clock[i].took)-1-j)*cell.Chain.StepRounds
			at := after(rounds, round) - 1
			if seconds > 0 && at >= 0 && rounds[at].Row.Round == int64(round) {
				rounds[at].TokensPerSecond = float64(rounds[at].Tokens) / seconds
			}
		}
	}
}

// addMeanSpeeds sets the speed of all rounds between two ticks whose rows are all there. The initial
// model may be there for long when a training begins, so nothing is measured from it.
func addMeanSpeeds(rounds []Round, clock []Tick, cell *plan.Cell) {
	step := cell.Tail.Rounds
	if cell.Chain != nil {
		step = cell.Chain.StepRounds
	}
	for i := 1; i < len(clock); i++ {
		from, to := &clock[i-1], &clock[i]
		between := rounds[after(rounds, from.Round):after(rounds, to.Round)]
		if want := (to.Round - from.Round + step - 1) / step; len(between) != want {
			continue
		}
		speed := speedOf(between, from, to)
		for j := range between {
			between[j].TokensPerSecond = speed
		}
	}
}

// after is the index of the first of the rounds that comes after one.
func after(rounds []Round, round int) int {
	return sort.Search(len(rounds), func(i int) bool { return rounds[i].Row.Round > int64(round) })
}

// speedOf is the mean over all rounds between two ticks, 0 where the times tell none.
func speedOf(rounds []Round, from, to *Tick) float64 {
	since := from.Time
	if len(rounds) == 1 && rounds[0].Clients == 0 { // one task of central training
		since = to.began
	} else if from.Round == 0 {
		return 0
	}
	tokens := int64(0)
	for i := range rounds {
		tokens += rounds[i].Tokens
	}
	seconds := to.Time.Sub(since).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(tokens) / seconds
}
