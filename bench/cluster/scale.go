// Package cluster measures clusters of Coalmine's processes: the cost of queue, coordinator and workers
// at scale (Run) and for one training (Training), the cost of a large grid before its first task
// (RunSubmit), and the accuracy of plan's forecast (RunForecast).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"coalmine/internal/queue"
)

// Options select the measurements and their place.
type Options struct {
	// Program is the path of this program; its command WorkerCommand starts a worker.
	Program string
	// Redis is the URL of an empty Redis; "" starts a redis-server from PATH.
	Redis string
	// Store is a store to work in, in a new folder that is removed afterwards; ""
	// stands for memory, and in the start measurement for a directory on disk.
	Store string
	// Slots is the number of concurrent tasks, in Processes worker processes.
	Slots, Processes int
	// Tasks is the number of tasks of the first measurement; Rounds, of Chunks parts each, the rounds of
	// the second; Cells the trainings of Rounds rounds that the last resumes.
	Tasks, Rounds, Chunks, Cells int
	// Measure names the measurements to make, of Measurements.
	Measure []string
	// Idle is the time for which the idle processes are measured.
	Idle time.Duration
	// Note is called with the name of each measurement as it begins.
	Note func(format string, args ...any)
	Log  *slog.Logger
}

// Measurements lists all measurements, in order.
var Measurements = []string{"tasks", "rounds", "idle", "start"}

func (o *Options) check() error {
	var errs []error
	for _, name := range o.Measure {
		if !slices.Contains(Measurements, name) {
			errs = append(errs, fmt.Errorf("--measure %s: there are %s", name, strings.Join(Measurements, ", ")))
		}
	}
	least := func(name string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("--%s is %d: want at least %d", name, value, least))
		}
	}
	least("slots", o.Slots, 1)
	least("processes", o.Processes, 1)
	least("tasks", o.Tasks, 1)
	least("rounds", o.Rounds, windows)
	least("chunks", o.Chunks, 1)
	least("cells", o.Cells, 1)
	if o.Slots%max(o.Processes, 1) != 0 {
		errs = append(errs, fmt.Errorf("--slots %d cannot be shared evenly by --processes %d", o.Slots, o.Processes))
	}
	return errors.Join(errs...)
}

// Result holds the measurements. Numbers that the system does not report are 0.
type Result struct {
	Queue     string `json:"queue"`
	Store     string `json:"store"`
	Cores     int    `json:"cores"`
	Slots     int    `json:"slots"`
	Processes int    `json:"worker_processes"`
	// Measurements that were not selected are nil.
	Tasks  *Tasks  `json:"tasks,omitempty"`
	Rounds *Rounds `json:"rounds,omitempty"`
	Idle   *Idle   `json:"idle,omitempty"`
	Start  *Start  `json:"start,omitempty"`
}

// Run measures. It leaves nothing behind, even after an error.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	c, err := startCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r = &Result{Queue: c.conn.String(), Store: c.archive.String(), Cores: runtime.NumCPU(), Slots: o.Slots, Processes: o.Processes}
	measurements := map[string]func() error{
		"tasks":  func() (err error) { r.Tasks, err = c.tasks(ctx); return err },
		"rounds": func() (err error) { r.Rounds, err = c.rounds(ctx); return err },
		"idle":   func() (err error) { r.Idle, err = c.idle(ctx); return err },
		"start":  func() (err error) { r.Start, err = c.start(ctx); return err },
	}
	for _, name := range Measurements {
		if slices.Contains(o.Measure, name) {
			if err := measurements[name](); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// refuseBusy returns an error if the Redis is in use: the benchmark would receive the
// other user's tasks and reports.
func refuseBusy(ctx context.Context, conn *queue.Conn, broker *queue.Broker) error {
	workers, err := broker.Workers(ctx)
	if err != nil {
		return err
	}
	if len(workers) > 0 {
		return fmt.Errorf("%s serves %d workers already: name a Redis without users, or another database of it (redis://host:port/15)", conn, len(workers))
	}
	return nil
}

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
