// Package reports holds the kind that ends a cell: reports/cell puts the
// audits, the utility and the privacy cost of a training together, as the
// results print them.
package reports

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"coalmine/privacy"
	"coalmine/tasks"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/summary"
	"coalmine/tasks/audits/utility"
	"coalmine/tasks/datasets"
)

// PopulationInput of reports/cell is the datasets/partition node.
const PopulationInput = "population"

// OneRunInput of reports/cell is the audits/one-run node.
const OneRunInput = "one-run"

// AuditInput and UtilityInput name the measurements after a round (an SGD step).
func AuditInput(round int) string { return fmt.Sprintf("audit-%d", round) }

// UtilityInput names the utility after a round.
func UtilityInput(round int) string { return fmt.Sprintf("utility-%d", round) }

// CellBlob is the Report, as JSON.
const CellBlob = "cell"

// CellParams are the parameters of reports/cell.
type CellParams struct {
	Training TrainingParams `json:"training"`
	// Measured lists the rounds after which the model was measured, ascending;
	// the last is the end of the training.
	Measured []int `json:"measured"`
	Audit    bool  `json:"audit"`
	Utility  bool  `json:"utility"`
	// OneRun says that the end of the training was audited by coins.
	OneRun bool `json:"one_run,omitempty"`
}

// TrainingParams say what was trained.
type TrainingParams struct {
	Algorithm string                `json:"algorithm"`
	Rounds    int                   `json:"rounds"`
	Cohort    int                   `json:"cohort"`
	Partition datasets.Partitioning `json:"partition"`
	// Sampling of the cohorts; empty for central training.
	Sampling privacy.Sampling `json:"sampling,omitempty"`
	// Clip 0 means that updates were not clipped; NoiseMultiplier and Delta are
	// those of the noise, 0 without.
	Clip            float64 `json:"clip,omitempty"`
	NoiseMultiplier float64 `json:"noise_multiplier,omitempty"`
	Delta           float64 `json:"delta,omitempty"`
	// Conversion of the epsilons, empty for the classic one.
	Conversion privacy.Conversion `json:"conversion,omitempty"`
	// Randomness is privacy.Secret where noise and cohorts come from a key, empty
	// where they come from the seed.
	Randomness privacy.Randomness `json:"randomness,omitempty"`
	// Adaptive clipping, nil with a fixed clip norm.
	Adaptive *privacy.ClipQuantile `json:"adaptive_clip,omitempty"`
	// Budget that ended the training, nil if there was none.
	Budget *privacy.Budget `json:"budget,omitempty"`
}

// federated reports whether rounds sample users.
func (p *TrainingParams) federated() bool { return p.Sampling != "" }

// Report is the outcome of a cell.
type Report struct {
	Utility *utility.Utility `json:"utility,omitempty"`
	Privacy *privacy.Report  `json:"privacy,omitempty"`
	// Budget is how far the privacy budget reached; nil without one.
	Budget *BudgetUse     `json:"privacy_budget,omitempty"`
	Audit  *summary.Audit `json:"audit,omitempty"`
	// Training says what was trained on what.
	Training Training `json:"training"`
	// Curve holds the measurements along the training, the last included.
	Curve []Point `json:"curve"`
}

// BudgetUse is how far a privacy budget reached.
type BudgetUse struct {
	privacy.Budget
	// RoundsAllowed is the most that the budget allows; Privacy.Rounds of them
	// have run.
	RoundsAllowed int `json:"rounds_allowed"`
	// Stopped says that one more round would have passed the budget.
	Stopped bool `json:"stopped"`
}

// Training says what was trained on what.
type Training struct {
	TrainingParams
	// Epochs are the rounds in passes over the population.
	Epochs float64 `json:"epochs"`
	// Users, Examples and Words are those of the population.
	datasets.Counts
	// ReplacedExamples of them are canaries.
	ReplacedExamples int `json:"replaced_examples"`
}

// Point is one measurement.
type Point struct {
	Round                   int              `json:"round"`
	Utility                 *utility.Utility `json:"utility,omitempty"`
	RandomSamplingMemorized *int             `json:"random_sampling_memorized,omitempty"`
	BeamSearchMemorized     *int             `json:"beam_search_memorized,omitempty"`
	// Privacy is what the training had cost by then; nil where none is claimed.
	Privacy *Cost `json:"privacy,omitempty"`
}

// Cost is the privacy spent up to a round, in both conventions; the Report's
// Privacy says what they assume. Infinite epsilons are null.
type Cost struct {
	Epsilon       privacy.Epsilon `json:"epsilon"`
	EpsilonProved privacy.Epsilon `json:"epsilon_proved"`
	Infinite      bool            `json:"infinite,omitempty"`
	Delta         float64         `json:"delta"`
}

// Cell puts the outcome of a cell together.
var Cell = tasks.Kind{Name: "reports/cell", Version: 2, Class: tasks.Compute, Run: runCell}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Cell} }

