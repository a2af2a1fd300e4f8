package cluster

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the result for people.
func (r *SubmitResult) Print(w io.Writer) {
	fmt.Fprintf(w, "a run of %d cells, %d tasks besides those of rounds\n\n", r.Cells, r.Nodes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tseconds\tCPU s\tresident\tpeak\t")
	fmt.Fprintf(t, "submit\t%.1f\t%.1f\t\t%s\t\n", r.Submit.Seconds, r.Submit.CPUSeconds, mebibytes(r.Submit.PeakBytes))
	fmt.Fprintf(t, "coordinator\t%.1f\t%.1f\t%s\t%s\t\n", r.TakenUp, r.Coordinator.CPUSeconds, mebibytes(r.Coordinator.ResidentBytes), mebibytes(r.Coordinator.PeakBytes))
	fmt.Fprintf(t, "  before\t\t\t%s\t\t\n\n", mebibytes(r.IdleBytes))
	_ = t.Flush() // a failed write to the terminal cannot be reported
	r.Lists.print(w, "list of runs")
	r.EndedLists.print(w, "after its end")
}

func (l *Lists) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%-13s  first %.0f ms, then %.1f ms (median), %s\n", name, l.FirstMS, l.MedianMS, mebibytes(int64(l.Bytes)))
}
