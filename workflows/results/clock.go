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
)

// Tick is the time when a cell's training completed a round. Round 0 is the initial model.
type Tick struct {
	Round int       `json:"round"`
	Time  time.Time `json:"time"`

	// began is the start of the task that completed the round.
	began time.Time
	// took holds the seconds of the last steps of the chain up to the round, as far as its commit contains
	// them; 0 means unknown. See storage.Provenance.
	took []float64
}

// readClock returns the times of the rounds whose records are kept, and of the last round. Steps computed
// by other runs have earlier times.
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

// timedNode is a node that completes a round of the training.
type timedNode struct {
	round int
	key   storage.Key
}

// timed returns the nodes of a cell's training whose records are kept, and the last node.
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

// timedSteps returns the recorded steps of the cell's chain, which may continue for other cells.
func timedSteps(ctx context.Context, archive *storage.Archive, cell *plan.Cell) ([]int, error) {
	done, err := plan.LastStep(ctx, archive, cell.Chain)
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

// addSpeeds sets the speeds of rounds: from the commits that contain their times or, for older commits, the
// mean speed between two ticks.
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

// addMeanSpeeds sets the speeds of all rounds between two ticks if none of their rows is missing. It skips
// the initial model, which may exist long before a training begins.
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

// after returns the index of the first element of rounds after a round.
func after(rounds []Round, round int) int {
	return sort.Search(len(rounds), func(i int) bool { return rounds[i].Row.Round > int64(round) })
}

// speedOf returns the mean speed over all rounds between two ticks in tokens per second, or 0 if unknown.
func speedOf(rounds []Round, from, to *Tick) float64 {
	since := from.Time
	if len(rounds) == 1 && rounds[0].Clients == 0 { // single task of central training
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
