// Package reports holds the last kind of a cell: reports/cell combines the audits, the utility and
// the privacy cost of a training, as in the results.
package reports

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/encoding"
	"coalmine/privacy"
	"coalmine/privacy/correlated"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/filters"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/devices"
	"coalmine/tasks/selection"
	"coalmine/tasks/training"
	"coalmine/tasks/updates"
)

// PopulationInput of reports/cell is the datasets/partition node.
const PopulationInput = "population"

// PlacementsInput of reports/cell is the datasets/partition node, which has the placements of the
// canaries. It is present if an audit has outcomes of canaries.
const PlacementsInput = audits.PlacementsInput

// FaultsInput of reports/cell is the datasets/import node, if faults are planted or skipped.
const FaultsInput = "faults"

// SelectionInput of reports/cell is the node of package selection, if any.
const SelectionInput = "selection"

// DevicesInput of reports/cell is the node of package devices, if any.
const DevicesInput = "devices"

// SanitizedInput of reports/cell is the datasets/sanitize node, if any.
const SanitizedInput = "sanitized"

// DisagreementInput of reports/cell is the datasets/disagree node, if any.
const DisagreementInput = "disagreement"

// StoppingInput of reports/cell is the training/best node, if the training has early stopping.
const StoppingInput = "early-stopping"

// PursuitInput of reports/cell is the last node of the training, if the training has a target.
const PursuitInput = "stop-at"

// RecordedInput returns the input name of updates/gather node i of reports/cell, from 0, if the training
// records its devices' updates.
func RecordedInput(i int) string { return fmt.Sprintf("recorded-%d", i) }

// AuditInput returns the input name of an audit's measurement after a round (an SGD step).
func AuditInput(audit string, round int) string { return fmt.Sprintf("%s-%d", audit, round) }

// CellBlob is the Report, as JSON.
const CellBlob = "cell"

// CellParams are the parameters of reports/cell.
type CellParams struct {
	Training TrainingParams `json:"training"`
	// Measured lists the rounds after which the model was measured, ascending;
	// the last is the end of the training.
	Measured []int `json:"measured"`
	// Audits are the audits of the cell.
	Audits []AuditParams `json:"audits"`
}

// AuditParams lists the outputs to read from an audit's nodes.
type AuditParams struct {
	// Name is the name of the audit; its nodes are the inputs AuditInput(Name, round).
	Name string `json:"name"`
	// AtEnd reports whether the audit measured only the last model.
	AtEnd bool `json:"at_end,omitempty"`
	// OutcomeBlob and CanaryOutcomesBlob are as in audits.Description.
	OutcomeBlob        string `json:"verdict_blob,omitempty"`
	CanaryOutcomesBlob string `json:"outcomes_blob,omitempty"`
}

// TrainingParams describe the training.
type TrainingParams struct {
	Algorithm string                  `json:"algorithm"`
	Rounds    int                     `json:"rounds"`
	Cohort    int                     `json:"cohort"`
	Partition population.Partitioning `json:"partition"`
	// WholeUsers reports whether users are the users of the data, neither balanced nor cut.
	WholeUsers bool `json:"whole_users,omitempty"`
	// Devices reports whether users are divided into devices, which train instead.
	Devices bool `json:"devices,omitempty"`
	// Sampling is that of the cohorts or, in central training with clipping, of the batches; otherwise empty.
	Sampling privacy.Sampling `json:"sampling,omitempty"`
	// Separation and Participations are those of separated cohorts; 0 if they follow from the users.
	Separation     int `json:"separation,omitempty"`
	Participations int `json:"participations,omitempty"`
	// Mechanism correlates the noise of the rounds; nil if it is independent.
	Mechanism *correlated.Mechanism `json:"mechanism,omitempty"`
	// Clip 0 means that updates were not clipped; NoiseMultiplier and Delta are 0 without noise.
	Clip            float64 `json:"clip,omitempty"`
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	Delta           float64 `json:"delta,omitempty"`
	// NoiseBy is privacy.ByDevices if every device adds a share of the noise, empty if the server
	// adds it.
	NoiseBy privacy.NoiseBy `json:"noise_by,omitempty"`
	// Conversion is the conversion to the epsilons; empty for privacy.Classic.
	Conversion privacy.Conversion `json:"conversion,omitempty"`
	// Accountant is that of epsilon_proved and the budget; it is set with clipping. Empty means privacy.RDP
	// and is omitted from the report, to keep the bytes of older cells.
	Accountant privacy.Accountant `json:"accountant,omitempty"`
	// Randomness is privacy.Secret if noise and cohorts come from a key, empty if they come from
	// the seed.
	Randomness privacy.Randomness `json:"randomness,omitempty"`
	// Control is a deliberate fault of the training.
	Control privacy.Control `json:"control,omitempty"`
	// QuantizeBits is the number of bits that the weights of the measured models were rounded to, 0
	// without rounding.
	QuantizeBits int `json:"quantize_bits,omitempty"`
	// Adaptive is the adaptive clipping; nil with a fixed clip norm.
	Adaptive *privacy.ClipQuantile `json:"adaptive_clip,omitempty"`
	// Budget is the budget of the training, or nil without one.
	Budget *privacy.Budget `json:"budget,omitempty"`
}

