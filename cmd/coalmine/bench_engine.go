package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/workflows/enginebench"
)

// engineFlags are the flags of bench engine.
type engineFlags struct {
	enginebench.Options
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
of peak least. bench/README.md says how to put PyTorch's figures beside them.

Rows: ` + strings.Join(enginebench.Names(), ", ") + ".",
		Example: `  coalmine bench engine --only training,two-workers
  COALMINE_KERNELS=avx2 coalmine bench engine --json > avx2.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return g.benchEngine(c.Context(), &flags) },
	}
	c.Flags().IntVar(&flags.Repeat, "repeat", 11, "measurements of each row")
	c.Flags().StringSliceVar(&flags.Only, "only", nil, "rows to measure, separated by commas")
	c.Flags().StringVar(&flags.Text, "text", "examples/data/state-of-the-union.jsonl.gz", "JSON lines for the rows with real sentences")
	c.Flags().StringVar(&flags.kernels, "kernels", "", "kernel set: avx512, avx2 or go (default: the fastest that the processor runs)")
	c.Flags().StringSliceVar(&flags.peers, "peer", nil, "files that bench/pytorch.py has printed, to compare with")
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
	flags.Done = func(r enginebench.Row) { g.note("%s: done", r.Name) }
	report, err := enginebench.Run(ctx, flags.Options)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(report)
	}
	return writeEngineTable(g.stdout, report, peers)
}

func readPeers(paths []string) ([]*enginebench.Peer, error) {
	peers := make([]*enginebench.Peer, len(paths))
	for i, path := range paths {
		var err error
		if peers[i], err = enginebench.ReadPeer(path); err != nil {
			return nil, err
		}
	}
	return peers, nil
}

func writeEngineTable(w io.Writer, report *enginebench.Report, peers []*enginebench.Peer) error {
	fmt.Fprintf(w, "kernels %s, %d processors, medians of %d\n\n", report.Kernels, report.Processors, report.Repeat)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	fmt.Fprint(t, "row\ttokens/s\tGFLOP/s\t% of peak\tother\tgoal\treached\t")
	for i := range peers {
		fmt.Fprintf(t, "times peer %d\t", i+1)
	}
	fmt.Fprintln(t)
	for _, r := range report.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", r.Name, figure("%.0f", r.TokensPerSecond), figure("%.1f", r.GFLOPS),
			figure("%.1f", 100*r.OfPeak), otherFigure(r), r.Goal, reached(r))
		for _, p := range peers {
			fmt.Fprintf(t, "%s\t", timesPeer(r, p))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, r := range report.Rows {
		fmt.Fprintf(w, "%s: %s\n", r.Name, r.What)
	}
	for i, p := range peers {
		fmt.Fprintf(w, "peer %d: %s\n", i+1, p.Name)
	}
	return nil
}

// figure prints a figure that a row has, nothing for one that it has not.
func figure(format string, value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf(format, value)
}

// otherFigure is what only a few rows have.
func otherFigure(r enginebench.Row) string {
	switch {
	case r.Skipped != "":
		return "not measured: " + r.Skipped
	case r.BruteForceGFLOPS != 0:
		return fmt.Sprintf("%.1f s, by brute force %.0f GFLOP/s", r.Seconds, r.BruteForceGFLOPS)
	case r.Seconds != 0:
		return fmt.Sprintf("%.0f s", r.Seconds)
	case r.Ratio != 0:
		return fmt.Sprintf("%.2f times", r.Ratio)
	case r.Allocations != nil:
		return fmt.Sprintf("%.0f allocations", *r.Allocations)
	case r.Megabytes != nil:
		return fmt.Sprintf("%.1f MB", *r.Megabytes)
	}
	return ""
}

func reached(r enginebench.Row) string {
	switch {
	case r.Reached == nil:
		return ""
	case *r.Reached:
		return "yes"
	}
	return "no"
}

func timesPeer(r enginebench.Row, p *enginebench.Peer) string {
	theirs := p.TokensPerSecond(r.Name)
	if theirs == 0 || r.TokensPerSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.TokensPerSecond/theirs)
}
