package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/bench/engine"
	"coalmine/internal/kernels"
)

func newEngine(o *output) *cobra.Command {
	options, set, peers := engine.Options{}, "", []string{}
	c := &cobra.Command{
		Use:   "engine",
		Short: "Speed of training steps and audits, as a share of the core's peak",
		Long: `Measure the compute engine, each row several times, and print the medians. Before
each measurement the core's peak is measured anew: multiply-adds in registers, as
fast as the kernels in use can issue them. GFLOP/s counts the operations of matrix
products alone, a multiply-add as two, three products for each of the forward
pass; exponentials, sums and copies take time and count as nothing.

The last rows audit models that are trained for it first: they take some minutes
and are measured once.

Close other programs first: on a busy machine all figures are lower, the shares
of peak least. bench/pytorch/README.md says how to put PyTorch's figures beside them.

Rows: ` + strings.Join(engine.Names(), ", ") + ".",
		Example: "  go run ./bench/cmd engine --only training,two-workers\n  COALMINE_KERNELS=avx2 go run ./bench/cmd engine --json > avx2.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			options.Done = func(r engine.Row) { o.note("%s: done", r.Name) }
			return o.show(runEngine(c.Context(), options, set, peers))
		},
	}
	f := c.Flags()
	f.IntVar(&options.Repeat, "repeat", 11, "measurements of each row")
	f.StringSliceVar(&options.Only, "only", nil, "rows to measure, separated by commas")
	f.StringVar(&options.Text, "text", "examples/data/state-of-the-union.jsonl.gz", "JSON lines for the rows with real sentences")
	f.StringVar(&set, "kernels", "", "kernel set: avx512, avx2 or go (default: the fastest that the processor runs)")
	f.StringSliceVar(&peers, "peer", nil, "JSON files of bench/pytorch/pytorch.py to compare with")
	return c
}

func runEngine(ctx context.Context, o engine.Options, set string, paths []string) (*engine.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	peers := make([]*engine.Peer, len(paths))
	for i, path := range paths {
		var err error
		if peers[i], err = engine.ReadPeer(path); err != nil {
			return nil, err
		}
	}
	if set != "" {
		restore, err := kernels.ForceSet(set)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	report, err := engine.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	report.Peers = peers
	return report, nil
}
