package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"coalmine/internal/readable"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/standalone/canaryfiles"
)

const canariesExportHelp = `Write the canaries and coins of an experiment as files, for data that Coalmine must not
read: insert them yourself, train with your own code, score every line, and audit the
scores with "coalmine audit --canaries FILE --scores FILE". docs/contracts/canaries.md
describes the files and the insertion.

The canaries are those of one cell, as in its own training. The experiment's data supply
the vocabulary and the users; canaries of bytes (data.level: byte) depend only on the
seed, so any text with enough users may replace your data.

  canaries.jsonl            a line about the experiment, then one text per line
  texts.jsonl, ` + canaryfiles.HarnessTask + `.yaml
                            the same texts as a task of lm-evaluation-harness`

// Files of canaries export.
const (
	canariesFile = "canaries.jsonl"
	textsFile    = "texts.jsonl"
	harnessFile  = canaryfiles.HarnessTask + ".yaml"
)

func newCanariesCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:     "canaries",
		Short:   "Write canaries for trainings outside Coalmine",
		Example: "  coalmine canaries export experiment.yaml -o canaries",
	}
	c.AddCommand(newCanariesExportCommand(g))
	return c
}

func newCanariesExportCommand(g *global) *cobra.Command {
	var flags submitFlags
	var options canaryfiles.ExportOptions
	var cell, folder string
	c := &cobra.Command{
		Use:     "export FILE",
		Short:   "Write the canaries and coins of an experiment as files",
		Long:    canariesExportHelp,
		Example: "  coalmine canaries export experiment.yaml -o canaries --references 2000\n  coalmine audit --canaries canaries/canaries.jsonl --scores scores.jsonl",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkPrefix(c); err != nil {
				return err
			}
			sub, err := flags.prepare(c.Context(), g, args[0])
			if err != nil {
				return err
			}
			file, err := drawCanaries(c.Context(), sub, cell, options)
			if err != nil {
				return err
			}
			return g.writeCanaries(file, folder)
		},
	}
	flags.add(c.Flags(), false)
	c.Flags().StringVarP(&folder, "output", "o", "", "directory to write to, created if missing")
	c.Flags().StringVar(&cell, "cell", "", "cell of the canaries, such as c02; by default the first")
	c.Flags().IntVar(&options.References, "references", 1000, "random sequences after the beginning of each canary, to rank it among; 0 leaves them out")
	c.Flags().IntVar(&options.Prefix, "prefix", 0, "number of given words or bytes of a canary, at least 1; by default those before the first # of its format, else 1")
	if err := c.MarkFlagRequired("output"); err != nil {
		panic(err)
	}
	return c
}

// drawCanaries draws the canaries of a cell as its tasks would.
func drawCanaries(ctx context.Context, sub *submission.Submission, name string, o canaryfiles.ExportOptions) (*canaryfiles.File, error) {
	p, x, err := planHere(ctx, sub)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.Cells, func(c plan.Cell) bool { return name == "" || c.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("--cell %s: the experiment has no such cell; it has %s", name, readable.Range(p.Cells[0].Name, p.Cells[len(p.Cells)-1].Name))
	}
	f := &canaryfiles.File{Header: header(sub.Spec, i, p.Cells[i].Name)}
	return f, canaryfiles.Export(ctx, x, p, &p.Cells[i], o, f)
}

func header(s *experiment.Spec, cell int, name string) canaryfiles.Header {
	return canaryfiles.Header{Experiment: s.Name, Cell: name, Seed: s.Cells[cell].Experiment.Seed}
}

// writeCanaries writes the files of an export, and replaces existing ones.
func (g *global) writeCanaries(f *canaryfiles.File, folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		canariesFile: f.Write, textsFile: f.WriteLines,
		harnessFile: func(w io.Writer) error { return canaryfiles.Harness(w, textsFile) },
	} {
		if err := g.writeFile(filepath.Join(folder, name), write); err != nil {
			return err
		}
	}
	counts := map[canaryfiles.Kind]int{}
	for _, l := range f.Lines {
		counts[l.Kind]++
	}
	return g.report(map[string]any{"directory": folder, "lines": counts}, "%s: %s, %d held back, %s, %s; insert the canaries and the included coins, and score every line\n",
		filepath.Join(folder, canariesFile), readable.Count(counts[canaryfiles.Canary], "canary"), counts[canaryfiles.HeldBack], readable.Count(counts[canaryfiles.Coin], "coin"), readable.Count(counts[canaryfiles.Reference], "reference"))
}
