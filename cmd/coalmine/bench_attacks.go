package main

import (
	"github.com/spf13/cobra"

	bench "coalmine/bench/attacks"
	"coalmine/models/attacks"
)

const benchAttacksHelp = `Train an attack of audit.deanonymization on updates that are made up, and print how long
that takes, and what memory. The updates stand in no store: each shard is made when it is
read. The time is that of one task, with what it reads twice before its training and what it
scores; the difference between two numbers of epochs is that of the epochs.`

func newBenchAttacksCommand(g *global) *cobra.Command {
	o, kind := bench.Options{}, string(attacks.MLP)
	c := &cobra.Command{
		Use:     "attacks",
		Short:   "Time and memory of attacks on recorded updates",
		Long:    benchAttacksHelp,
		Example: `  coalmine bench attacks --updates 100000 --values 50000 --epochs 5`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Attack = attacks.Kind(kind)
			r, err := bench.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if g.json {
				return g.printJSON(r)
			}
			r.Print(g.stdout)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "attack", kind, "mlp, svm, knn or cosine")
	f.IntVar(&o.Updates, "updates", 10_000, "updates of shadow devices")
	f.IntVar(&o.Values, "values", 50_000, "values of each")
	f.IntVar(&o.Users, "users", 118, "users, one device of each in every round")
	f.IntVar(&o.Epochs, "epochs", 1, "epochs of the training")
	f.IntVar(&o.Memory, "memory", 1024, "MiB of updates in memory at once")
	return c
}