func runCell(ctx context.Context, t *tasks.Task) error {
	var p CellParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	var population datasets.PartitionMetrics
	if err := t.InputMetrics(ctx, PopulationInput, &population); err != nil {
		return err
	}
	cell := Report{Training: describe(&p.Training, &population)}
	for _, round := range p.Measured {
		if err := cell.measure(ctx, t, &p, round); err != nil {
			return err
		}
	}
	if p.OneRun {
		if err := cell.addOneRun(ctx, t); err != nil {
			return err
		}
	}
	if err := cell.account(population.Users); err != nil {
		return tasks.Permanent(err)
	}
	data, err := json.Marshal(cell)
	if err != nil {
		return tasks.Permanent(err)
	}
	return t.Put(ctx, CellBlob, data)
}

func describe(p *TrainingParams, population *datasets.PartitionMetrics) Training {
	t := Training{TrainingParams: *p, Counts: population.Counts, ReplacedExamples: population.ReplacedExamples}
	of := population.Examples
	if p.federated() {
		of = population.Users
	}
	t.Epochs = float64(p.Rounds) * float64(p.Cohort) / float64(of)
	return t
}

// measure reads what was measured after a round. The last one stands for the cell.
func (c *Report) measure(ctx context.Context, t *tasks.Task, p *CellParams, round int) error {
	point := Point{Round: round}
	if p.Utility {
		c.Utility = new(utility.Utility)
		if err := t.InputMetrics(ctx, UtilityInput(round), c.Utility); err != nil {
			return err
		}
		point.Utility = c.Utility
	}
	if p.Audit {
		data, err := t.Blob(ctx, AuditInput(round), summary.SummaryBlob)
		if err != nil {
			return err
		}
		c.Audit = new(summary.Audit)
		if err := json.Unmarshal(data, c.Audit); err != nil {
			return tasks.Permanent(fmt.Errorf("audit after round %d: %w", round, err))
		}
		point.setMemorized(c.Audit)
	}
	c.Curve = append(c.Curve, point)
	return nil
}

func (c *Report) addOneRun(ctx context.Context, t *tasks.Task) error {
	data, err := t.Blob(ctx, OneRunInput, onerun.VerdictBlob)
	if err != nil {
		return err
	}
	if c.Audit == nil {
		c.Audit = summary.NewAudit()
	}
	if err := json.Unmarshal(data, &c.Audit.OneRun); err != nil {
		return tasks.Permanent(fmt.Errorf("one-run audit: %w", err))
	}
	return nil
}

func (p *Point) setMemorized(a *summary.Audit) {
	if a.RandomSampling != nil {
		p.RandomSamplingMemorized = &a.RandomSampling.Memorized
	}
	if a.BeamSearch != nil {
		p.BeamSearchMemorized = &a.BeamSearch.Memorized
	}
}

// account adds the privacy cost of a training with clipped updates, at its end
// and along the curve. Where nothing was clipped no privacy is claimed.
func (c *Report) account(users int) error {
	p := &c.Training
	if p.Clip == 0 {
		return nil
	}
	meter, err := privacy.NewMeter(recipe(&p.TrainingParams, users))
	if err != nil {
		return err
	}
	if p.Budget != nil {
		c.Budget = &BudgetUse{Budget: *p.Budget, RoundsAllowed: p.Budget.RoundsWithin(meter)}
		c.Budget.Stopped = c.Budget.RoundsAllowed <= p.Rounds
		p.Epochs *= float64(min(p.Rounds, c.Budget.RoundsAllowed)) / float64(p.Rounds)
		p.Rounds = min(p.Rounds, c.Budget.RoundsAllowed)
	}
	report := meter.After(p.Rounds)
	c.Privacy = &report
	for i := range c.Curve {
		r := meter.After(min(c.Curve[i].Round, p.Rounds))
		c.Curve[i].Privacy = &Cost{r.Epsilon, r.EpsilonProved, r.Infinite, r.Delta}
	}
	return nil
}

func recipe(p *TrainingParams, users int) privacy.Recipe {
	return privacy.Recipe{
		Population:      users,
		Cohort:          p.Cohort,
		Rounds:          p.Rounds,
		NoiseMultiplier: p.NoiseMultiplier,
		Delta:           p.Delta,
		Sampling:        p.Sampling,
		Conversion:      p.Conversion,
		Unit:            Unit(p.Partition),
		Randomness:      cmp.Or(p.Randomness, privacy.Seeded),
		ClipQuantile:    p.Adaptive,
	}
}

// Unit is what a guarantee over the population's users protects; no user of a
// partition that is unknown is more than a user.
func Unit(partition datasets.Partitioning) string {
	scheme, err := datasets.FindPartition(partition)
	if err != nil {
		return "user"
	}
	return scheme.Unit
}
