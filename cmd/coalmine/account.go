package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/chart"
	"coalmine/internal/lists"
	"coalmine/privacy"
	"coalmine/tasks/datasets/population"
)

const accountHelp = `Compute the privacy cost of a recipe of DP-FedAvg or DP-SGD, without running it; or that
of finished cells: at their size, for a larger population, and together.

"epsilon proved" is the smallest value that any accountant proves under the stated
neighbouring relation; "by" names the accountant: "pld" (privacy loss distributions) or
"rdp" (Rényi divergences). If one user replaces another, a clipped sum moves by up to
twice the clip norm; Poisson cohorts add or remove a user. "Rényi" is the value of Rényi
divergences with --conversion, as in the metrics of rounds. "papers' convention" takes the
noise relative to the clip norm, for cohorts in which a user replaces another; it is not a
bound, and the last lines say where it underestimates. JSON names them "epsilon_proved",
"epsilon_renyi" and "epsilon". A delta of 1/users or more gives a warning.

DP-SGD: the population is the number of records, the cohort the batch, the rounds the steps
(--unit record). Batches cut from shuffled records are not random samples: --sampling
shuffled counts each epoch as one Gaussian mechanism.

--accountant rdp uses Rényi divergences alone, for fixed-size cohorts by the theorem of the
papers; rdp-pair uses those of the pair of outputs that "pld" bounds; papers solves for the
papers' convention instead of the proved epsilon.

--target-epsilon solves for one unknown, --solve: the smallest noise multiplier, the most
rounds, the smallest cohort (with noise in proportion) or the smallest delta whose proved
epsilon is within the target. --scale-cohort treats the recipe as a small simulation and
computes the cost of the training that it represents, with the same noise per user.

--clip-count-noise is training.privacy.adaptive.count_noise of adaptive clipping. The noise
multiplier is then the total of the noise on updates and on the count of unclipped
clients, and epsilon covers both.

--tree accounts for DP-FTRL by tree aggregation; --noise-multiplier is the noise of a node of
the tree. A user takes part once, or with --participations K --separation S in up to K rounds
that are at least S apart (training.participations and training.separation).

--compose FILE computes the cost of several recipes together: cohorts that grow, noise that
falls, users that join, other samplings. FILE is a YAML list; --delta, --conversion,
--accountant and --unit apply to all:

  - {population: 392000, cohort: 5000, rounds: 400, noise_multiplier: 1}
  - {population: 410000, cohort: 8000, rounds: 300, noise_multiplier: 1.2, count_noise: 400}
  - {population: 410000, cohort: 6000, rounds: 500, noise_multiplier: 0.8, sampling: poisson}
  - {population: 500000, cohort: 500, rounds: 2000, noise_multiplier: 7, sampling: tree,
     participations: 4, separation: 400, name: DP-FTRL}
  - {population: 500000, cohort: 500, rounds: 2000, noise_multiplier: 7, sampling: separated,
     mechanism: {kind: blt, scales: [0.2], decays: [0.9]}}

Recipes of different neighbouring relations are all accounted for replacing a user.

RUN or RUN/CELL takes the recipes of finished cells, with the selected users as population.
--scale 100 adds the training that each cell represents: 100 times the users, the cohort
and the noise multiplier, and the same rounds, so that the noise on the mean update is the
same. --scale-population is the number of users before any selection, of which each cell
keeps its share. The default delta is that of the file; at a scale 1/(scale x its users), as in
Augenstein et al. 2020, if that is less. The last lines are the cost of all cells together,
if several models of the same users are published.

--trade-off FILE writes the trade-off curve of tests between two neighbours, the smallest
false negative rate at each false positive rate: a figure (.svg) or numbers (.csv); --json
has it as "trade_off". rho (zero-concentrated) and mu (Gaussian privacy) are of all rounds
and need no delta; sampling does not lower them.

--group K adds the epsilon of K users who change together, such as the parts of one
person's data. It usually exceeds K times the epsilon of one user.

--json prints one report as an object, a sweep as {"reports": [...]}, cells as
{"trainings": [{"run", "cell", "scales": [...]}], "together": [...]}; an infinite epsilon
is null.`

