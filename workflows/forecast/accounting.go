// These files compute the privacy costs of finished cells: of each as trained, of each as the training of a larger
// population that it represents, and of all of them together, for the publication of several models of the same
// users.
//
// A simulation has too few users to protect any of them. It shows the noise on the mean update that the
// model tolerates; with a larger cohort, a larger noise multiplier gives the same noise. So users, cohort
// and noise multiplier are scaled together, and the rounds stay the same (McMahan et al. 2018, section 3;
// Augenstein et al. 2020, section 6 and tables 3 and 13).

package forecast

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/workflows/results"
)

// Training is a finished cell with the parameters of its privacy.
type Training struct {
	Run   string `json:"run"`
	Cell  string `json:"cell"`
	Label string `json:"label"`
	// Generator reports whether the server trains a generator in addition to the model that users train.
	Generator bool           `json:"-"`
	Recipe    privacy.Recipe `json:"-"`
	// OfUsers is the number of users from which the recipe's population was selected, including the selected ones.
	OfUsers int `json:"-"`
}

// PrivacyQuestion asks for the privacy of trainings.
type PrivacyQuestion struct {
	// Scales are factors of 2 or more, in any order, for users, cohort and noise multiplier. The answer
	// always begins with the unscaled trainings.
	Scales []int
	// Population, if not 0, is the number of users at each scale before any selection. A training keeps its
	// fraction of them.
	Population int
	// Delta applies to every epsilon. If it is 0, each training's own delta applies and, at a scale, 1/(scale x users
	// at the scale) if that is less, as in tables 3, 5 and 13 of Augenstein et al. 2020, which state no rule.
	Delta float64
	// Conversion applies to every epsilon. If it is empty, each training's own applies.
	Conversion privacy.Conversion
	// Accountant applies to every epsilon. If it is empty, each training's own applies.
	Accountant privacy.Accountant
}

// PrivacyAnswer holds the privacy costs of trainings.
type PrivacyAnswer struct {
	Trainings []PrivacyCosts `json:"trainings"`
	// Together is the cost of all trainings, at each scale. It is empty for one training.
	Together []Together `json:"together,omitempty"`
	// NotTogether is the reason why trainings cannot be composed.
	NotTogether string `json:"not_together,omitempty"`
	// TradeOff holds the error rates of tests that distinguish neighbours by all trainings. It is nil
	// unless requested.
	TradeOff []privacy.ErrorRates `json:"trade_off,omitempty"`
	// Unbounded lists the cells of the runs without a bound.
	Unbounded []UnboundedCell `json:"left_out,omitempty"`
	// Notes explain the numbers and their assumptions, in addition to those of each report.
	Notes []string `json:"notes"`
}

// PrivacyCosts holds the costs of a training: first unscaled, then at each scale.
type PrivacyCosts struct {
	Training
	Scales []PrivacyCost `json:"scales"`
}

// PrivacyCost is the privacy of a training at a scale.
type PrivacyCost struct {
	Scale int `json:"scale"`
	// OfUsers is the number of users from which the report's population is selected, including the selected ones.
	OfUsers int `json:"of_users"`
	privacy.Report
}

// Together is the privacy of all trainings at a scale.
type Together struct {
	Scale int `json:"scale"`
	privacy.Composition
	// PapersRefuted reports whether Epsilon is below a lower bound on the epsilon of one of the trainings,
	// at its own delta. The papers' convention is then no bound.
	PapersRefuted bool `json:"papers_refuted,omitempty"`
}

// UnboundedCell is a cell without a bound, with the reason.
type UnboundedCell struct {
	Run   string `json:"run"`
	Cell  string `json:"cell"`
	Label string `json:"label"`
	Why   string `json:"why"`
}

// Trainings returns the finished cells of a run that were trained with noise, and the other cells.
func Trainings(run results.Side) (trainings []Training, without []UnboundedCell) {
	id, _, _ := strings.Cut(run.Results.Run, "/") // a side may be one cell
	for i := range run.Results.Cells {
		cell := &run.Results.Cells[i]
		if why := unbounded(cell); why != "" {
			without = append(without, UnboundedCell{id, cell.Cell, cell.Label, why})
			continue
		}
		recipe := cell.Recipe()
		recipe.Accountant = cell.Training.Accountant // empty, for the tightest bound, in runs older than the choice
		t := Training{
			Run: id, Cell: cell.Cell, Label: cell.Label,
			Generator: run.Spec.Cells[i].Experiment.Setting().Generator, Recipe: recipe, OfUsers: recipe.Population,
		}
		if s := cell.Selection; s != nil && recipe.Unit != privacy.RecordUnit {
			t.OfUsers = max(s.OfUsers, recipe.Population)
		}
		trainings = append(trainings, t)
	}
	return trainings, without
}

// Recipes returns the unscaled recipes of trainings.
func Recipes(trainings []Training) []privacy.Recipe {
	return lists.Map(trainings, func(t Training) privacy.Recipe { return t.Recipe })
}

// Same reports whether both are the same cell of the same run.
func (t Training) Same(other Training) bool { return t.Run == other.Run && t.Cell == other.Cell }

