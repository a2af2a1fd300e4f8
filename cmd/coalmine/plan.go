package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/internal/tempfiles"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/open"
	"coalmine/tasks"
	"coalmine/workers"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/experiment"
	"coalmine/workflows/forecast"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs/datadir"
)

func newPlanCommand(g *global) *cobra.Command {
	var flags submitFlags
	var cores []int
	var programs, nodes bool
	c := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print the tasks, time and privacy cost of an experiment without running it",
		Long: `Print the settings of an experiment, the number of tasks to run and of cached tasks, the
privacy cost of trainings with clipped updates, and estimates of arithmetic, transferred
bytes and time on this machine. An iid cell fills its population when it runs, so its
epsilon may differ slightly.

--nodes lists the tasks of each cell to run, by kind, with the reason. A task shared by cells
counts for each of them and runs once. --json lists all kinds of tasks of every cell.

The time follows from the coordinator's own scheduling against a simulated clock: a
training proceeds step by step, with any number of cores. --cores estimates clusters of
other sizes, with cores as fast as this machine's. It assumes %d MB per second between
each core and the store, and includes the preparation of data. A program that trains or
scores (model.kind: external, training.engine: pytorch) runs as in a worker, for some
seconds on synthetic data of the experiment's sizes; with --programs=false it does not
run, and the time is unknown.`,
		Example: "  coalmine plan examples/quickstart.yaml\n  coalmine plan experiment.yaml --set training.rounds=2000\n  coalmine plan experiment.yaml --cores 64,256,1000",
		RunE: func(c *cobra.Command, args []string) error {
			sub, err := flags.prepare(c.Context(), g, args[0])
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(cores, func(n int) bool { return n < 1 || n > maxCores }); i >= 0 {
				return fmt.Errorf("--cores: %d cores; expected 1 to %d", cores[i], maxCores)
			}
			return g.plan(c.Context(), sub, cores, programs, nodes)
		},
	}
	c.Long = fmt.Sprintf(c.Long, int(forecast.StoreBytes/1e6))
	c.Flags().IntSliceVar(&cores, "cores", nil, "also predict the time on clusters of these numbers of cores, such as 64,256,1000")
	c.Flags().BoolVar(&programs, "programs", true, "measure the programs of the experiment on synthetic data; without it their time is unknown")
	c.Flags().BoolVar(&nodes, "nodes", false, "list the tasks of each cell to run")
	flags.add(c.Flags(), false)
	return c
}

// maxCores is the maximum size of a simulated cluster.
const maxCores = 100_000

func (g *global) plan(ctx context.Context, sub *submission.Submission, cores []int, programs, nodes bool) error {
	p, x, err := planOf(ctx, sub, g.knownResults)
	if err != nil {
		return err
	}
	if where, err := g.places.place(); err == nil && where.server != "" {
		g.note("%s does not give access to its store, so the plan counts nothing as cached; --store names a store", where)
	}
	cost := forecast.CostOf(sub, p, x)
	out := &plannedRun{
		FalseAlarms: sub.Spec.FalseAlarms(), Power: forecast.Planned(sub.Spec), Powerless: sub.Spec.Powerless(), Tasks: x.TasksToRun(),
		TrainingFLOP: cost.TrainingFLOP, MeasuringFLOP: cost.MeasuringFLOP, Bytes: cost.Bytes, RecordedBytes: cost.Recorded, cost: cost,
	}
	for i, c := range x.Cells {
		report, err := sub.Spec.Cells[i].Privacy()
		if err != nil {
			return err
		}
		out.Cells = append(out.Cells, plannedCell{c.Name, c.Label, c.Cached, trainingToRun(&p.Cells[i], x, i), c.Groups, report, sub.Spec.Cells[i].Row})
	}
	predicted := newPrediction(ctx, sub, p, x, g.programs(ctx, sub, programs && x.TasksToRun() > 0), measureSpeed())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if out.Clusters, err = predicted.on(cores); err != nil {
		return err
	}
	if out.ThisMachine, err = predicted.here(); err != nil {
		return err
	}
	return g.show(out, func() error { g.writePlan(out, tasksText(x), nodes); return nil })
}

// planOf returns the plan of a submission, and the tasks that are to run, given the results in the store that
// open opens.
func planOf(ctx context.Context, sub *submission.Submission, open func(context.Context) (*storage.Archive, closer, error)) (*plan.Plan, *forecast.Explanation, error) {
	p, err := compile.Plan(sub.Spec)
	if err != nil {
		return nil, nil, err
	}
	archive, done, err := open(ctx)
	if err != nil {
		return nil, nil, err
	}
	x, err := forecast.Explain(ctx, p, archive)
	return p, x, errors.Join(err, done())
}

