package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/workflows/modelaudit"
)

const auditHelp = `Say what a finished model has memorized of a list of canaries: a file that
coalmine export has written, and a text file with one canary a line, its words
separated by spaces (empty lines and lines that begin with # do not count). For a
model of bytes (data.level: byte) a canary is its line as it stands, without
spaces around it; --alphabet and --format then say what its random part may be.

Random sampling ranks each canary among random sequences that follow the same
first words; rank 1 is memorized. Beam search looks for the canary given its
first words and its length. Both are those of a run's audit.`

func newAuditCommand(g *global) *cobra.Command {
	var list string
	var options modelaudit.Options
	c := &cobra.Command{
		Use:     "audit MODEL",
		Short:   "Audit a finished model against a list of canaries",
		Long:    auditHelp,
		Example: "  coalmine export quickstart c01 -o model.safetensors\n  coalmine audit model.safetensors --canaries canaries.txt --references 200000",
		GroupID: groupOther,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			report, err := auditModel(c, args[0], list, options)
			if err != nil {
				return err
			}
			if g.json {
				return g.printJSON(report)
			}
			return g.writeAudit(report)
		},
	}
	f := c.Flags()
	f.StringVar(&list, "canaries", "", "text file with one canary a line")
	f.IntVar(&options.References, "references", 2_000_000, "random sequences that each canary is ranked among; 0 leaves random sampling out")
	f.IntVar(&options.Prefix, "prefix", 0, "words of a canary that are given; by default, as in a run, what stands before the first # of --format, else 1")
	f.IntVar(&options.BeamWidth, "beam-width", 5, "sequences that beam search keeps; 0 leaves it out")
	f.Uint64Var(&options.Seed, "seed", 1, "of the random sequences")
	f.BoolVar(&options.Exact, "exact", false, "count large ranks too, which are else estimated")
	f.StringVar((*string)(&options.Alphabet), "alphabet", "", "of the random sequences, for a model of bytes: digits, lower (the default), letters or printable")
	f.StringVar(&options.Format, "format", "", `of the canaries, for a model of bytes: "my number is ####", each # a symbol of the alphabet`)
	if err := c.MarkFlagRequired("canaries"); err != nil {
		panic(err)
	}
	return c
}

func auditModel(c *cobra.Command, model, list string, options modelaudit.Options) (*modelaudit.Report, error) {
	file, err := os.Open(list)
	if err != nil {
		return nil, fmt.Errorf("--canaries: %w", err)
	}
	canaries, err := modelaudit.ReadCanaries(list, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if file, err = os.Open(model); err != nil {
		return nil, err
	}
	opened, err := modelaudit.OpenModel(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	return modelaudit.Run(c.Context(), opened, canaries, options)
}

// writeAudit prints one line a canary, and the counts.
func (g *global) writeAudit(r *modelaudit.Report) error {
	table := tabwriter.NewWriter(g.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "canary\trank\texposure\tbeam search")
	for i := range r.Canaries {
		c := &r.Canaries[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Text, rankText(c), exposureText(c), foundText(c))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if v := r.RandomSampling; v != nil {
		g.printf("random sampling: %d of %d memorized, among %d references\n", v.Memorized, v.Of, v.References)
	}
	if v := r.BeamSearch; v != nil {
		g.printf("beam search: %d of %d found, width %d\n", v.Memorized, v.Of, v.Width)
	}
	return nil
}

func rankText(c *modelaudit.Canary) string {
	switch {
	case c.Rank == nil:
		return "-"
	case !*c.RankExact:
		return fmt.Sprintf("about %d", *c.Rank)
	}
	return fmt.Sprint(*c.Rank)
}

// exposureText marks what is only a lower bound, and gives an estimate's error.
func exposureText(c *modelaudit.Canary) string {
	switch {
	case c.Exposure == nil:
		return "-"
	case *c.ExposureCensored:
		return fmt.Sprintf(">= %.1f", *c.Exposure)
	case c.ExposureSE != nil:
		return fmt.Sprintf("%.1f +- %.1f", *c.Exposure, *c.ExposureSE)
	}
	return fmt.Sprintf("%.1f", *c.Exposure)
}

func foundText(c *modelaudit.Canary) string {
	switch {
	case c.Found == nil:
		return "-"
	case *c.Found:
		return "found"
	}
	return "not found"
}
