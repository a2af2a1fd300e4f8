package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"coalmine/privacy"
)

const accountHelp = `Say what a recipe of DP-FedAvg costs in privacy, without running anything.

Two values stand side by side. "epsilon" follows the papers: fixed-size cohorts,
noise relative to the clip norm. "epsilon_proved" is what the theorem gives under
the stated neighbouring relation: where one user replaces another, a clipped sum
moves by up to twice the clip norm.

--tree counts DP-FTRL in their place, to compare with: one epoch in which no user
takes part twice, the noise being that on one node of the tree.`

// accountFlags are the recipe, and what to do with it.
type accountFlags struct {
	recipe                       privacy.Recipe
	rounds                       []int
	plot                         string
	epsilon                      float64
	asked                        string // what a target epsilon is solved for
	tree                         bool
	scalePopulation, scaleCohort int
}

func newAccountCommand(g *global) *cobra.Command {
	var a accountFlags
	c := &cobra.Command{
		Use:   "account",
		Short: "Privacy cost of a recipe, no run needed",
		Long:  accountHelp,
		Example: `  coalmine account --population 392000 --cohort 5000 --rounds 784 --noise-multiplier 1 --delta 1e-7
  coalmine account --population 392000 --cohort 5000 --rounds 100,1000,10000 --noise-multiplier 1 --delta 1e-7 --plot epsilon.svg
  coalmine account --population 392000 --cohort 5000 --rounds 8000 --delta 1e-7 --target-epsilon 8 --solve noise
  coalmine account --tree --population 342477 --cohort 100 --rounds 1600 --noise-multiplier 1.13 --delta 1e-6`,
		GroupID: groupOther,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := a.check(c.Flags().Changed); err != nil {
				return err
			}
			if c.Flags().Changed("target-epsilon") {
				if err := a.solve(); err != nil {
					return err
				}
			}
			return g.account(&a)
		},
	}
	f := c.Flags()
	f.IntVar(&a.recipe.Population, "population", 0, "users that cohorts are drawn from")
	f.IntVar(&a.recipe.Cohort, "cohort", 0, "users of a round")
	f.IntSliceVar(&a.rounds, "rounds", nil, "rounds; several, separated by commas, for a sweep")
	f.Float64Var(&a.recipe.NoiseMultiplier, "noise-multiplier", 0, "noise on a round's sum over the clip norm; 0 is none, and epsilon infinite")
	f.Float64Var(&a.recipe.Delta, "delta", 0, "delta of the guarantee")
	f.StringVar((*string)(&a.recipe.Sampling), "sampling", string(privacy.FixedSize), "fixed-size, poisson or none")
	f.StringVar((*string)(&a.recipe.Conversion), "conversion", string(privacy.Classic), "classic (Mironov 2017) or improved (Canonne, Kamath and Steinke 2020)")
	f.BoolVar(&a.recipe.LossDistribution, "pld", false, "bounds of the privacy loss distribution too, where the sampling has one")
	f.BoolVar(&a.tree, "tree", false, "DP-FTRL by tree aggregation, one epoch without restarts (Kairouz et al. 2021)")
	f.StringVar(&a.plot, "plot", "", "file for an SVG of epsilon against rounds")
	f.Float64Var(&a.epsilon, "target-epsilon", 0, "solve for --solve so that the proved epsilon stays within this")
	f.StringVar(&a.asked, "solve", "noise", "what to solve for: noise, rounds or cohort (the noise growing with the cohort)")
	f.IntVar(&a.scalePopulation, "scale-population", 0, "population to scale a simulation up to, at equal noise per user")
	f.IntVar(&a.scaleCohort, "scale-cohort", 0, "cohort to scale it up to")
	for _, name := range []string{"population", "cohort", "delta"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return c
}

// check finds flags that need one another.
func (a *accountFlags) check(given func(flag string) bool) error {
	solving := given("target-epsilon")
	switch {
	case given("solve") && !solving:
		return fmt.Errorf("--solve is given without --target-epsilon: the proved epsilon to stay within")
	case !given("noise-multiplier") && !(solving && a.asked == "noise"):
		return fmt.Errorf("--noise-multiplier is missing: the noise on a round's sum over the clip norm (0 is none)")
	case given("scale-population") && !given("scale-cohort") && a.asked != "cohort":
		return fmt.Errorf("--scale-population is given without --scale-cohort: the cohort to scale up to")
	case a.tree && (solving || given("sampling") || given("pld") || given("scale-population") || given("scale-cohort")):
		return fmt.Errorf("--tree with --sampling, --pld, --target-epsilon or --scale-...: expected none of these, which are about sampled cohorts")
	case a.recipe.LossDistribution && a.recipe.Sampling == privacy.FixedSize:
		return fmt.Errorf("--pld with cohorts of fixed size, which have no privacy loss distribution here: use --sampling poisson or none")
	case a.scaleCohort < 0 || a.scalePopulation < 0:
		return fmt.Errorf("--scale-cohort %d, --scale-population %d: expected positive numbers", a.scaleCohort, a.scalePopulation)
	}
	return nil
}

// solve completes the recipe so that it stays within the target.
func (a *accountFlags) solve() (err error) {
	budget := privacy.Budget{Epsilon: a.epsilon, Delta: a.recipe.Delta}
	if len(a.rounds) > 0 {
		a.recipe.Rounds = slices.Max(a.rounds) // every row of a sweep stays within
	}
	switch a.asked {
	case "noise":
		a.recipe.NoiseMultiplier, err = privacy.CalibrateNoise(a.recipe, budget)
	case "rounds":
		a.recipe.Rounds, err = privacy.CalibrateRounds(a.recipe, budget)
		a.rounds = []int{a.recipe.Rounds}
	case "cohort":
		population := a.recipe.Population
		if a.scalePopulation > 0 {
			population = a.scalePopulation
		}
		a.scalePopulation = population
		a.scaleCohort, err = privacy.CalibrateCohort(a.recipe, population, budget)
	default:
		err = fmt.Errorf("--solve %q: expected noise, rounds or cohort", a.asked)
	}
	return err
}

func (g *global) account(a *accountFlags) error {
	if len(a.rounds) == 0 {
		return fmt.Errorf("--rounds is missing: how many rounds the recipe runs")
	}
	if a.scaleCohort > 0 {
		if a.scalePopulation == 0 {
			a.scalePopulation = a.recipe.Population
		}
		a.recipe = privacy.ScaleUp(a.recipe, a.scalePopulation, a.scaleCohort)
	}
	count := privacy.Account
	if a.tree {
		count = privacy.Tree
	}
	reports, err := privacy.Sweep(count, a.recipe, a.rounds)
	if err != nil {
		return err
	}
	if a.plot != "" {
		if err := g.writeFile(a.plot, func(w io.Writer) error { return privacy.WriteSVG(w, reports) }); err != nil {
			return err
		}
	}
	switch {
	case !g.json:
		return privacy.WriteTable(g.stdout, reports)
	case len(reports) == 1:
		return g.printJSON(reports[0])
	}
	return g.printJSON(map[string]any{"reports": reports})
}