// central is the Algorithm of training on records.
const central = "sgd"

// population returns the number of units that cohorts are drawn from: users or, in central
// training, records.
func (p *TrainingParams) population(counts *population.Counts) int {
	if p.Algorithm == central {
		return counts.Examples
	}
	return counts.Users
}

// Cell assembles the outcome of a cell. It is independent of audits: it copies their outcomes
// unchanged.
var Cell = tasks.Kind{Name: "reports/cell", Version: 3, Class: tasks.Compute, Run: tasks.WithParams(runCell)}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Cell} }

func runCell(ctx context.Context, t *tasks.Task, p *CellParams) error {
	var counts population.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &counts); err != nil {
		return err
	}
	cell := Report{Training: describe(&p.Training, &counts)}
	if err := cell.readFaults(ctx, t); err != nil {
		return err
	}
	if err := cell.readCountermeasures(ctx, t); err != nil {
		return err
	}
	if err := cell.readRecorded(ctx, t); err != nil {
		return err
	}
	for _, round := range p.Measured {
		cell.Curve = append(cell.Curve, Point{Round: round})
	}
	if err := cell.readCanaries(ctx, t, p); err != nil {
		return err
	}
	for i := range p.Audits {
		if err := cell.read(ctx, t, &p.Audits[i]); err != nil {
			return fmt.Errorf("audit %s: %w", p.Audits[i].Name, err)
		}
	}
	cell.endAtTarget()
	if err := cell.account(p.Training.population(&counts.Counts)); err != nil {
		return tasks.Permanent(err)
	}
	return t.PutJSON(ctx, CellBlob, cell)
}

// readFaults reads the planted faults and the skipped records, if any.
func (r *Report) readFaults(ctx context.Context, t *tasks.Task) error {
	if !t.Has(FaultsInput) {
		return nil
	}
	var source datasets.ImportMetrics
	err := t.InputMetrics(ctx, FaultsInput, &source)
	r.Faults, r.Skipped = source.Faults, source.Skipped
	return err
}

// readCountermeasures reads the round that early stopping chose or at which a target was reached,
// the selection, and the removals of the data's filters, if the cell has them.
func (r *Report) readCountermeasures(ctx context.Context, t *tasks.Task) error {
	if t.Has(StoppingInput) {
		r.Stopping = new(training.Stopping)
		if err := t.InputMetrics(ctx, StoppingInput, r.Stopping); err != nil {
			return err
		}
	}
	for _, output := range []struct {
		input, blob string
		into        any
	}{
		{PursuitInput, training.PursuitBlob, &r.StopAt},
		{SelectionInput, selection.SelectionBlob, &r.Selection},
		{DevicesInput, devices.WorldBlob, &r.Devices},
		{SanitizedInput, filters.SanitizedBlob, &r.Sanitized},
		{DisagreementInput, filters.DisagreementBlob, &r.Disagreement},
	} {
		if !t.Has(output.input) {
			continue
		}
		if err := t.InputJSON(ctx, output.input, output.blob, output.into); err != nil {
			return err
		}
	}
	return nil
}

