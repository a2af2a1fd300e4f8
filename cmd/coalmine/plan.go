package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workflows/compile"
	"coalmine/workflows/datadir"
	"coalmine/workflows/estimate"
	"coalmine/workflows/experiment"
	"coalmine/workflows/explanation"
	"coalmine/workflows/plan"
	"coalmine/workflows/submission"
)

func newPlanCommand(g *global) *cobra.Command {
	var flags submitFlags
	c := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a run of an experiment would do, and queue nothing",
		Long: `Show the cells of an experiment, what of them is cached and why the rest is not,
what a training with clipped updates will cost in privacy, and an estimate of the
arithmetic, bytes and time on this machine. The population of an iid cell is filled
only when it runs: its epsilon may differ a little from the one shown.

Tasks that cells share are counted for each of them, and are run once. --json lists
all kinds of tasks of every cell.`,
		Example: "  coalmine plan examples/quickstart.yaml\n  coalmine plan experiment.yaml --set training.rounds=2000",
		GroupID: groupRun,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			sub, err := flags.prepare(c.Context(), g, args[0])
			if err != nil {
				return err
			}
			return g.plan(c.Context(), sub)
		},
	}
	flags.add(c.Flags(), false)
	return c
}

func (g *global) plan(ctx context.Context, sub *submission.Submission) error {
	p, err := compile.Plan(sub.Spec)
	if err != nil {
		return err
	}
	archive, done, err := g.planArchive(ctx)
	if err != nil {
		return err
	}
	x, err := explanation.Explain(ctx, p, archive)
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	cells := make([]plannedCell, len(p.Cells))
	for i := range cells {
		cells[i] = plannedCell{Cell: &x.Cells[i], training: trainingToRun(&p.Cells[i], x, i)}
		if cells[i].privacy, err = sub.Spec.Cells[i].Privacy(); err != nil {
			return err
		}
	}
	cost := estimate.Of(sub, p, x)
	if g.json {
		return g.printJSON(planView(cells, sub.Spec.FalseAlarms(), cost))
	}
	g.writePlan(cells, sub.Spec.FalseAlarms(), cost)
	return nil
}

// plannedCell is what a run would do for a cell.
type plannedCell struct {
	*explanation.Cell
	training []string        // what of it runs, and from where
	privacy  *privacy.Report // what it costs; nil if nothing is clipped
}

// trainingToRun says what of the training of cell i runs: steps of its chain, and the
// tail. It is empty if all is cached.
func trainingToRun(c *plan.Cell, x *explanation.Plan, i int) []string {
	lines := []string{}
	for j, t := range x.Cells[i].Apart {
		for _, why := range t.Why() {
			lines = append(lines, fmt.Sprintf("%s, one that the data are made with (%d of %d)", why, j+1, len(x.Cells[i].Apart)))
		}
	}
	if t := x.Cells[i].Training; t != nil {
		lines = append(lines, t.Why()...)
	}
	if c.Tail.Rounds > 0 && x.Nodes[c.Tail.Node.Key].Disposition == explanation.ToRun {
		from := "the start"
		if before := c.Rounds() - c.Tail.Rounds; before > 0 {
			from = fmt.Sprintf("the checkpoint at %d", before)
		}
		lines = append(lines, fmt.Sprintf("train to %d from %s", c.Rounds(), from))
	}
	return lines
}

