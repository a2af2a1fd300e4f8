package cluster

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the result for people.
func (r *Result) Print(w io.Writer) {
	fmt.Fprintf(w, "%d slots in %d worker processes, %d cores; %s; store: %s\n\n", r.Slots, r.Processes, r.Cores, r.Queue, r.Store)
	if t := r.Tasks; t != nil {
		fmt.Fprintf(w, "tasks   %d in %.1f s: %.0f a second\n", t.Tasks, t.Seconds, t.PerSecond)
		fmt.Fprintf(w, "        CPU for each: coordinator %.3f ms, workers %.3f ms, Redis %.3f ms\n",
			t.Milliseconds.Coordinator, t.Milliseconds.Workers, t.Milliseconds.Redis)
	}
	if r.Rounds != nil {
		r.Rounds.print(w)
	}
	if i := r.Idle; i != nil {
		fmt.Fprintf(w, "idle    %.0f s, of one core: coordinator %.1f%%, workers %.1f%%, Redis %.1f%%; workers hold %s\n",
			i.Seconds, i.Percent.Coordinator, i.Percent.Workers, i.Percent.Redis, mebibytes(i.WorkersResident))
	}
	if s := r.Start; s != nil {
		fmt.Fprintf(w, "start   %d trainings of %d rounds go on after %.2f s and %d requests to %s\n",
			s.Cells, s.Rounds, s.Seconds, s.StoreOperations, s.Store)
	}
}

func (r *Rounds) print(w io.Writer) {
	fmt.Fprintf(w, "rounds  %d of %d parts and a join: median %.2f ms, 95%% within %.2f ms\n", r.Rounds, r.Chunks, r.MedianMS, r.P95MS)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "to round\tmedian ms\t95% ms\tcoordinator heap\tobjects\tresident\tCPU ms\tqueue calls\tstore requests\tworkers' CPU ms\tRedis CPU ms\t")
	for _, x := range r.Windows {
		fmt.Fprintf(t, "%d\t%.2f\t%.2f\t%s\t%d\t%s\t%.2f\t%.1f\t%.1f\t%.2f\t%.2f\t\n", x.Through, x.MedianMS, x.P95MS,
			mebibytes(x.HeapBytes), x.HeapObjects, mebibytes(x.Resident), x.Milliseconds.Coordinator,
			x.QueueCalls, x.StoreOperations, x.Milliseconds.Workers, x.Milliseconds.Redis)
	}
	_ = t.Flush() // a failed write to the terminal cannot be reported
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