// readRecorded counts the recorded updates of the devices, if any.
func (r *Report) readRecorded(ctx context.Context, t *tasks.Task) error {
	for i := 0; t.Has(RecordedInput(i)); i++ {
		g, err := updates.ReadGathered(ctx, t, RecordedInput(i))
		if err != nil {
			return err
		}
		if r.Recorded == nil {
			r.Recorded = &Recorded{Layers: g.Layout.Layers, Values: g.Layout.Values()}
		}
		r.Recorded.Rounds += g.Rounds
		r.Recorded.Updates += g.Updates
		r.Recorded.Bytes += g.Bytes
	}
	return nil
}

func describe(p *TrainingParams, counts *population.PartitionMetrics) Training {
	t := Training{TrainingParams: *p, Counts: counts.Counts, ReplacedExamples: counts.ReplacedExamples}
	t.Epochs = float64(p.Rounds) * float64(p.Cohort) / float64(p.population(&counts.Counts))
	return t
}

// readCanaries lists the canaries of the canaries block, if an audit has outcomes of canaries.
func (r *Report) readCanaries(ctx context.Context, t *tasks.Task, p *CellParams) error {
	if !slices.ContainsFunc(p.Audits, func(a AuditParams) bool { return a.CanaryOutcomesBlob != "" }) {
		return nil
	}
	placed, err := population.ReadPlacements(ctx, t, PlacementsInput)
	if err != nil {
		return err
	}
	r.Audit = newAudit()
	for _, one := range placed {
		canary, err := NewCanary(one)
		if err != nil {
			return tasks.Permanent(err)
		}
		r.Audit.canaries = append(r.Audit.canaries, canary)
	}
	return nil
}

// read reads the outcome of an audit. The last measurement is the outcome of the cell.
func (r *Report) read(ctx context.Context, t *tasks.Task, a *AuditParams) error {
	for i := range r.Curve {
		if a.AtEnd {
			break
		}
		if err := r.Curve[i].read(ctx, t, a); err != nil {
			return err
		}
	}
	return r.readOutcome(ctx, t, a, AuditInput(a.Name, r.Curve[len(r.Curve)-1].Round))
}

// read reads the metrics of a measurement.
func (p *Point) read(ctx context.Context, t *tasks.Task, a *AuditParams) error {
	input := AuditInput(a.Name, p.Round)
	if a.Name == Utility {
		return t.InputMetrics(ctx, input, &p.Utility)
	}
	var metrics encoding.Object
	if err := t.InputMetrics(ctx, input, &metrics); err != nil {
		return err
	}
	return p.Metrics.Join(metrics)
}

func (r *Report) readOutcome(ctx context.Context, t *tasks.Task, a *AuditParams, input string) error {
	var outcome json.RawMessage
	var err error
	if a.OutcomeBlob == "" {
		err = t.InputMetrics(ctx, input, &outcome)
	} else {
		outcome, err = t.Blob(ctx, input, a.OutcomeBlob)
	}
	if err != nil {
		return err
	}
	if a.Name == Utility {
		r.Utility = outcome
		return nil
	}
	if r.Audit == nil {
		r.Audit = newAudit()
	}
	if err := r.Audit.Outcomes.Set(a.Name, outcome); err != nil || a.CanaryOutcomesBlob == "" {
		return err
	}
	return r.Audit.readOutcomes(ctx, t, a, input)
}

func (a *Audit) readOutcomes(ctx context.Context, t *tasks.Task, from *AuditParams, input string) error {
	var outcomes []encoding.Object
	if err := t.InputJSON(ctx, input, from.CanaryOutcomesBlob, &outcomes); err != nil {
		return err
	}
	if len(outcomes) != len(a.canaries) {
		return tasks.Permanent(fmt.Errorf("%d outcomes for %d canaries", len(outcomes), len(a.canaries)))
	}
	for i, outcome := range outcomes {
		if err := a.canaries[i].Outcomes.Join(outcome); err != nil {
			return err
		}
	}
	return nil
}