// planArchive is the store that a run would use; an empty one where there is
// none yet.
func (g *global) planArchive(ctx context.Context) (*storage.Archive, closer, error) {
	if g.clustered() {
		archive, err := g.openStore(ctx)
		return archive, noClose, err
	}
	if _, err := os.Stat(g.home); err == nil {
		// Reading beside an owner does no harm: objects are immutable.
		store, err := open.Open(ctx, datadir.StorePath(g.home))
		return storage.NewArchive(store), noClose, err
	}
	dir, err := os.MkdirTemp("", "coalmine-plan-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	store, err := open.Open(ctx, dir)
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return storage.NewArchive(store), remove, nil
}

// writePlan prints the plan for people.
func (g *global) writePlan(cells []plannedCell, alarms []experiment.FalseAlarm, cost estimate.Cost) {
	for i := range cells {
		g.writePlannedCell(&cells[i])
	}
	for _, f := range alarms {
		g.printf("%s\n", f)
	}
	peak := kernels.PeakGFLOPS(100 * time.Millisecond)
	g.printf("\n%s to train and %s to measure; about %s through the store\n",
		flop(cost.TrainingFLOP), flop(cost.MeasuringFLOP), bytesText(cost.Bytes))
	if cost.Recorded > 0 {
		g.printf("about %s of recorded updates stay in the store; until they are gathered, for each such training up to %s more\n",
			bytesText(cost.Recorded), bytesText(cost.Gathering))
	}
	g.printf("about %s on this machine: %d cores of %.0f GFLOP/s (%s kernels), %.0f%% of it used\n",
		cost.Duration(peak, runtime.GOMAXPROCS(0)).Round(time.Second), runtime.GOMAXPROCS(0), peak, kernels.Set(), 100*estimate.Efficiency)
}

func (g *global) writePlannedCell(c *plannedCell) {
	state := "to run"
	if c.Cached {
		state = "cached"
	}
	g.printf("%s  %s: %s\n", c.Name, c.Label, state)
	if c.privacy != nil {
		g.printf("      privacy: %s\n", c.privacy.Summary())
	}
	if c.Cached {
		return
	}
	for _, line := range c.training {
		g.printf("      training: %s\n", line)
	}
	if len(c.training) == 0 {
		g.printf("      training: cached\n")
	}
	g.writeGroups(c.Groups)
}

// writeGroups says which tasks of a cell run, and why. Where all of them do, for one
// reason, they are only counted.
func (g *global) writeGroups(groups []explanation.Group) {
	toRun, cached, unneeded := 0, 0, 0
	reasons := map[string]bool{}
	for _, group := range groups {
		toRun, cached, unneeded = toRun+group.ToRun, cached+group.Cached, unneeded+group.Unneeded
		reasons[strings.Join(group.Why, "; ")] = true
	}
	if cached+unneeded == 0 && len(reasons) == 1 {
		g.printf("      %d other tasks to run: %s\n", toRun, strings.Join(groups[0].Why, "; "))
		return
	}
	for _, group := range groups {
		if group.ToRun > 0 {
			g.printf("      %-24s %d to run: %s\n", group.Kind, group.ToRun, strings.Join(group.Why, "; "))
		}
	}
	g.printf("      other tasks: %d cached, %d not needed any more\n", cached, unneeded)
}

// planView is what plan --json prints.
func planView(cells []plannedCell, alarms []experiment.FalseAlarm, cost estimate.Cost) any {
	type cell struct {
		Cell     string              `json:"cell"`
		Label    string              `json:"label"`
		Cached   bool                `json:"cached"`
		Training []string            `json:"training"`
		Nodes    []explanation.Group `json:"nodes"`
		Privacy  *privacy.Report     `json:"privacy,omitempty"`
	}
	view := struct {
		Cells         []cell                  `json:"cells"`
		FalseAlarms   []experiment.FalseAlarm `json:"false_alarms,omitempty"`
		TrainingFLOP  float64                 `json:"training_flop"`
		MeasuringFLOP float64                 `json:"measuring_flop"`
		Bytes         float64                 `json:"bytes"`
		RecordedBytes float64                 `json:"recorded_bytes,omitempty"`
	}{FalseAlarms: alarms, TrainingFLOP: cost.TrainingFLOP, MeasuringFLOP: cost.MeasuringFLOP, Bytes: cost.Bytes, RecordedBytes: cost.Recorded}
	for _, c := range cells {
		view.Cells = append(view.Cells, cell{c.Name, c.Label, c.Cached, c.training, c.Groups, c.privacy})
	}
	return view
}

func flop(x float64) string {
	return scaled(x, 1000, "FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP")
}

func bytesText(x float64) string { return scaled(x, 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB") }

func scaled(x, base float64, units ...string) string {
	for _, unit := range units[:len(units)-1] {
		if x < base {
			return fmt.Sprintf("%.3g %s", x, unit)
		}
		x /= base
	}
	return fmt.Sprintf("%.3g %s", x, units[len(units)-1])
}
