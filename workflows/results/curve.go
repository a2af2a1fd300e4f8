package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/internal/encoding"
	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// Curve holds the measurements of a cell along its training. The training may be in progress.
type Curve struct {
	Run   string          `json:"run"`
	Cell  string          `json:"cell"`
	Label string          `json:"label"`
	Axes  experiment.Axes `json:"axes"`
	// Unit is the unit of a round. In central training a round is a task of several steps, numbered by its last step.
	Unit plan.Unit `json:"unit"`
	// LossUnit is the unit of the losses, "" if they have none.
	LossUnit string `json:"loss_unit,omitempty"`
	// Steps is the planned length of the training, in units.
	Steps int `json:"steps"`
	// Rounds are some of the completed rounds, ascending: the first, the last, and evenly spaced ones between them.
	Rounds []Round `json:"rounds"`
	// Audited are the completed measurements, ascending. Their numbers have the names that they have in the
	// curve of a report.
	Audited []reports.Point `json:"audited"`
	// Clock holds the completion times of some rounds, ascending.
	Clock []Tick `json:"clock"`
	// Withheld lists the columns that the rounds of a training with a secret key lack.
	Withheld []string `json:"withheld,omitempty"`
}

// roundsOfSegment is the number of rounds taken from a segment, so that a curve with few rounds reads only
// some segments.
const roundsOfSegment = 10

// LoadCurve reads the measurements of a cell along its training, after at most points rounds; points is at
// least 2. The error wraps storage.ErrNotFound if the run has no such cell.
func LoadCurve(ctx context.Context, archive *storage.Archive, run *runs.Run, cell string, points int) (*Curve, error) {
	spec, p, planned, err := findCell(ctx, archive, run, cell)
	if err != nil {
		return nil, err
	}
	curve, err := loadCurve(ctx, archive, spec, p, planned, points)
	if err != nil {
		return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, cell, err)
	}
	curve.Run = run.ID
	return curve, nil
}

// findCell returns a cell of a run, the plan, and the cell in the plan. The error wraps
// storage.ErrNotFound if the run has no such cell.
func findCell(ctx context.Context, archive *storage.Archive, run *runs.Run, cell string) (*experiment.Cell, *plan.Plan, *plan.Cell, error) {
	planned, err := runs.ReadPlanned(ctx, archive, run)
	if err == nil {
		err = planned.Readable("the curve of a training")
	}
	if err != nil {
		return nil, nil, nil, err
	}
	spec, p := planned.Spec, planned.Plan
	for i := range p.Cells {
		if p.Cells[i].Name == cell {
			return &spec.Cells[i], p, &p.Cells[i], planned.CheckReports(ctx, archive, &p.Cells[i])
		}
	}
	return nil, nil, nil, fmt.Errorf("run %s has no cell %.40q; it has %s: %w", run.ID, cell, readable.Range(p.Cells[0].Name, p.Cells[len(p.Cells)-1].Name), storage.ErrNotFound)
}

func loadCurve(ctx context.Context, archive *storage.Archive, spec *experiment.Cell, p *plan.Plan, cell *plan.Cell, points int) (*Curve, error) {
	training := &spec.Experiment.Training
	curve := &Curve{
		Cell: spec.Name, Label: spec.Label, Axes: spec.Axes, Unit: compile.Unit(training), LossUnit: lossUnit(&spec.Experiment), Steps: training.Rounds,
		Audited: []reports.Point{}, Withheld: withheldFrom(&spec.Experiment),
	}
	rounds, clock, err := loadRounds(ctx, archive, spec, cell, max(points/roundsOfSegment, 1))
	if err != nil {
		return nil, err
	}
	curve.Rounds, curve.Clock = spread(rounds, points), clock
	return curve, curve.addAudited(ctx, archive, p.Nodes[cell.Report.Key])
}

// spread returns at most n items: the first, the last, and evenly spaced ones. n is at least 2.
func spread[T any](items []T, n int) []T {
	if len(items) <= n {
		return items
	}
	return lists.Make(n, func(i int) T { return items[i*(len(items)-1)/(n-1)] })
}

