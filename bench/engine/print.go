package engine

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the rows as a table, with the peers' measurements.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "kernels %s, %d processors, medians of %d\n\n", r.Kernels, r.Processors, r.Repeat)
	r.printTable(w)
	fmt.Fprintln(w)
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s: %s\n", row.Name, row.What)
	}
	for i, p := range r.Peers {
		fmt.Fprintf(w, "peer %d: %s\n", i+1, p.Name)
	}
}

func (r *Report) printTable(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	fmt.Fprint(t, "row\ttokens/s\tGFLOP/s\t% of peak\tother\tgoal\treached\t")
	for i := range r.Peers {
		fmt.Fprintf(t, "times peer %d\t", i+1)
	}
	fmt.Fprintln(t)
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t", row.Name, figure("%.0f", row.TokensPerSecond), figure("%.1f", row.GFLOPS),
			figure("%.1f", 100*row.OfPeak), row.other(), row.Goal, row.reached())
		for _, p := range r.Peers {
			fmt.Fprintf(t, "%s\t", row.timesPeer(p))
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
}

// figure formats a figure of a row, "" for 0.
func figure(format string, value float64) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf(format, value)
}

// other returns the figure that only a few rows have.
func (r *Row) other() string {
	switch {
	case r.Skipped != "":
		return "not measured: " + r.Skipped
	case r.BruteForceGFLOPS != 0:
		return fmt.Sprintf("%.1f s, by brute force %.0f GFLOP/s", r.Seconds, r.BruteForceGFLOPS)
	case r.Seconds != 0:
		return fmt.Sprintf("%.0f s", r.Seconds)
	case r.Ratio != 0:
		return fmt.Sprintf("%.2f times", r.Ratio)
	case r.Share != 0:
		return fmt.Sprintf("%.1f%%", 100*r.Share)
	case r.Allocations != nil:
		return fmt.Sprintf("%.0f allocations", *r.Allocations)
	case r.Megabytes != nil:
		return fmt.Sprintf("%.1f MB", *r.Megabytes)
	}
	return ""
}

func (r *Row) reached() string {
	switch {
	case r.Reached == nil:
		return ""
	case *r.Reached:
		return "yes"
	}
	return "no"
}

// timesPeer returns the speed as a multiple of a peer's.
func (r *Row) timesPeer(p *Peer) string {
	theirs := p.TokensPerSecond(r.Name)
	if theirs == 0 || r.TokensPerSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.TokensPerSecond/theirs)
}