// endAtTarget sets the number of rounds to those run before the target was reached.
func (r *Report) endAtTarget() {
	if r.StopAt == nil || !r.StopAt.Reached {
		return
	}
	p := &r.Training
	p.Epochs *= float64(r.StopAt.MeasuredAt) / float64(p.Rounds)
	p.Rounds = r.StopAt.MeasuredAt
}

// account adds the privacy cost of a training with clipped updates, at its end and along the curve.
// Without clipping no privacy is claimed.
func (r *Report) account(population int) error {
	p := &r.Training
	if p.Clip == 0 {
		return nil
	}
	meter, err := privacy.NewMeter(recipe(&p.TrainingParams, population))
	if err != nil {
		return err
	}
	if p.Budget != nil {
		r.Budget = &BudgetUse{Budget: *p.Budget, RoundsAllowed: p.Budget.RoundsWithin(meter)}
		r.Budget.Stopped = r.Budget.RoundsAllowed <= p.Rounds
		p.Epochs *= float64(min(p.Rounds, r.Budget.RoundsAllowed)) / float64(p.Rounds)
		p.Rounds = min(p.Rounds, r.Budget.RoundsAllowed)
	}
	report, err := meter.After(p.Rounds)
	if err != nil {
		return err
	}
	r.Privacy = &report
	if p.Accountant == "" {
		report.AccountantProved, report.TheoremProved, report.EpsilonRenyi = "", "", 0
	}
	for i := range r.Curve {
		r.Curve[i].Privacy = costOf(meter, min(r.Curve[i].Round, p.Rounds), &report)
	}
	return nil
}

// costOf returns the privacy spent after some of the report's rounds.
func costOf(meter *privacy.Meter, rounds int, report *privacy.Report) *Cost {
	if rounds == report.Rounds {
		return &Cost{report.Epsilon, report.EpsilonProved, report.Infinite, report.Delta}
	}
	epsilon, _ := meter.Spent(rounds)
	proved := meter.EpsilonProved(rounds, report.Delta)
	return &Cost{epsilon, privacy.Epsilon(proved), math.IsInf(proved, 1), report.Delta}
}

// Recipe returns the recipe of the report's Privacy, which is not nil.
func (r *Report) Recipe() privacy.Recipe {
	return recipe(&r.Training.TrainingParams, r.Privacy.Population)
}

// Recipe returns the recipe of the training's privacy account, with the users or
// records of the population.
func (p *TrainingParams) Recipe(counts *population.Counts) privacy.Recipe {
	return recipe(p, p.population(counts))
}

func recipe(p *TrainingParams, population int) privacy.Recipe {
	return privacy.Recipe{
		Population:      population,
		Cohort:          p.Cohort,
		Rounds:          p.Rounds,
		NoiseMultiplier: p.NoiseMultiplier,
		Delta:           p.Delta,
		Sampling:        p.Sampling,
		Conversion:      p.Conversion,
		Accountant:      cmp.Or(p.Accountant, privacy.RDP),
		Unit:            Unit(p.Algorithm == central, p.Devices, p.Partition, p.WholeUsers),
		Randomness:      cmp.Or(p.Randomness, privacy.Seeded),
		ClipQuantile:    p.Adaptive,
		Separation:      p.Separation,
		Participations:  p.Participations,
		Mechanism:       p.Mechanism,
		NoiseBy:         p.NoiseBy,
		Control:         p.Control,

		LossDistribution: p.Accountant == privacy.Tightest,
	}
}

// Unit names the unit that a guarantee protects: a record in central training, otherwise a user of
// the population, which may be a device or a whole user of the data. For an unknown partition it is
// "user".
func Unit(central, divided bool, partition population.Partitioning, whole bool) string {
	switch {
	case central:
		return privacy.RecordUnit
	case divided:
		return "device"
	}
	scheme, err := population.FindPartition(partition)
	if err != nil {
		return "user"
	}
	if whole {
		return scheme.WholeUnit
	}
	return scheme.Unit
}