// addAudited reads the measurements that are inputs of the report's node.
func (c *Curve) addAudited(ctx context.Context, archive *storage.Archive, report *plan.Node) error {
	params, err := plan.ParamsOf[reports.CellParams](report)
	if err != nil {
		return err
	}
	for _, round := range params.Measured {
		point, err := measured(ctx, archive, report, params, round)
		if err != nil {
			return fmt.Errorf("after round %d: %w", round, err)
		}
		if point.Utility != nil || len(point.Metrics) > 0 {
			c.Audited = append(c.Audited, point)
		}
	}
	return nil
}

// measured returns the completed measurements of a round.
func measured(ctx context.Context, archive *storage.Archive, report *plan.Node, params *reports.CellParams, round int) (reports.Point, error) {
	point := reports.Point{Round: round}
	for _, a := range params.Audits {
		if a.AtEnd {
			continue
		}
		commit, err := archive.Committed(ctx, report.Input(reports.AuditInput(a.Name, round)))
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err == nil {
			err = take(&point, a.Name, commit.Metrics)
		}
		if err != nil {
			return point, fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return point, nil
}

// take adds the metrics of an audit's node to a point, as a report does.
func take(p *reports.Point, audit string, metrics json.RawMessage) error {
	if audit == reports.Utility {
		p.Utility = metrics
		return nil
	}
	var named encoding.Object
	if err := json.Unmarshal(metrics, &named); err != nil {
		return fmt.Errorf("metrics: %w: %w", storage.ErrCorrupt, err)
	}
	return p.Metrics.Join(named)
}

// CanaryLives holds the canaries of a cell's canaries block, and their outcomes along the training. The
// training may be in progress.
type CanaryLives struct {
	Run   string    `json:"run"`
	Cell  string    `json:"cell"`
	Label string    `json:"label"`
	Unit  plan.Unit `json:"unit"`
	// Canaries are in the order in which they were drawn. The list is empty before that.
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

// LoadCanaryLives reads the canaries of a cell, after at most points measured rounds; points is at least 2.
// The error wraps storage.ErrNotFound if the run has no such cell.
func LoadCanaryLives(ctx context.Context, archive *storage.Archive, run *runs.Run, cell string, points int) (*CanaryLives, error) {
	spec, p, planned, err := findCell(ctx, archive, run, cell)
	if err != nil {
		return nil, err
	}
	lives := &CanaryLives{
		Run: run.ID, Cell: spec.Name, Label: spec.Label, Unit: compile.Unit(&spec.Experiment.Training),
		Canaries: []LivingCanary{}, Rounds: []CanaryRound{},
	}
	if err := lives.read(ctx, archive, p.Nodes[planned.Report.Key], points); err != nil {
		return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, cell, err)
	}
	return lives, nil
}

// read reads the inputs of the report's node.
func (l *CanaryLives) read(ctx context.Context, archive *storage.Archive, report *plan.Node, points int) error {
	params, err := plan.ParamsOf[reports.CellParams](report)
	if err != nil {
		return err
	}
	if err := l.readCanaries(ctx, archive, report); err != nil || len(l.Canaries) == 0 {
		return err
	}
	rounds, err := l.readRounds(ctx, archive, report, params.Audits, spread(params.Measured, points))
	if err != nil {
		return err
	}
	for _, r := range rounds {
		if r.Outcomes == nil {
			continue
		}
		l.Rounds = append(l.Rounds, r)
		for i, outcome := range r.Outcomes { // the newest come last
			if err := l.Canaries[i].Canary.Outcomes.Merge(outcome); err != nil {
				return err
			}
		}
	}
	return nil
}

// readCanaries reads the placements of the canaries, if they exist.
func (l *CanaryLives) readCanaries(ctx context.Context, archive *storage.Archive, report *plan.Node) error {
	key := report.Input(reports.PlacementsInput)
	if key == (storage.Key{}) {
		return nil // no audit measures canaries
	}
	var placed []population.Placement
	if err := readJSON(ctx, archive, key, population.CanariesBlob, &placed); errors.Is(err, storage.ErrNotFound) {
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

// readOutcomes adds an audit's outcomes of the canaries, if it has any.
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