// thisMachine is the predicted time of a plan on this machine.
type thisMachine struct {
	// Seconds is null if UnknownTasks run programs of unknown speed.
	Seconds *float64 `json:"seconds"`
	machineSpeed
	// GPUs is the number of GPUs that tasks of the class gpu share; 0 if there are no such tasks, or no
	// NVIDIA GPUs.
	GPUs int `json:"gpus,omitempty"`
	// Busy is the fraction of their time in which cores and GPUs work.
	Busy         float64 `json:"busy"`
	UnknownTasks int     `json:"unknown_tasks,omitempty"`
}

// prediction predicts the time of a plan by running the coordinator's scheduling on a simulated
// clock.
type prediction struct {
	plan  *plan.Plan
	known *forecast.Explanation
	loads *forecast.Loads
	speed machineSpeed
	gpus  int
}

func newPrediction(ctx context.Context, sub *submission.Submission, p *plan.Plan, x *forecast.Explanation, program func(cell int) *forecast.Speed, speed machineSpeed) *prediction {
	f := &prediction{p, x, forecast.LoadsOf(sub, p, program), speed, 0}
	for _, ch := range p.Chains {
		if ch.Part.Class == tasks.GPU {
			f.gpus = len(workers.GPUs(ctx))
			break
		}
	}
	return f
}

// here predicts the plan's time on this machine.
func (f *prediction) here() (thisMachine, error) {
	m := thisMachine{machineSpeed: f.speed, GPUs: f.gpus}
	found, err := f.on([]int{m.Cores})
	if err != nil {
		return m, err
	}
	m.Busy, m.UnknownTasks = found[0].Busy, found[0].UnknownTasks
	if m.UnknownTasks == 0 {
		m.Seconds = &found[0].Seconds
	}
	return m, nil
}

// timeUncached predicts the time of an experiment on this machine, in seconds, with nothing cached; nil if it runs a
// program of unknown speed.
func timeUncached(ctx context.Context, sub *submission.Submission, program func(cell int) *forecast.Speed, speed machineSpeed) (*float64, error) {
	p, x, err := planOf(ctx, sub, emptyArchive)
	if err != nil {
		return nil, err
	}
	here, err := newPrediction(ctx, sub, p, x, program, speed).here()
	return here.Seconds, err
}

// simulatedCluster is the predicted time of a plan on a number of cores.
type simulatedCluster struct {
	Cores   int     `json:"cores"`
	Seconds float64 `json:"seconds"`
	// Busy is the fraction of their time in which the cores work.
	Busy float64 `json:"busy"`
	// UnknownTasks run programs of unknown speed, and count as 0 seconds.
	UnknownTasks int `json:"unknown_tasks,omitempty"`
}

// on predicts the plan's time on clusters of the given numbers of cores.
func (f *prediction) on(cores []int) ([]simulatedCluster, error) {
	var clusters []simulatedCluster
	for _, n := range cores {
		unknown := 0
		found, err := forecast.Cluster{Cores: n, GPUs: f.gpus, Registry: compile.Registry(), Seconds: func(t *graph.Task) float64 {
			load := f.loads.Of(t)
			if load.Unknown {
				unknown++
			}
			return load.Seconds(f.speed.GFLOPS)
		}}.Run(f.plan, f.known)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, simulatedCluster{n, found.Time.Seconds(), found.Busy, unknown})
	}
	return clusters, nil
}

// text describes the time of a number of tasks.
func (c *simulatedCluster) text(count int) string {
	text := fmt.Sprintf("about %s on %d such cores, at work %.0f%% of the time (simulated; %s)", roughly(c.Seconds), c.Cores, 100*c.Busy, readable.Count(count, "task"))
	if c.UnknownTasks > 0 {
		text += fmt.Sprintf(", without %s of programs, whose time is unknown", readable.Count(c.UnknownTasks, "task"))
	}
	return text
}

// roughly formats a time for people: "3 days 4 hours".
func roughly(seconds float64) string {
	const hour, day = 3600, 24 * 3600
	switch {
	case 0 < seconds && seconds < 1:
		return "1s"
	case seconds < day:
		return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
	case seconds < 1000*day:
		return readable.Count(int(seconds/day), "day") + " " + readable.Count(int(math.Mod(seconds, day)/hour), "hour")
	}
	return fmt.Sprintf("%.0f days", seconds/day)
}

// plannedRun is the output of plan.
type plannedRun struct {
	Cells         []plannedCell           `json:"cells"`
	FalseAlarms   []experiment.FalseAlarm `json:"false_alarms,omitempty"`
	Power         []forecast.Power        `json:"power,omitempty"`
	Powerless     []experiment.Powerless  `json:"powerless,omitempty"`
	TrainingFLOP  float64                 `json:"training_flop"`
	MeasuringFLOP float64                 `json:"measuring_flop"`
	Bytes         float64                 `json:"bytes"`
	RecordedBytes float64                 `json:"recorded_bytes,omitempty"`
	Tasks         int                     `json:"tasks"`
	ThisMachine   thisMachine             `json:"this_machine"`
	Clusters      []simulatedCluster      `json:"clusters,omitempty"`

	cost forecast.Cost
}