// accountFlags holds the recipe and the options of its account.
type accountFlags struct {
	recipe                       privacy.Recipe
	rounds                       []int
	countNoise                   float64
	plot                         string
	compose                      string // file of recipes
	tradeOff                     string // output file of the curve
	group                        int    // number of members that change together
	epsilon                      float64
	solving                      bool   // a target epsilon is given
	asked                        string // unknown to solve for
	tree                         bool
	participations               privacy.Participations
	scalePopulation, scaleCohort int
	scales                       []int // factors for the cells of runs
}

// Unknowns that a target epsilon can determine.
const (
	solveNoise  = "noise"
	solveRounds = "rounds"
	solveCohort = "cohort"
	solveDelta  = "delta"
)

func newAccountCommand(g *global) *cobra.Command {
	var a accountFlags
	c := &cobra.Command{
		Use:   "account [RUN[/CELL]...]",
		Short: "Compute the privacy cost of a recipe or of finished cells, at any scale",
		Long:  accountHelp,
		Example: `  coalmine account --population 392000 --cohort 5000 --rounds 784 --noise-multiplier 1 --delta 1e-7
  coalmine account --population 392000 --cohort 5000 --rounds 100,1000,10000 --noise-multiplier 1 --delta 1e-7 --plot epsilon.svg
  coalmine account --population 392000 --cohort 5000 --rounds 8000 --delta 1e-7 --target-epsilon 8 --solve noise
  coalmine account --population 392000 --cohort 5000 --noise-multiplier 1 --delta 1e-7 --target-epsilon 30 --solve rounds
  coalmine account --population 392000 --cohort 5000 --rounds 8000 --noise-multiplier 1 --target-epsilon 60 --solve delta
  coalmine account --population 392000 --cohort 5000 --rounds 784 --noise-multiplier 1 --delta 1e-7 --trade-off errors.svg
  coalmine account --population 2593 --cohort 100 --rounds 100 --noise-multiplier 5 --delta 1e-5 --unit "balanced user" --group 4
  coalmine account --population 3400 --cohort 10 --rounds 1000 --noise-multiplier 0.01 --delta 5e-9 --scale-population 2000000 --scale-cohort 1000
  coalmine account --unit record --sampling poisson --population 60000 --cohort 150 --rounds 6000 --noise-multiplier 1.3 --delta 1e-5 --conversion improved
  coalmine account --tree --population 342477 --cohort 100 --rounds 1600 --noise-multiplier 1.13 --delta 1e-6
  coalmine account --tree --population 50000 --cohort 100 --rounds 1600 --noise-multiplier 7 --delta 1e-6 --participations 4 --separation 400
  coalmine account --compose recipes.yaml --delta 1e-7
  coalmine account latest --scale 10,100
  coalmine account words/c05 characters/c05 --scale 50 --json | jq .together`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return g.accountRuns(c, &a, args)
			}
			if unit := a.recipe.Unit; unit != "" && !slices.Contains(units(), unit) {
				return fmt.Errorf("--unit %q: expected %s", unit, strings.Join(units(), ", "))
			}
			if a.compose != "" {
				return g.accountFile(c, &a)
			}
			if err := a.check(c.Flags()); err != nil {
				return err
			}
			return g.account(c.Context(), &a)
		},
	}
	f := c.Flags()
	f.IntVar(&a.recipe.Population, "population", 0, "users that cohorts are drawn from")
	f.IntVar(&a.recipe.Cohort, "cohort", 0, "users of a round; with --sampling poisson, the expected number")
	f.IntSliceVar(&a.rounds, "rounds", nil, "number of rounds; several, separated by commas, for a sweep")
	f.Float64Var(&a.recipe.NoiseMultiplier, "noise-multiplier", 0, "noise on a round's sum over the clip norm; 0 means no noise and an infinite epsilon")
	f.Float64Var(&a.recipe.Delta, "delta", 0, "delta of the guarantee")
	f.StringVar((*string)(&a.recipe.Sampling), "sampling", string(privacy.FixedSize), strings.Join(samplings(), ", "))
	f.StringVar((*string)(&a.recipe.Conversion), "conversion", string(privacy.Classic), "classic (Mironov 2017) or improved (Canonne, Kamath and Steinke 2020)")
	f.StringVar(&a.recipe.Unit, "unit", "", "protected unit, for the report: "+strings.Join(units(), ", ")+" (default user; record for DP-SGD)")
	f.Float64Var(&a.countNoise, "clip-count-noise", 0, "adaptive clipping: the noise on the number of clients that were not clipped (usually cohort/20)")
	f.StringVar((*string)(&a.recipe.Accountant), "accountant", string(privacy.Tightest), "accountant of the proved epsilon and of --target-epsilon: tightest, rdp or rdp-pair (by --conversion), or papers (solves for the papers' epsilon)")
	f.BoolVar(&a.recipe.LossDistribution, "pld", false, "also print both bounds of the privacy loss distribution")
	f.BoolVar(&a.tree, "tree", false, "DP-FTRL by tree aggregation without restarts (Kairouz et al. 2021); one epoch, or see --participations")
	f.IntVar(&a.participations.Times, "participations", 1, "with --tree: maximum number of rounds of a user")
	f.IntVar(&a.participations.Separation, "separation", 1, "with --tree: minimum number of rounds between participations of a user")
	f.StringVar(&a.plot, "plot", "", "file for a figure of epsilon against rounds: .svg, .pdf or .png")
	f.Float64Var(&a.epsilon, "target-epsilon", 0, "limit of the proved epsilon (with --accountant papers: of the papers' epsilon); --solve names the unknown")
	f.StringVar(&a.asked, "solve", solveNoise, "unknown of --target-epsilon: noise, rounds, cohort (with noise in proportion) or delta")
	f.StringVar(&a.tradeOff, "trade-off", "", "file for the error rates of tests that distinguish neighbours, after the largest number of rounds: .svg, .pdf, .png or .csv")
	f.IntVar(&a.group, "group", 0, "also print the epsilon of this number of users who change together")
	f.StringVar(&a.compose, "compose", "", "YAML file with a list of recipes to account for together")
	f.IntVar(&a.scalePopulation, "scale-population", 0, "population of the training that the recipe simulates (default --population); of a RUN: users at each scale before any selection")
	f.IntVar(&a.scaleCohort, "scale-cohort", 0, "cohort of the training that the recipe simulates, with the same noise per user")
	f.IntSliceVar(&a.scales, "scale", nil, "of a RUN: factor of users, cohort and noise multiplier; several, separated by commas")
	return c
}

