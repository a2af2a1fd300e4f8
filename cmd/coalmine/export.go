package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"coalmine/workflows/control"
)

const exportHelp = `Write the model of a cell as a safetensors file. Its metadata hold the model's
configuration and its vocabulary, a JSON array with the word of each token.
docs/model.md says what the tensors are and what the model computes from them.

--round says after how much of the training: 0 is the initial model. Of fedavg it
counts rounds; of sgd steps, and checkpoints are written after every
training.steps_per_task of them. Kept are the initial model, the audited ones, the
last, and those of training.checkpoints; the error for another one lists them.
"coalmine data export" writes the data that the model was trained on.`

func newExportCommand(g *global) *cobra.Command {
	round := control.LastRound
	var output string
	c := &cobra.Command{
		Use:     "export RUN CELL",
		Short:   "Write the model of a cell as a safetensors file with its vocabulary",
		Long:    exportHelp,
		Example: "  coalmine export quickstart c01 -o model.safetensors\n  coalmine export quickstart c01 --round 0 -o initial.safetensors",
		GroupID: groupOther,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("round") && round < 0 {
				return fmt.Errorf("--round %d: expected 0 for the initial model, or after how many rounds (of sgd: steps)", round)
			}
			return g.withControl(c.Context(), func(api control.API) error {
				data, err := api.Model(c.Context(), args[0], args[1], round)
				if err != nil {
					return err
				}
				if output == "" {
					output = fmt.Sprintf("%s-%s.safetensors", args[0], args[1])
				}
				if err := os.WriteFile(output, data, 0o644); err != nil {
					return err
				}
				g.note("wrote %s (%d bytes)", output, len(data))
				return nil
			})
		},
	}
	c.Flags().IntVar(&round, "round", round, "round (of sgd: step) after which; 0 is the initial model")
	c.Flags().Lookup("round").DefValue = "the last"
	c.Flags().StringVarP(&output, "output", "o", "", "file to write; RUN-CELL.safetensors if none is given")
	return c
}
