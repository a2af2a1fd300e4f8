package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// rememberedCells bounds the number of cells of cached results. A cell takes some tens of KB with its figures.
const rememberedCells = 2000

// outcomes caches the results of the last requested runs. A page requests the figures of a run one by one,
// and there may be many pages; all of them share one reading.
type outcomes struct {
	mu    sync.Mutex
	known []*outcome // the last requested one is last
}

// outcome is the result of one run. One goroutine at a time reads it.
type outcome struct {
	run       string
	submitted time.Time // the id of a removed run may be reused
	cells     int       // of its results; guarded by outcomes.mu
	turn      chan struct{}

	// results are the results after position entries of the run's log, or nil before the first reading.
	// Only the holder of turn writes them.
	results  *results.Results
	position int
}

// get returns the results of a run, and reads them again unless the cached ones are current. The caller may
// change the value, but not the values that it points to.
func (x *outcomes) get(ctx context.Context, archive *storage.Archive, run *runs.Run) (*results.Results, error) {
	o := x.find(run)
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := o.renew(ctx, archive, run); err != nil {
		return nil, err
	}
	x.shrink(o, len(o.results.Cells))
	copied := *o.results
	return &copied, nil
}

// find returns the cached entry of a run, which may be empty, and moves it to the end.
func (x *outcomes) find(run *runs.Run) *outcome {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.IndexFunc(x.known, func(o *outcome) bool { return o.run == run.ID && o.submitted.Equal(run.State.Submitted) })
	if i < 0 {
		i = len(x.known)
		x.known = append(x.known, &outcome{run: run.ID, submitted: run.State.Submitted, turn: make(chan struct{}, 1)})
	}
	o := x.known[i]
	x.known = append(slices.Delete(x.known, i, i+1), o)
	return o
}

// renew reads the results if the run's log or its cells have changed.
func (o *outcome) renew(ctx context.Context, archive *storage.Archive, run *runs.Run) error {
	if o.results != nil && o.position >= run.Position() {
		grown, err := o.results.Stale(ctx, archive)
		if err != nil || !grown {
			return err
		}
	}
	found, err := results.Load(ctx, archive, run)
	if err == nil {
		o.results, o.position = found, run.Position()
	}
	return err
}

// shrink records the number of a run's cells, and evicts the least recently used entries beyond the bound.
// A run with more cells than the bound is not cached.
func (x *outcomes) shrink(read *outcome, cells int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	read.cells = cells
	sum := 0
	for i := len(x.known) - 1; i >= 0; i-- {
		sum += max(1, x.known[i].cells)
		if sum > rememberedCells {
			x.known = slices.Delete(x.known, 0, i+1)
			return
		}
	}
}

// Bounds of the number of rounds of a requested curve.
const (
	MinPoints = 2
	MaxPoints = 20_000
)

func (l *Local) Curve(ctx context.Context, name, cell string, points int) (*results.Curve, error) {
	if points < MinPoints || points > MaxPoints {
		return nil, fmt.Errorf("a curve of %d points %w: expected %d to %d", points, ErrInput, MinPoints, MaxPoints)
	}
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	curve, err := results.LoadCurve(ctx, l.archive, run, cell, points)
	return curve, repairable(run, err)
}

// verdict caches the failed gates of a run, at a position of its log.
type verdict struct {
	mu       sync.Mutex
	known    bool
	position int
	gate     string              // the run's gate; "" if no cell has been judged
	breaches map[string][]string // by cell
}

// judged adds the failed gates to the status of a finished run. It adds none if the run's results cannot be read.
func (l *Local) judged(ctx context.Context, run *runs.Run, record *recorded, s *status.Run) *status.Run {
	if !record.gated || !run.State.Phase.Finished() {
		return s
	}
	v := &record.verdict
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known || v.position != run.Position() {
		if err := v.read(ctx, l, run); err != nil {
			slog.Default().Warn("cannot read the gates of a run", "run", run.ID, "error", err)
			return s
		}
	}
	s.Gate = v.gate
	for i := range s.Cells {
		s.Cells[i].Breaches = v.breaches[s.Cells[i].Cell]
	}
	return s
}

// read reads the gates from the results.
func (v *verdict) read(ctx context.Context, l *Local, run *runs.Run) (err error) {
	if len(run.Spec.Experiment) == 0 {
		if run, err = l.runs.Get(ctx, run.ID); err != nil {
			return err
		}
	}
	found, err := l.outcomes.get(ctx, l.archive, run)
	if err != nil {
		return err
	}
	v.known, v.position, v.gate, v.breaches = true, run.Position(), found.Gate(), make(map[string][]string)
	for i := range found.Cells {
		v.breaches[found.Cells[i].Cell] = found.Cells[i].Breaches
	}
	return nil
}

