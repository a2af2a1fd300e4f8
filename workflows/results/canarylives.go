package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/internal/goroutines"

	"coalmine/internal/encoding"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// CanaryLives holds the canaries of a cell's canaries block, and the outcomes of each one along the
// training, also of a training in progress.
type CanaryLives struct {
	Run   string    `json:"run"`
	Cell  string    `json:"cell"`
	Label string    `json:"label"`
	Unit  plan.Unit `json:"unit"`
	// Canaries are in the order in which they were drawn; empty before that.
	Canaries []LivingCanary `json:"canaries"`
	// Rounds are the rounds with outcomes of canaries, ascending.
	Rounds []CanaryRound `json:"rounds"`
}

// LivingCanary is a canary with its newest outcomes.
type LivingCanary struct {
	Role   audits.Role    `json:"role"`
	Canary reports.Canary `json:"canary"`
}

// CanaryRound holds the outcomes after a round.
type CanaryRound struct {
	Round int `json:"round"`
	// Outcomes holds an object for each canary, with the members that it has in results.
	Outcomes []encoding.Object `json:"outcomes"`
}

// LoadCanaryLives reads the canaries of a cell, with at most points measured rounds; points is at
// least 2. The error wraps storage.ErrNotFound if the run has no such cell.
func LoadCanaryLives(ctx context.Context, archive *storage.Archive, run *runs.Run, cell string, points int) (*CanaryLives, error) {
	spec, p, planned, err := findCell(ctx, archive, run, cell)
	if err != nil {
		return nil, err
	}
	lives := newCanaryLives(run, spec)
	if err := lives.read(ctx, archive, p.Nodes[planned.Report.Key], points); err != nil {
		return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, cell, err)
	}
	return lives, nil
}

func newCanaryLives(run *runs.Run, spec *experiment.Cell) *CanaryLives {
	return &CanaryLives{
		Run: run.ID, Cell: spec.Name, Label: spec.Label, Unit: compile.Unit(&spec.Experiment.Training),
		Canaries: []LivingCanary{}, Rounds: []CanaryRound{},
	}
}

// read reads the inputs of the report's node.
func (l *CanaryLives) read(ctx context.Context, archive *storage.Archive, report *plan.Node, points int) error {
	var params reports.CellParams
	if err := json.Unmarshal(report.Params, &params); err != nil {
		return fmt.Errorf("parameters of its report: %w", err)
	}
	if err := l.readCanaries(ctx, archive, report); err != nil || len(l.Canaries) == 0 {
		return err
	}
	rounds, err := l.readRounds(ctx, archive, report, params.Audits, spread(params.Measured, points))
	if err != nil {
		return err
	}
	for _, r := range rounds {
		if r.Outcomes != nil {
			l.Rounds = append(l.Rounds, r)
		}
	}
	return l.showNewest()
}

// readCanaries reads the placements of the canaries, if they exist.
func (l *CanaryLives) readCanaries(ctx context.Context, archive *storage.Archive, report *plan.Node) error {
	key := report.Input(reports.PlacementsInput)
	if key == (storage.Key{}) {
		return nil // no audit measures canaries
	}
	var placed []datasets.Placement
	if err := readJSON(ctx, archive, key, datasets.CanariesBlob, &placed); errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("canaries: %w", err)
	}
	for _, one := range placed {
		canary, err := reports.NewCanary(one)
		if err != nil {
			return err
		}
		l.Canaries = append(l.Canaries, LivingCanary{canary.Role, canary})
	}
	return nil
}

// readsAtOnce is the number of concurrent reads of cells, rounds or commits.
const readsAtOnce = 16

func (l *CanaryLives) readRounds(ctx context.Context, archive *storage.Archive, report *plan.Node, asked []reports.AuditParams, rounds []int) ([]CanaryRound, error) {
	found := make([]CanaryRound, len(rounds))
	group, ctx := goroutines.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, round := range rounds {
		found[i].Round = round
		group.Go(func() error {
			for _, a := range asked {
				key := report.Input(reports.AuditInput(a.Name, round))
				if err := l.readOutcomes(ctx, archive, key, a.CanaryOutcomesBlob, &found[i]); err != nil {
					return fmt.Errorf("%s after %s %d: %w", a.Name, l.Unit, round, err)
				}
			}
			return nil
		})
	}
	return found, group.Wait()
}

// readOutcomes adds an audit's outcomes of each canary, if it has any.
func (l *CanaryLives) readOutcomes(ctx context.Context, archive *storage.Archive, key storage.Key, blob string, into *CanaryRound) error {
	if blob == "" || key == (storage.Key{}) {
		return nil
	}
	var canaryOutcomes []encoding.Object
	if err := readJSON(ctx, archive, key, blob, &canaryOutcomes); errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	if len(canaryOutcomes) != len(l.Canaries) {
		return fmt.Errorf("%d outcomes for %d canaries: %w", len(canaryOutcomes), len(l.Canaries), storage.ErrCorrupt)
	}
	if into.Outcomes == nil {
		into.Outcomes = make([]encoding.Object, len(canaryOutcomes))
	}
	for i, canaryOutcome := range canaryOutcomes {
		if err := into.Outcomes[i].Join(canaryOutcome); err != nil {
			return fmt.Errorf("canary %d: %w: %w", i, storage.ErrCorrupt, err)
		}
	}
	return nil
}

// showNewest sets each canary's newest outcomes.
func (l *CanaryLives) showNewest() error {
	for _, r := range l.Rounds {
		for i, canaryOutcome := range r.Outcomes {
			if err := l.Canaries[i].Canary.Outcomes.Merge(canaryOutcome); err != nil {
				return err
			}
		}
	}
	return nil
}