// check rejects flags that are empty, exclude each other, or lack a flag that they need.
func (a *accountFlags) check(f *pflag.FlagSet) error {
	a.solving = f.Changed("target-epsilon")
	for _, problem := range []func(*pflag.FlagSet) error{a.empty, a.missing, a.unsolvable, a.mixed} {
		if err := problem(f); err != nil {
			return err
		}
	}
	if !a.recipe.Accountant.Divergent() && !a.tree {
		a.recipe.LossDistribution = true
	}
	if a.tree {
		a.recipe.Tree = &a.participations
	}
	if a.solves(solveDelta) {
		a.recipe.Delta = 0.5 // until it is solved for
	}
	if f.Changed("clip-count-noise") {
		a.recipe.ClipQuantile = privacy.CountedClipping(a.countNoise)
	}
	return nil
}

// empty rejects empty texts, as from an unset shell variable, unknown values of --solve and --trade-off, and
// numbers that would count as absent.
func (a *accountFlags) empty(f *pflag.FlagSet) error {
	for _, name := range []string{"sampling", "conversion", "accountant", "plot", "compose", "trade-off"} {
		if f.Changed(name) && f.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s is empty: give it a value, or remove it", name)
		}
	}
	switch {
	case f.Changed("trade-off") && !slices.Contains([]string{".csv", ".svg", ".pdf", ".png"}, filepath.Ext(a.tradeOff)):
		return fmt.Errorf("--trade-off %s: expected a file that ends in .svg, .pdf, .png or .csv", a.tradeOff)
	case !slices.Contains([]string{solveNoise, solveRounds, solveCohort, solveDelta}, a.asked):
		return fmt.Errorf("--solve %q: expected noise, rounds, cohort or delta", a.asked)
	case f.Changed("group") && a.group < 1:
		return fmt.Errorf("--group %d: expected at least 1 user", a.group)
	case f.Changed("scale-cohort") && a.scaleCohort < 1:
		return fmt.Errorf("--scale-cohort %d: expected at least 1 user", a.scaleCohort)
	case f.Changed("scale-population") && a.scalePopulation < 1:
		return fmt.Errorf("--scale-population %d: expected at least 1 user", a.scalePopulation)
	}
	return nil
}

