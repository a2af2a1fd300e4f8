package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
)

// The losses along a training are metrics of its curve, means over all targets in lossUnit. The training
// loss is the mean over the round (in central training, over the task that ends there), before each of its
// steps. The validation loss comes from early stopping, the test loss from the utility audit.
const (
	trainingLoss   = "training_loss"
	validationLoss = "validation_loss"
	testLoss       = "test_loss"
)

// The learning rates of the measured round are also metrics of the curve.
const (
	learningRate       = "learning_rate"
	serverLearningRate = "server_learning_rate"
)

// ofRound are further metrics of the curve: those in the row of the measured round, by column name. Speeds
// are excluded, so that equal trainings have equal curves.
var ofRound = []struct {
	name string
	of   func(*Round) float64
}{
	{"update_norm", func(r *Round) float64 { return r.UpdateNorm }},
	{"client_norm", func(r *Round) float64 { return r.ClientNorm }},
	{"client_norm_median", func(r *Round) float64 { return r.Norms.Median }},
	{"clipped_norm_median", func(r *Round) float64 { return r.ClippedNorms.Median }},
	{"clip", func(r *Round) float64 { return r.Clip }},
	{"clipped", func(r *Round) float64 { return r.Clipped }},
	{"epsilon", func(r *Round) float64 { return r.Epsilon }},
	{"epsilon_proved", func(r *Round) float64 { return r.EpsilonProved }},
}

// lossCurves are the curves in one figure.
var lossCurves = []audits.Curve{
	{Figure: "Loss", Name: "training", Metric: trainingLoss},
	{Figure: "Loss", Name: "test", Metric: testLoss},
	{Figure: "Loss", Name: "validation", Metric: validationLoss},
}

// lossUnit returns the unit of the losses of a model: nats per target, the absolute error of a regressor, and "" for
// a gan.
func lossUnit(e *experiment.Experiment) string {
	if e.Model.Kind == models.GAN {
		return ""
	}
	if e.Model.Kind == models.Regressor {
		return "absolute error per " + e.Target()
	}
	return "nats per " + e.Target()
}