// plannedCell is the work of a run for a cell.
type plannedCell struct {
	Cell   string `json:"cell"`
	Label  string `json:"label"`
	Cached bool   `json:"cached"`
	// Training is the part to run, and its first step.
	Training []string         `json:"training"`
	Nodes    []forecast.Group `json:"nodes"`
	// Privacy is the privacy cost; nil without clipping.
	Privacy *privacy.Report `json:"privacy,omitempty"`

	row *experiment.Row // nil without replicates
}

// trainingToRun describes the part of cell i's training to run: steps of its chain, and the tail.
// It returns nothing if all is cached.
func trainingToRun(c *plan.Cell, x *forecast.Explanation, i int) []string {
	lines := apart(x.Cells[i].Apart)
	if t := x.Cells[i].Training; t != nil {
		lines = append(lines, t.Reasons()...)
	}
	if c.Tail.Rounds > 0 && x.Nodes[c.Tail.Node.Key].Disposition == forecast.ToRun {
		lines = append(lines, "train "+forecast.PassText(c.Rounds()-c.Tail.Rounds, c.Rounds()))
	}
	return lines
}

// apart describes the parts of further trainings to run; equal ones share a line.
func apart(chains []*forecast.Chain) []string {
	lines, number := []string{}, map[string]int{}
	for _, t := range chains {
		for _, why := range t.Reasons() {
			if number[why]++; number[why] == 1 {
				lines = append(lines, why)
			}
		}
	}
	for i, why := range lines {
		lines[i] = fmt.Sprintf("%s, %d of %d further models for data or audits", why, number[why], len(chains))
	}
	return lines
}

// planArchive returns the store that a run would use, or an empty one if the store does not exist
// or is out of reach.
func (g *global) planArchive(ctx context.Context, p place) (*storage.Archive, closer, error) {
	if p.clustered() {
		archive, err := g.openStore(ctx, p)
		return archive, noClose, err
	}
	if p.home != "" {
		// Reading next to an owner is safe: objects are immutable.
		store, err := dir.OpenReadOnly(datadir.StorePath(p.home))
		if !errors.Is(err, fs.ErrNotExist) {
			return storage.NewArchive(store), noClose, err
		}
	}
	return emptyArchive(ctx)
}

// knownResults is planArchive of the place that the flags name.
func (g *global) knownResults(ctx context.Context) (*storage.Archive, closer, error) {
	where, err := g.places.place()
	if err != nil {
		return nil, nil, err
	}
	return g.planArchive(ctx, where)
}