func (a *accountFlags) missing(f *pflag.FlagSet) error {
	needed := []string{"population", "cohort"}
	if !a.solves(solveDelta) {
		needed = append(needed, "delta")
	}
	if err := required(f, needed...); err != nil {
		return err
	}
	switch {
	case f.Changed("scale"):
		return fmt.Errorf("--scale needs a RUN with cells to scale up; to scale a recipe, use --scale-cohort and --scale-population")
	case f.Changed("solve") && !a.solving:
		return fmt.Errorf("--solve needs --target-epsilon, the limit of the proved epsilon")
	case !f.Changed("noise-multiplier") && !a.solves(solveNoise):
		return fmt.Errorf("--noise-multiplier is missing: the noise on a round's sum over the clip norm (0: no noise)")
	case !f.Changed("rounds") && !a.solves(solveRounds):
		return fmt.Errorf("--rounds is missing: the number of rounds of the recipe")
	case f.Changed("scale-population") && !f.Changed("scale-cohort") && !a.solves(solveCohort):
		return fmt.Errorf("--scale-population needs --scale-cohort, the cohort to scale up to")
	}
	return nil
}

func required(f *pflag.FlagSet, names ...string) error {
	without := lists.Filter(names, func(name string) bool { return !f.Changed(name) })
	if len(without) == 0 {
		return nil
	}
	return fmt.Errorf("required flag(s) %s not set: a recipe needs them (or name a RUN)", strings.Join(lists.Map(without, strconv.Quote), ", "))
}

// unsolvable rejects a target whose unknown is given already.
func (a *accountFlags) unsolvable(f *pflag.FlagSet) error {
	for _, known := range []struct{ flag, solution string }{
		{"noise-multiplier", solveNoise}, {"rounds", solveRounds}, {"scale-cohort", solveCohort}, {"delta", solveDelta},
	} {
		if f.Changed(known.flag) && a.solves(known.solution) {
			return fmt.Errorf("--%s with --target-epsilon and --solve %s, which computes it: remove it, or solve for another unknown", known.flag, known.solution)
		}
	}
	if f.Changed("scale-cohort") && a.solves(solveNoise) {
		return fmt.Errorf("--scale-cohort with --target-epsilon and --solve noise: scaling up needs a noise multiplier; give the large --cohort and --population instead")
	}
	return nil
}

// mixed rejects flags of different mechanisms.
func (a *accountFlags) mixed(f *pflag.FlagSet) error {
	switch {
	case a.tree && (a.solving && !a.solves(solveDelta) || f.Changed("sampling") || f.Changed("pld") || f.Changed("scale-population") || f.Changed("scale-cohort")):
		return fmt.Errorf("--tree with --sampling, --pld, --target-epsilon or --scale-...: these apply to sampled cohorts; expected none of them, except --target-epsilon with --solve delta")
	case a.tree && f.Changed("clip-count-noise"):
		return fmt.Errorf("--tree with --clip-count-noise: expected a fixed clip norm, because the tree does not cover the count of clipped updates")
	}
	if a.tree {
		return nil
	}
	return refuseFlags(f, []string{"participations", "separation"}, "--%s needs --tree: with sampled cohorts the sampling determines the participations of a user")
}

// samplings returns the values of --sampling.
func samplings() []string {
	return lists.Map(privacy.Schemes(), func(s privacy.Scheme) string { return string(s.Sampling) })
}

// units returns the values of --unit: those of central training and of the partitions.
func units() []string {
	names := []string{privacy.RecordUnit}
	for _, p := range population.Partitions() {
		names = append(names, p.WholeUnit, p.Unit)
	}
	return lists.Distinct(names)
}

func (a *accountFlags) solves(unknown string) bool { return a.solving && a.asked == unknown }

// complete scales the recipe, and solves it for the target.
func (a *accountFlags) complete() error {
	if err := a.recipe.Validate(); err != nil {
		return err
	}
	if a.scalePopulation == 0 {
		a.scalePopulation = a.recipe.Population
	}
	if a.scaleCohort > 0 {
		a.recipe = privacy.ScaleUp(a.recipe, a.scalePopulation, a.scaleCohort)
	}
	if !a.solving {
		return nil
	}
	return a.solve()
}