// Spending is the privacy cost of a cell's training, as counted by its server round by round.
type Spending struct {
	Cell         string               `json:"cell"`
	Delta        float64              `json:"delta"`
	Sampling     privacy.Sampling     `json:"sampling"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Conversion   privacy.Conversion   `json:"conversion"`
	Unit         string               `json:"unit"`
	// Budget is the budget that ends the training, or nil.
	Budget *privacy.Budget `json:"budget,omitempty"`
	// Grounds are empty before the population is known.
	privacy.Grounds
	// Rounds lists some finished rounds, ascending, including the last; it is empty if the training adds no noise.
	Rounds []SpentRound `json:"rounds"`
}

// SpentRound is the cost up to a round, in both conventions; null if infinite.
type SpentRound struct {
	Round         int             `json:"round"`
	Epsilon       privacy.Epsilon `json:"epsilon"`
	EpsilonProved privacy.Epsilon `json:"epsilon_proved"`
}

// Reports returns the rounds as reports of the accountant, for privacy.EpsilonFigure.
func (s *Spending) Reports() []privacy.Report {
	var out []privacy.Report
	for _, r := range s.Rounds {
		out = append(out, privacy.Report{
			Rounds: r.Round, Epsilon: r.Epsilon, EpsilonProved: r.EpsilonProved, AccountantProved: privacy.RDP, Delta: s.Delta,
			Sampling: s.Sampling, Neighbouring: s.Neighbouring, Conversion: s.Conversion, Unit: s.Unit,
		})
	}
	return out
}

// Maximum numbers of segments read and of rounds returned: enough for a curve.
const (
	spendingSegments = 20
	spendingRounds   = 200
)

func (l *Local) Spending(ctx context.Context, name, cell string) (Spending, error) {
	x, err := l.exporter(ctx, name, cell)
	if err != nil {
		return Spending{}, err
	}
	s := Spending{Cell: x.cell.Name, Rounds: []SpentRound{}, Grounds: privacy.Grounds{Assumptions: []string{}, NotCovered: []string{}}}
	if err := x.run.Readable("the privacy cost"); err != nil {
		return Spending{}, err
	}
	training := &x.experiment.Training
	if training.Privacy == nil || training.Privacy.NoiseMultiplier == 0 || x.cell.Chain == nil {
		return s, nil
	}
	s.Delta, s.Sampling = training.Privacy.Delta, training.Sampling
	s.Neighbouring, s.Conversion = s.Sampling.Neighbouring(), cmp.Or(training.Privacy.Accounting(), privacy.Classic)
	s.Unit = x.experiment.Unit()
	if err := l.addGrounds(ctx, x, &s); err != nil {
		return s, fmt.Errorf("run %s, cell %s: %w", x.run.ID, s.Cell, err)
	}
	rows, err := plan.Rows(ctx, l.archive, x.cell.Chain, spendingSegments)
	if err != nil {
		return s, fmt.Errorf("run %s, cell %s: %w", x.run.ID, s.Cell, err)
	}
	stride := (len(rows) + spendingRounds - 1) / spendingRounds
	for i, row := range rows {
		if i%stride == 0 || i == len(rows)-1 {
			s.Rounds = append(s.Rounds, SpentRound{int(row.Round), privacy.Epsilon(row.Epsilon), privacy.Epsilon(row.EpsilonProved)})
		}
	}
	return s, nil
}

// addGrounds adds the budget, and the assumptions and scope of the epsilons.
func (l *Local) addGrounds(ctx context.Context, x *exporter, s *Spending) error {
	report := x.plan.Nodes[x.cell.Report.Key]
	params, err := plan.ParamsOf[reports.CellParams](report)
	if err != nil {
		return err
	}
	s.Budget = params.Training.Budget
	commit, err := l.archive.Committed(ctx, report.Input(reports.PopulationInput))
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	var counts population.PartitionMetrics
	if err := json.Unmarshal(commit.Metrics, &counts); err != nil {
		return fmt.Errorf("metrics of its population: %w: %w", storage.ErrCorrupt, err)
	}
	s.Grounds, err = privacy.GroundsOf(params.Training.Recipe(&counts.Counts))
	return err
}
