package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/workflows/accounting"
	"coalmine/workflows/control"
)

// runFlags are those of account that go with runs; the others are a recipe.
var runFlags = []string{"scale", "scale-population", "delta", "conversion", "accountant"}

// accountRuns prints what finished cells cost.
func (g *global) accountRuns(c *cobra.Command, a *accountFlags, names []string) error {
	question, err := a.question(c)
	if err != nil {
		return err
	}
	return g.withControl(c.Context(), func(api control.API) error {
		trainings, without, err := finished(c.Context(), api, names)
		if err != nil {
			return err
		}
		answer, err := accounting.Account(trainings, question)
		if err != nil {
			return err
		}
		answer.LeftOut = without
		if g.json {
			return g.printJSON(answer)
		}
		return answer.WriteTable(g.stdout)
	})
}

// question is what the flags ask of runs.
func (a *accountFlags) question(c *cobra.Command) (q accounting.Question, err error) {
	f := c.Flags()
	f.Visit(func(flag *pflag.Flag) {
		if !slices.Contains(runFlags, flag.Name) && c.InheritedFlags().Lookup(flag.Name) == nil {
			err = fmt.Errorf("--%s with a RUN, whose cells say what the recipe is: leave it out, or give a whole recipe and no RUN", flag.Name)
		}
	})
	if err != nil {
		return q, err
	}
	if err := a.empty(f); err != nil {
		return q, err
	}
	if f.Changed("delta") && a.recipe.Delta == 0 {
		return q, fmt.Errorf("delta 0: expected a number above 0 and below 1")
	}
	q = accounting.Question{Scales: a.scales, Population: a.scalePopulation, Delta: a.recipe.Delta}
	if f.Changed("conversion") {
		q.Conversion = a.recipe.Conversion
	}
	if f.Changed("accountant") {
		q.Accountant = a.recipe.Accountant
	}
	return q, errors.Join(a.recipe.Conversion.Validate(), a.recipe.Accountant.Validate())
}

// finished are the trainings of the cells and runs that are named, and the cells left out.
// A cell or run that leaves nothing but these is an error, and so is a cell named twice.
func finished(ctx context.Context, api control.API, names []string) (trainings []accounting.Training, without []accounting.LeftOut, err error) {
	for _, name := range names {
		run, err := side(ctx, api, name)
		if err != nil {
			return nil, nil, err
		}
		found, left := accounting.Trainings(run)
		if len(found) == 0 {
			return nil, nil, fmt.Errorf("%s: no cell has a bound on what it tells: of %s, %s", name, left[0].Cell, left[0].Why)
		}
		for _, t := range found {
			if slices.ContainsFunc(trainings, t.Same) {
				return nil, nil, fmt.Errorf("%s/%s is named twice: expected every cell once, as each counts in what they cost together", t.Run, t.Cell)
			}
		}
		trainings, without = append(trainings, found...), append(without, left...)
	}
	return trainings, without, nil
}
