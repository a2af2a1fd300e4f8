package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/workflows/control"
)

const exportHelp = `Write the model of a cell as a safetensors file. Its metadata hold the model's
configuration and its vocabulary, a JSON array with the word of each token.
docs/model.md describes the tensors and the computation of the model.

--round selects a checkpoint: 0 is the initial model. It counts rounds for fedavg, and
steps for sgd, which writes a checkpoint every training.steps_per_task steps. The store
keeps the initial, the audited and the last model, and those of training.checkpoints; the
error for any other round lists them.
"coalmine data export" writes the data that the model was trained on.

--prepared classifier writes the model of prepare.classifier, which selects users and
examples and judges generated images.`

// exportFlags holds the flags of the command.
type exportFlags struct {
	round            int
	prepared, output string
}

type exportedModel struct {
	Run    string         `json:"run"`
	Cell   string         `json:"cell"`
	Path   string         `json:"path"`
	Bytes  int            `json:"bytes"`
	SHA256 storage.Digest `json:"sha256"`
}

// checkRound rejects a negative --round.
func checkRound(c *cobra.Command, round int) error {
	if c.Flags().Changed("round") && round < 0 {
		return fmt.Errorf("--round %d: expected 0 for the initial model, or a number of rounds (sgd: steps)", round)
	}
	return nil
}

func newExportCommand(g *global) *cobra.Command {
	f := exportFlags{round: control.LastRound}
	c := &cobra.Command{
		Use:   "export RUN CELL",
		Short: "Write the model of a cell as a safetensors file with its vocabulary",
		Long:  exportHelp,
		Example: "  coalmine export quickstart c01 -o model.safetensors\n  coalmine export quickstart c01 --round 0 -o initial.safetensors\n" +
			"  coalmine export augenstein c01 --prepared classifier",
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkRound(c, f.round); err != nil {
				return err
			}
			return g.withControl(c.Context(), func(api control.API) error {
				data, err := f.get(c.Context(), api, args[0], args[1])
				if err != nil {
					return err
				}
				output := f.name(args[0], args[1], data)
				if err := tempfiles.WriteFile(output, data); err != nil {
					return err
				}
				if g.json {
					run, err := api.Status(c.Context(), args[0])
					if err != nil {
						return err
					}
					return g.printJSON(exportedModel{run.Run, args[1], output, len(data), storage.DigestOf(data)})
				}
				g.note("wrote %s (%d bytes)", output, len(data))
				if why := control.MissingVocabulary(data); why != "" {
					g.note("without its vocabulary: %s", why)
				}
				return nil
			})
		},
	}
	c.Flags().IntVar(&f.round, "round", f.round, "round (sgd: step) of the model; 0 is the initial model")
	c.Flags().Lookup("round").DefValue = "the last"
	c.Flags().StringVar(&f.prepared, "prepared", "", "write a model of the prepare block instead of the cell's: "+control.Classifier)
	c.MarkFlagsMutuallyExclusive("prepared", "round")
	c.Flags().StringVarP(&f.output, "output", "o", "", "file to write; default RUN-CELL.safetensors, RUN-CELL-PREPARED.safetensors, or RUN-CELL.model for a model in another program's format")
	return c
}

func (f *exportFlags) get(ctx context.Context, api control.API, run, cell string) ([]byte, error) {
	if f.prepared != "" {
		return api.Prepared(ctx, run, cell, f.prepared)
	}
	return api.Model(ctx, run, cell, f.round)
}

func (f *exportFlags) name(run, cell string, data []byte) string {
	switch {
	case f.output != "":
		return f.output
	case f.prepared != "":
		return fmt.Sprintf("%s-%s-%s.safetensors", run, cell, f.prepared)
	}
	if _, err := safetensors.Read(bytes.NewReader(data), int64(len(data))); err != nil {
		return fmt.Sprintf("%s-%s.model", run, cell) // format of an external program
	}
	return fmt.Sprintf("%s-%s.safetensors", run, cell)
}