// emptyArchive has nothing cached.
func emptyArchive(ctx context.Context) (*storage.Archive, closer, error) {
	temporary, err := tempfiles.MakeDirectory("", "plan-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { temporary.Remove(); return nil }
	store, err := open.Open(ctx, filepath.Join(temporary.Path, "store"))
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return storage.NewArchive(store), remove, nil
}

// tasksText returns "130 tasks, none cached", "12 tasks, the rest cached" or "0 tasks, all cached".
func tasksText(x *forecast.Explanation) string {
	cached := "none"
	for _, n := range x.Nodes {
		if n.Disposition != forecast.ToRun { // also a node made needless by later cached nodes
			cached = "the rest"
		}
	}
	if x.TasksToRun() == 0 {
		cached = "all"
	}
	return fmt.Sprintf("%s, %s cached", readable.Count(x.TasksToRun(), "task"), cached)
}

// writePlan prints a plan; tasks describes the number of its tasks.
func (g *global) writePlan(p *plannedRun, tasks string, nodes bool) {
	if nodes {
		for i := range p.Cells {
			g.writePlannedCell(&p.Cells[i])
		}
	} else {
		g.writePlannedRows(p.Cells)
	}
	g.writeValidity(p.Cells)
	g.writePower(p.Power, p.Powerless)
	for _, f := range p.FalseAlarms {
		g.printf("%s\n", f)
	}
	cost := p.cost
	g.printf("\n%s; %s; about %s through the store\n", tasks, arithmetic(cost), bytesText(cost.Bytes))
	if cost.Recorded > 0 {
		g.printf("about %s of recorded updates stay in the store; until they are gathered, each such training needs up to %s more\n",
			bytesText(cost.Recorded), bytesText(cost.Gathering))
	}
	g.writeTime(&p.ThisMachine)
	for _, c := range p.Clusters {
		g.printf("%s\n", c.text(p.Tasks))
	}
}

// writeTime prints the time of a plan on this machine.
func (g *global) writeTime(here *thisMachine) {
	if here.Seconds == nil {
		g.printf("the time on this machine is unknown: %s run a program that was not measured\n", readable.Count(here.UnknownTasks, "task"))
		return
	}
	gpus := ""
	if here.GPUs > 0 {
		gpus = " and " + readable.Count(here.GPUs, "GPU")
	}
	g.printf("about %s on this machine: %d cores%s, at work %.0f%% of the time, of %.0f GFLOP/s (%s kernels), %.0f%% of it used in training\n",
		roughly(*here.Seconds), here.Cores, gpus, 100*here.Busy, here.GFLOPS, here.Kernels, 100*here.Used)
}

// writePlannedRows prints a line for each setting. Replicates share a line, with the privacy cost of the first.
func (g *global) writePlannedRows(cells []plannedCell) {
	rows := map[string][]*plannedCell{}
	var order []string
	for i := range cells {
		c := &cells[i]
		name := c.Cell
		if c.row != nil {
			name = c.row.Name
		}
		if rows[name] == nil {
			order = append(order, name)
		}
		rows[name] = append(rows[name], c)
	}
	for _, name := range order {
		seeds := rows[name]
		g.writePlanned(name, seeds[0], len(seeds), lists.Count(seeds, func(c *plannedCell) bool { return c.Cached }))
	}
}

// writePlanned prints a setting, the number of its seeds if it has replicates, and the number of cached seeds.
func (g *global) writePlanned(name string, first *plannedCell, seeds, cached int) {
	label, privacyOf := first.Label, "privacy"
	if first.row != nil {
		label = fmt.Sprintf("%s, %s", first.row.Label, readable.Count(seeds, "seed"))
		privacyOf = "privacy with the first seed"
	}
	state := "to run"
	switch {
	case cached == seeds:
		state = "cached"
	case cached > 0:
		state = fmt.Sprintf("%d to run, the rest cached", seeds-cached)
	}
	g.printf("%s  %s: %s\n", name, label, state)
	if first.Privacy != nil {
		summary := first.Privacy.Summary()
		if condition := first.Privacy.Validity(); condition != "" { // writeValidity prints it
			summary = strings.Replace(summary, "; "+condition, "", 1)
		}
		g.printf("      %s: %s\n", privacyOf, summary)
	}
}

// writeValidity prints each condition of the privacy costs once.
func (g *global) writeValidity(cells []plannedCell) {
	var printed []string
	for _, c := range cells {
		if c.Privacy == nil {
			continue
		}
		if condition := c.Privacy.Validity(); condition != "" && !slices.Contains(printed, condition) {
			printed = append(printed, condition)
			g.printf("privacy: %s\n", condition)
		}
	}
}

// writePlannedCell prints the tasks of a cell.
func (g *global) writePlannedCell(c *plannedCell) {
	cached := 0
	if c.Cached {
		cached = 1
	}
	g.writePlanned(c.Cell, &plannedCell{Label: c.Label, Privacy: c.Privacy}, 1, cached)
	if c.Cached {
		return
	}
	for _, line := range c.Training {
		g.printf("      training: %s\n", line)
	}
	if len(c.Training) == 0 {
		g.printf("      training: cached\n")
	}
	g.writeGroups(c.Nodes)
}

// writeGroups prints which tasks of a cell run, and why. It only counts them if all run for one
// reason.
func (g *global) writeGroups(groups []forecast.Group) {
	toRun, cached, unneeded := 0, 0, 0
	reasons := map[string]bool{}
	for _, group := range groups {
		toRun, cached, unneeded = toRun+group.ToRun, cached+group.Cached, unneeded+group.Unneeded
		reasons[strings.Join(group.Why, "; ")] = true
	}
	if cached+unneeded == 0 && len(reasons) == 1 {
		g.printf("      %s to run: %s\n", readable.Count(toRun, "other task"), strings.Join(groups[0].Why, "; "))
		return
	}
	for _, group := range groups {
		if group.ToRun > 0 {
			g.printf("      %-24s %d to run: %s\n", group.Kind, group.ToRun, strings.Join(group.Why, "; "))
		}
	}
	g.printf("      other tasks: %d cached, %d no longer needed\n", cached, unneeded)
}

// arithmetic returns a text such as "3.5 TFLOP to train and 81 GFLOP to measure"; it excludes the
// arithmetic of programs.
func arithmetic(c forecast.Cost) string {
	switch counted := c.TrainingFLOP+c.MeasuringFLOP > 0; {
	case c.Programs && !counted:
		return "programs do the arithmetic"
	case c.Programs:
		return fmt.Sprintf("%s to train and %s to measure, without the work of programs", flop(c.TrainingFLOP), flop(c.MeasuringFLOP))
	}
	return fmt.Sprintf("%s to train and %s to measure", flop(c.TrainingFLOP), flop(c.MeasuringFLOP))
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
