package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	benchengine "coalmine/bench/engine"
	"coalmine/internal/kernels"
)

// engineFlags are the flags of bench engine.
type engineFlags struct {
	benchengine.Options
	kernels string
	peers   []string
}

func newBenchEngineCommand(g *global) *cobra.Command {
	var flags engineFlags
	c := &cobra.Command{
		Use:   "engine",
		Short: "Speed of training steps and audits, against what the core can do",
		Long: `Measure the compute engine, each row several times, and print the medians. Before
each measurement the core's peak is measured anew: multiply-adds in registers, as
fast as the kernels in use can issue them. GFLOP/s counts the operations of matrix
products alone, a multiply-add as two, three products for each of the forward
pass; exponentials, sums and copies take time and count as nothing.

The last rows audit models that are trained for it first: they take some minutes
and are measured once.

Close other programs first: on a busy machine all figures are lower, the shares
of peak least. bench/pytorch/README.md says how to put PyTorch's figures beside them.

Rows: ` + strings.Join(benchengine.Names(), ", ") + ".",
		Example: `  coalmine bench engine --only training,two-workers
  COALMINE_KERNELS=avx2 coalmine bench engine --json > avx2.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return g.benchEngine(c.Context(), &flags) },
	}
	c.Flags().IntVar(&flags.Repeat, "repeat", 11, "measurements of each row")
	c.Flags().StringSliceVar(&flags.Only, "only", nil, "rows to measure, separated by commas")
	c.Flags().StringVar(&flags.Text, "text", "examples/data/state-of-the-union.jsonl.gz", "JSON lines for the rows with real sentences")
	c.Flags().StringVar(&flags.kernels, "kernels", "", "kernel set: avx512, avx2 or go (default: the fastest that the processor runs)")
	c.Flags().StringSliceVar(&flags.peers, "peer", nil, "files that bench/pytorch/pytorch.py has printed, to compare with")
	return c
}

func (g *global) benchEngine(ctx context.Context, flags *engineFlags) error {
	if err := flags.Validate(); err != nil {
		return err
	}
	peers, err := readPeers(flags.peers)
	if err != nil {
		return err
	}
	if flags.kernels != "" {
		restore, err := kernels.ForceSet(flags.kernels)
		if err != nil {
			return err
		}
		defer restore()
	}
	flags.Done = func(r benchengine.Row) { g.note("%s: done", r.Name) }
	report, err := benchengine.Run(ctx, flags.Options)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(report)
	}
	return report.Print(g.stdout, peers)
}

func readPeers(paths []string) ([]*benchengine.Peer, error) {
	peers := make([]*benchengine.Peer, len(paths))
	for i, path := range paths {
		var err error
		if peers[i], err = benchengine.ReadPeer(path); err != nil {
			return nil, err
		}
	}
	return peers, nil
}
