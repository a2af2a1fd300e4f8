package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"coalmine/bench/attacks"
	models "coalmine/models/attacks"
)

func newAttacks(o *output) *cobra.Command {
	options, kind := attacks.Options{}, string(models.MLP)
	c := &cobra.Command{
		Use:   "attacks",
		Short: "Time and memory of attacks on recorded updates",
		Long: `Train an attack of audit.deanonymization on updates that are made up, and print its time
and memory. The updates stand in no store: each shard is made when it is
read. The time is that of one task, with what it reads twice before its training and what it
scores; the difference between two numbers of epochs is that of the epochs.`,
		Example: "  go run ./bench/cmd attacks --updates 100000 --values 50000 --epochs 5",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			options.Attack = models.Kind(kind)
			return o.show(attacks.Run(c.Context(), options))
		},
	}
	f := c.Flags()
	f.StringVar(&kind, "attack", kind, "mlp, svm, knn or cosine")
	f.IntVar(&options.Updates, "updates", 10_000, "updates of shadow devices")
	f.IntVar(&options.Values, "values", 50_000, "values of each")
	f.IntVar(&options.Users, "users", 118, "users, one device of each in every round")
	f.IntVar(&options.Epochs, "epochs", 1, "epochs of the training")
	f.IntVar(&options.Memory, "memory", 1024, "MiB of updates in memory at once")
	return c
}

func newCoverage(o *output) *cobra.Command {
	draws, fewDraws, seed := 2000, 400, uint64(1)
	c := &cobra.Command{
		Use:   "coverage",
		Short: "How often the intervals of replicates contain the truth",
		Long: `Two tables. The first: make up results of replicates whose truth is known, and print how often the 95% intervals
contain it: those of Student's t of means and of differences between rows, those of Korn and
Graubard of pooled counts, and the sign test. Rows without a goal violate the assumptions of
an interval, and show the effect.

The second: make up data of 1, 2, 3, 5, 10 and 30 users (or canaries, sentences, seeds), where
there is nothing to find, something, and nearly all, for every quantity that is printed with an
interval, and print how often the interval has the truth in it, and how often it lies wholly above
the truth: at no effect, the false alarms of a gate at chance. It takes about five minutes.`,
		Example: "  go run ./bench/cmd coverage --draws 20000 --few-draws 2000",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if draws < 1 || fewDraws < 1 {
				return fmt.Errorf("--draws %d, --few-draws %d; expected at least 1", draws, fewDraws)
			}
			return o.show(&attacks.CoverageReport{Rows: attacks.RunCoverage(draws, seed), Few: attacks.RunFew(fewDraws, seed, attacks.FewUsers)}, nil)
		},
	}
	f := c.Flags()
	f.IntVar(&draws, "draws", draws, "studies that are made up for each line")
	f.IntVar(&fewDraws, "few-draws", fewDraws, "intervals over few users that are made up for each number of the second table")
	f.Uint64Var(&seed, "seed", seed, "seed of all draws")
	return c
}