// addLosses sets the losses, rates and norms of the measured rounds from the metric rows and the recipe.
func addLosses(ctx context.Context, archive *storage.Archive, e *experiment.Experiment, planned *plan.Cell, r *reports.Report) error {
	rates := compile.LearningRates(e)
	for i := range r.Curve {
		p := &r.Curve[i]
		row, err := rowAt(ctx, archive, planned, p.Round)
		if err != nil {
			return err
		}
		if i == len(r.Curve)-1 && r.Stopping != nil { // the model is not that of the last step
			row = &checkpoints.Row{Validation: checkpoints.Validation{ValidationLoss: r.Stopping.ValidationLoss}}
		}
		client, server := rates(p.Round)
		if row != nil {
			known := published(e, *row)
			row = &known
		}
		err = errors.Join(setLosses(p, row), setPositive(p, learningRate, client), setPositive(p, serverLearningRate, server))
		if row != nil {
			round := roundOf(e, *row, rates)
			for _, m := range ofRound {
				err = errors.Join(err, setPositive(p, m.name, m.of(&round)))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rowAt returns the metric row of the task that ends at a round, or nil if it is missing.
func rowAt(ctx context.Context, archive *storage.Archive, planned *plan.Cell, round int) (*checkpoints.Row, error) {
	if planned.Tail.Rounds == 0 || round < planned.Rounds() {
		return plan.StepRow(ctx, archive, planned.Chain, round/planned.Chain.StepRounds)
	}
	rows, err := plan.TailRows(ctx, archive, planned.Tail.Node.Key)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[len(rows)-1], nil
}

// setPositive sets a metric if it is positive and finite.
func setPositive(p *reports.Point, name string, value float64) error {
	if value <= 0 || !numbers.IsFinite(value) {
		return nil
	}
	return p.Metrics.Set(name, value)
}

func setLosses(p *reports.Point, row *checkpoints.Row) (err error) {
	if row != nil {
		err = errors.Join(setPositive(p, trainingLoss, row.Loss), setPositive(p, validationLoss, row.ValidationLoss))
	}
	var utility struct {
		AllTargets struct {
			Perplexity numbers.Float `json:"perplexity"`
			MeanLoss   float64       `json:"mean_loss"` // used if the perplexity is infinite
		} `json:"all_targets"`
	}
	if p.Utility != nil {
		err = errors.Join(err, json.Unmarshal(p.Utility, &utility))
	}
	loss := utility.AllTargets.MeanLoss
	if loss == 0 {
		loss = math.Log(max(1, float64(utility.AllTargets.Perplexity)))
	}
	return errors.Join(err, setPositive(p, testLoss, loss))
}

// addOutcomes adds to the curve the outcomes of audits whose description requests every round (EveryRound).
// It omits outcomes that storage no longer has.
func addOutcomes(ctx context.Context, archive *storage.Archive, report *plan.Node, r *reports.Report) error {
	if len(r.Curve) < 2 {
		return nil
	}
	for _, d := range all.Audits() {
		if !d.EveryRound {
			continue
		}
		for i := range r.Curve {
			p := &r.Curve[i]
			key := report.Input(reports.AuditInput(d.Name, p.Round))
			if key == (storage.Key{}) {
				break // audit not requested
			}
			outcome, err := readOutput(ctx, archive, key, d.OutcomeBlob)
			if err == nil && outcome != nil {
				err = p.Metrics.Set(d.Name, json.RawMessage(outcome))
			}
			if err != nil {
				return fmt.Errorf("%s after round %d: %w", d.Name, p.Round, err)
			}
		}
	}
	return nil
}

// ofCell holds the first columns of a row about a part of a cell.
type ofCell struct {
	Run        string `parquet:"run" doc:"name of the run"`
	Experiment string `parquet:"experiment" doc:"name of the experiment"`
	Cell       string `parquet:"cell" doc:"name of the cell in the run"`
	Label      string `parquet:"label" doc:"label of the cell: what differs between cells"`
}

func (v *view) ofCell(c *viewCell) ofCell { return ofCell{v.Run, v.Experiment, c.Cell.Cell, c.Label} }

// Tables with a row for each attack, for each user in attacks with results by user, and for each membership attack.
var (
	attackRows = rowsOf("attacks", Attacks, func(d *audits.Description) func(audits.Outcome) []audits.Attack { return d.AttackRows })
	userRows   = rowsOf("attacked_users", AttackedUsers, func(d *audits.Description) func(audits.Outcome) []audits.AttackedUser { return d.UserRows })
	memberRows = rowsOf("membership", Membership, membershipOf)
)

func membershipOf(d *audits.Description) func(audits.Outcome) []audits.MemberAttack {
	return d.MemberRows
}

// rowsOf returns a function that tabulates the rows of audits.
func rowsOf[R any](name string, unit Rows, rows func(*audits.Description) func(audits.Outcome) []R) func(*view) (*flatTable, error) {
	return func(v *view) (*flatTable, error) {
		t := newFlatTable(name, parts[unit])
		eachRow(v, rows, func(c *viewCell, row R) { t.add([]any{v.ofCell(c), row, c.baseline()}) })
		return t, nil
	}
}

func eachRow[R any](v *view, rows func(*audits.Description) func(audits.Outcome) []R, do func(*viewCell, R)) {
	for i := range v.cells {
		for d, outcome := range v.cells[i].measured() {
			if rows(d) == nil {
				continue
			}
			for _, row := range rows(d)(outcome) {
				do(&v.cells[i], row)
			}
		}
	}
}

// attackTable is a table of the results of attacks.
type attackTable struct {
	Title, Label string
	Header       []string
	// Texts is the number of leading columns that hold text.
	Texts int
	Rows  [][]string
}

// attackTables returns the tables that have rows. Attacks on updates have the form of Table 3 of Orekondy et al.
// 2018.
func (v *view) attackTables() []attackTable {
	updates := attackTable{
		Title: "Attacks on updates", Label: "Attacks", Texts: 3,
		Header: []string{"setting", "attack", "of", "AP % (x chance)", "top-1 %", "top-5 %"},
	}
	eachRow(v, func(d *audits.Description) func(audits.Outcome) []audits.Attack { return d.AttackRows }, func(c *viewCell, a audits.Attack) {
		updates.Rows = append(updates.Rows, []string{c.Label, a.Attack, a.Of, fmt.Sprintf("%.1f (%.3gx)", 100*a.AP, a.Factor), share(a.Top1), share(a.Top5)})
	})
	members := attackTable{ // the first column combines three, because LaTeX repeats it in each part
		Title: "Attacks on membership", Label: "Membership", Texts: 1,
		Header: []string{"setting, attack, users", "AUC %", "TPR % at 1% FPR", "TPR % at 0.1% FPR", "points above blind"},
	}
	eachRow(v, membershipOf, func(c *viewCell, a audits.MemberAttack) {
		members.Rows = append(members.Rows, []string{
			fmt.Sprintf("%s, %s, %d %s", c.Label, a.Attack, a.Users, a.Of), withEnds(&a.AUC, &a.AUCLow, &a.AUCHigh),
			withEnds(a.TPR1, a.TPR1Low, a.TPR1High), withEnds(a.TPR01, a.TPR01Low, a.TPR01High), withEnds(a.OverBlind, a.OverBlindLow, a.OverBlindHigh),
		})
	})
	return slices.DeleteFunc([]attackTable{updates, members}, func(t attackTable) bool { return t.Rows == nil })
}

// withEnds formats a fraction in percent with its interval, or returns "-" if it was not measured.
func withEnds(x, low, high *float64) string {
	if x == nil {
		return "-"
	}
	return audits.Interval{Value: *x, Low: *low, High: *high}.Percent()
}

// share formats a fraction in percent, or returns "-" if it was not measured.
func share(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**x)
}
