package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/privacy"
	"coalmine/workflows/control"
	"coalmine/workflows/forecast"
)

// runFlags are the flags of account that apply to runs; other flags describe a recipe.
var runFlags = []string{"scale", "scale-population", "delta", "conversion", "accountant"}

func (g *global) accountRuns(c *cobra.Command, a *accountFlags, names []string) error {
	for _, name := range names {
		if strings.HasSuffix(name, ".yaml") {
			return fmt.Errorf("%s is a file; expected a run: coalmine plan %s prints the epsilon of the cells of a file", name, name)
		}
	}
	question, err := a.question(c)
	if err != nil {
		return err
	}
	return g.withControl(c.Context(), func(api control.API) error {
		trainings, without, err := finished(c.Context(), api, names)
		if err != nil {
			return err
		}
		answer, err := unlessInterrupted(c.Context(), func() (*forecast.PrivacyAnswer, error) { return forecast.Account(trainings, question) })
		if err != nil {
			return err
		}
		answer.Unbounded = without
		return g.show(answer, func() error { return answer.WriteTable(g.stdout) })
	})
}

// composeFlags are the flags of account that apply to a file of recipes.
var composeFlags = []string{"compose", "delta", "conversion", "accountant", "unit", "target-epsilon", "solve", "trade-off"}

// accountFile prints the joint cost of the recipes in a file.
func (g *global) accountFile(c *cobra.Command, a *accountFlags) error {
	f := c.Flags()
	if flag := otherFlag(c, composeFlags); flag != "" {
		return fmt.Errorf("--%s with --compose, whose file has the recipes: remove it, or write it into the file", flag)
	}
	if err := a.checkCompose(f); err != nil {
		return err
	}
	data, err := os.ReadFile(a.compose)
	if err != nil {
		return err
	}
	recipes, err := forecast.ReadRecipes(a.compose, data, a.recipe)
	if err != nil {
		return err
	}
	var curve *privacy.TradeOff
	answer, err := unlessInterrupted(c.Context(), func() (answer *forecast.PrivacyAnswer, err error) {
		if answer, err = a.composed(recipes); err == nil {
			curve, err = a.curve(forecast.Recipes(recipes))
		}
		return answer, err
	})
	if err != nil {
		return err
	}
	if answer.TradeOff, err = g.tradeOff(a.tradeOff, curve); err != nil {
		return err
	}
	return g.show(answer, func() error { return answer.WriteTable(g.stdout) })
}

// checkCompose rejects flags that do not apply to a file of recipes.
func (a *accountFlags) checkCompose(f *pflag.FlagSet) error {
	a.solving = f.Changed("target-epsilon")
	switch err := errors.Join(a.empty(f), a.recipe.Conversion.Validate(), a.recipe.Accountant.Validate()); {
	case err != nil:
		return err
	case !a.solving && !f.Changed("solve"):
		return required(f, "delta")
	case !a.solves(solveDelta):
		return errors.New("--compose with --target-epsilon or --solve: expected --target-epsilon with --solve delta, the smallest delta of all recipes together")
	case f.Changed("delta"):
		return errors.New("--delta with --target-epsilon and --solve delta, which computes it: remove it")
	}
	a.recipe.Delta = 0.5 // until it is solved for
	return nil
}

// composed returns the joint cost of recipes, at the delta given or solved for.
func (a *accountFlags) composed(recipes []forecast.Training) (_ *forecast.PrivacyAnswer, err error) {
	if a.solving {
		if a.recipe.Delta, err = privacy.CalibrateDelta(forecast.Recipes(recipes), a.epsilon); err != nil {
			return nil, err
		}
	}
	return forecast.Account(recipes, forecast.PrivacyQuestion{Delta: a.recipe.Delta})
}

// question converts the flags to a question about runs.
func (a *accountFlags) question(c *cobra.Command) (q forecast.PrivacyQuestion, err error) {
	f := c.Flags()
	if flag := otherFlag(c, runFlags); flag != "" {
		return q, fmt.Errorf("--%s with a RUN, whose cells have the recipe: remove it, or give a whole recipe and no RUN", flag)
	}
	if err := a.empty(f); err != nil {
		return q, err
	}
	if f.Changed("delta") && a.recipe.Delta == 0 {
		return q, fmt.Errorf("delta 0: expected a number above 0 and below 1")
	}
	q = forecast.PrivacyQuestion{Scales: a.scales, Population: a.scalePopulation, Delta: a.recipe.Delta}
	if f.Changed("conversion") {
		q.Conversion = a.recipe.Conversion
	}
	if f.Changed("accountant") {
		q.Accountant = a.recipe.Accountant
	}
	return q, errors.Join(a.recipe.Conversion.Validate(), a.recipe.Accountant.Validate())
}

// finished returns the trainings of the named cells and runs, and the cells left out. It returns an
// error if all cells of a name are left out, or if a cell is named twice.
func finished(ctx context.Context, api control.API, names []string) (trainings []forecast.Training, without []forecast.UnboundedCell, err error) {
	for _, name := range names {
		run, err := side(ctx, api, name)
		if err != nil {
			return nil, nil, err
		}
		found, left := forecast.Trainings(run)
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("%s: no cell has a privacy bound: of %s, %s", name, left[0].Cell, left[0].Why)
		}
		for _, t := range found {
			if slices.ContainsFunc(trainings, t.Same) {
				return nil, nil, fmt.Errorf("%s/%s is named twice; expected each cell once, because each adds to the joint cost", t.Run, t.Cell)
			}
		}
		trainings, without = append(trainings, found...), append(without, left...)
	}
	return trainings, without, nil
}