// solve completes the recipe so that it stays within the target.
func (a *accountFlags) solve() (err error) {
	budget := privacy.Budget{Epsilon: a.epsilon, Delta: a.recipe.Delta}
	if a.asked == solveRounds {
		a.recipe.Rounds, err = privacy.CalibrateRounds(a.recipe, budget)
		a.rounds = []int{a.recipe.Rounds}
		return err
	}
	a.recipe.Rounds = slices.Max(a.rounds) // every row of a sweep meets the target
	switch a.asked {
	case solveDelta:
		a.recipe.Delta, err = privacy.CalibrateDelta([]privacy.Recipe{a.recipe}, a.epsilon)
		return err
	case solveNoise:
		a.recipe.NoiseMultiplier, err = privacy.CalibrateNoise(a.recipe, budget)
		return err
	}
	cohort, err := privacy.CalibrateCohort(a.recipe, a.scalePopulation, budget)
	if err != nil {
		return err
	}
	a.recipe = privacy.ScaleUp(a.recipe, a.scalePopulation, cohort)
	return nil
}

// unlessInterrupted returns the result of compute or, as soon as ctx ends, its cause; a later result is
// discarded.
func unlessInterrupted[T any](ctx context.Context, compute func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := compute()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// accounted holds the cost of a recipe after each number of rounds and, if requested, the trade-off
// curve after the largest number.
type accounted struct {
	reports []privacy.Report
	curve   *privacy.TradeOff
}

// reckon solves the recipe for the target and computes its cost.
func (a accountFlags) reckon() (all accounted, err error) {
	if err := a.complete(); err != nil {
		return all, err
	}
	if all.reports, err = privacy.Sweep(privacy.Account, a.recipe, a.rounds); err != nil {
		return all, err
	}
	all.reports[0].RoundsAtLeast = a.solves(solveRounds) && all.reports[0].Rounds == privacy.MaxRounds
	for i := range all.reports {
		all.reports[i].NoiseAtMost = a.solves(solveNoise) && a.recipe.NoiseMultiplier == privacy.MinNoise
		all.reports[i].DeltaAtMost = a.solves(solveDelta) && a.recipe.Delta == privacy.MinDelta
		all.reports[i] = all.reports[i].Concentrated()
		if err := a.addGroup(&all.reports[i]); err != nil {
			return all, err
		}
	}
	a.recipe.Rounds = slices.Max(a.rounds)
	all.curve, err = a.curve([]privacy.Recipe{a.recipe})
	return all, err
}

func (g *global) account(ctx context.Context, a *accountFlags) error {
	all, err := unlessInterrupted(ctx, a.reckon)
	if err != nil {
		return err
	}
	reports := all.reports
	curve, err := g.tradeOff(a.tradeOff, all.curve)
	if err != nil {
		return err
	}
	if a.plot != "" {
		figure, err := privacy.EpsilonFigure(reports)
		if err != nil {
			return err
		}
		if err := g.writeFigure(a.plot, figure); err != nil {
			return err
		}
	}
	switch {
	case !g.json:
		return privacy.WriteTable(g.stdout, reports)
	case len(reports) == 1:
		return g.printJSON(struct {
			privacy.Report
			TradeOff []privacy.ErrorRates `json:"trade_off,omitempty"`
		}{reports[0], curve})
	case curve != nil:
		return g.printJSON(map[string]any{"reports": reports, "trade_off": curve})
	}
	return g.printJSON(map[string]any{"reports": reports})
}

// addGroup adds the cost of a group, if one is requested.
func (a *accountFlags) addGroup(r *privacy.Report) error {
	if a.group == 0 {
		return nil
	}
	recipe := a.recipe
	recipe.Rounds = r.Rounds
	group, err := privacy.GroupOf(recipe, a.group)
	r.Group = &group
	return err
}

// curve returns the trade-off curve of all recipes together, nil unless requested.
func (a *accountFlags) curve(recipes []privacy.Recipe) (*privacy.TradeOff, error) {
	if a.tradeOff == "" {
		return nil, nil
	}
	return privacy.NewTradeOff(recipes)
}

// tradeOff writes a curve to a file and returns its points, or nil for a nil curve.
func (g *global) tradeOff(file string, curve *privacy.TradeOff) ([]privacy.ErrorRates, error) {
	if curve == nil {
		return nil, nil
	}
	if filepath.Ext(file) == ".csv" {
		return curve.Points(), g.writeFile(file, curve.WriteCSV)
	}
	return curve.Points(), g.writeFigure(file, curve.Figure())
}

// writeFigure draws a figure in the format of the file's extension, SVG by default.
func (g *global) writeFigure(file string, f *chart.Figure) error {
	data := f.File(strings.TrimPrefix(filepath.Ext(file), "."), chart.OneColumn)
	return g.writeFile(file, func(w io.Writer) error { _, err := w.Write(data); return err })
}