// unbounded returns the reason why a cell has no bound, or "" if it has one.
func unbounded(cell *results.Cell) string {
	switch {
	case cell.Report == nil:
		return "it is " + cell.Status
	case cell.Privacy == nil:
		return "nothing was clipped, and no noise added"
	case cell.Privacy.NoiseMultiplier == 0:
		return "no noise was added"
	}
	return ""
}

// Account answers the question. It needs at least one training.
func Account(trainings []Training, q PrivacyQuestion) (*PrivacyAnswer, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	a := &PrivacyAnswer{}
	for _, t := range trainings {
		costs := PrivacyCosts{Training: t}
		for _, scale := range q.scales() {
			cost, err := t.cost(scale, q)
			if err != nil {
				return nil, fmt.Errorf("%s/%s at scale %d: %w", t.Run, t.Cell, scale, err)
			}
			costs.Scales = append(costs.Scales, cost)
		}
		a.Trainings = append(a.Trainings, costs)
	}
	a.compose(q)
	a.Notes = a.notes(q)
	return a, nil
}

func (q PrivacyQuestion) validate() error {
	for _, scale := range q.Scales {
		if scale < 2 {
			return fmt.Errorf("scale %d: expected a whole number of at least 2 (the unscaled trainings are always included)", scale)
		}
	}
	switch {
	case q.Population < 0:
		return fmt.Errorf("population %d: expected at least 1 user", q.Population)
	case q.Population > 0 && len(q.Scales) == 0:
		return fmt.Errorf("population %d without a scale: give the factor by which cohorts are larger", q.Population)
	case q.Delta != 0 && !(q.Delta > 0 && q.Delta < 1):
		return fmt.Errorf("delta %v: expected a number above 0 and below 1", q.Delta)
	}
	return nil
}

func (q PrivacyQuestion) scales() []int { return append([]int{1}, q.Scales...) }

// cost computes the cost of a training at a scale.
func (t *Training) cost(scale int, q PrivacyQuestion) (PrivacyCost, error) {
	recipe, ofUsers, err := t.at(scale, q)
	if err != nil {
		return PrivacyCost{}, err
	}
	report, err := privacy.Account(recipe)
	return PrivacyCost{Scale: scale, OfUsers: ofUsers, Report: report}, err
}

// at returns the recipe at a scale, and the number of users from which its population is selected.
func (t *Training) at(scale int, q PrivacyQuestion) (recipe privacy.Recipe, ofUsers int, err error) {
	recipe, ofUsers = t.Recipe, t.OfUsers
	if scale > 1 {
		if recipe, ofUsers, err = t.scaled(scale, q.Population); err != nil {
			return recipe, ofUsers, err
		}
	}
	switch {
	case q.Delta != 0:
		recipe.Delta = q.Delta
	case scale > 1:
		recipe.Delta = min(recipe.Delta, 1/(float64(scale)*float64(recipe.Population)))
	}
	if q.Conversion != "" {
		recipe.Conversion = q.Conversion
	}
	if q.Accountant != "" {
		recipe.Accountant = q.Accountant
	}
	recipe.LossDistribution = !recipe.Accountant.Divergent()
	return recipe, ofUsers, nil
}

// scaled returns the recipe with the users multiplied by scale or, unless whole is 0, with the same
// fraction of whole users.
func (t *Training) scaled(scale, whole int) (privacy.Recipe, int, error) {
	if t.OfUsers > math.MaxInt/scale {
		return t.Recipe, t.OfUsers, fmt.Errorf("%d users times %d overflow an integer: expected a smaller scale", t.OfUsers, scale)
	}
	population, ofUsers := t.Recipe.Population*scale, t.OfUsers*scale
	if whole > 0 {
		ofUsers = whole
		population = int(math.Round(float64(whole) * float64(t.Recipe.Population) / float64(t.OfUsers)))
	}
	recipe := privacy.ScaleUp(t.Recipe, population, t.Recipe.Cohort*scale)
	recipe.Randomness = "" // the seed belongs to the simulation
	return recipe, ofUsers, nil
}

// compose adds the cost of all trainings together, at the least of their deltas, or the reason why it is unknown.
func (a *PrivacyAnswer) compose(q PrivacyQuestion) {
	if len(a.Trainings) < 2 {
		return
	}
	for i, scale := range q.scales() {
		recipes, delta := make([]privacy.Recipe, len(a.Trainings)), 1.
		for j := range a.Trainings {
			t := &a.Trainings[j]
			recipes[j], _, _ = t.at(scale, q) // errors were returned above
			delta = min(delta, t.Scales[i].Delta)
		}
		together, err := privacy.Compose(recipes, delta)
		if err != nil {
			a.NotTogether = err.Error()
			return
		}
		a.Together = append(a.Together, Together{scale, together, a.refute(i, &together)})
	}
}

// refute reports whether the papers' convention for all trainings together is below a lower bound on the
// epsilon of one training, at the scale with that index. Their common delta is at most the training's.
func (a *PrivacyAnswer) refute(scale int, together *privacy.Composition) bool {
	return slices.ContainsFunc(a.Trainings, func(t PrivacyCosts) bool {
		c := &t.Scales[scale]
		return c.LossDistribution != nil && c.Neighbouring == together.Neighbouring && together.Epsilon < c.LossDistribution.Lower
	})
}
