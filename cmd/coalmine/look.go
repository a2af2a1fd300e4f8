package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/chart"
	"coalmine/internal/goroutines"
	"coalmine/internal/lists"
	"coalmine/internal/queue"
	"coalmine/internal/readable"
	"coalmine/internal/tempfiles"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/results/trackers"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/datadir"
	"coalmine/workflows/runs/status"
)

const statusHelp = `List runs, the newest first, or show one in detail: its cells, waiting and failed tasks,
and the workers. RUN is the id of a run; a prefix of ids, which selects the newest; or
latest, the default of commands with [RUN]. "coalmine watch" follows a run, "coalmine
show" prints its experiment.`

func newStatusCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "status [RUN]",

		SuggestFor: []string{"ls", "list", "runs", "ps"},

		Short:   "List runs, or show one in detail",
		Long:    statusHelp,
		Example: "  coalmine status\n  coalmine status latest --json | jq '.runs[0].cells[] | {cell, state}'",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			if len(args) == 0 {
				list, err := api.List(ctx)
				if err != nil {
					return err
				}
				return g.show(statusList{list}, func() error { return writeList(g.stdout, list) })
			}
			one, err := api.Status(ctx, args[0])
			if err != nil {
				return err
			}
			return g.show(statusList{[]*status.Run{one}}, func() error { writeStatus(g.stdout, one); return nil })
		}),
	}
}

// statusList is the output of status --json.
type statusList struct {
	Runs []*status.Run `json:"runs"`
}

func writeList(w io.Writer, list []*status.Run) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no runs yet; start one with: coalmine run FILE")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tSTATE\tCELLS\tSUBMITTED\tTIME LEFT\tWAITS FOR")
	whole := "" // reason of the newest run whose reason is cut
	for _, s := range list {
		waits := waitsFor(s)
		brief, _, cut := strings.Cut(waits, "; ")
		if cut && whole == "" {
			whole = fmt.Sprintf("%s waits: %s\n", s.Run, waits)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Run, stateText(s), cellCounts(s), submittedText(s), timeLeft(s), brief)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, whole)
	for _, s := range list {
		if s.Error != "" {
			fmt.Fprintf(w, "%s: %s\n", s.Run, readable.Lines(s.Error))
		}
	}
	return nil
}

// submittedText returns the time when a run was submitted, if known.
func submittedText(s *status.Run) string {
	if s.Submitted.IsZero() {
		return "-"
	}
	return s.Submitted.Local().Format(time.DateTime)
}

// stateText returns a state such as "running", "running, stuck", "interrupted", "done, gate
// failed", or "unreadable".
func stateText(s *status.Run) string {
	if s.Unreadable {
		return "unreadable"
	}
	if s.Gate == results.GateFailed {
		return fmt.Sprintf("%s, gate %s", s.Phase, s.Gate)
	}
	if len(s.Waits) > 0 && s.Waits[0].Reason == status.WaitCoordinator {
		if s.Phase == runs.Queued {
			return string(runs.Queued)
		}
		return "interrupted"
	}
	if s.Health == status.Stuck || s.Health == status.Slow {
		return fmt.Sprintf("%s, %s", s.Phase, s.Health)
	}
	return string(s.Phase)
}

// waitsFor returns the most serious reason that a run waits, and the number of others.
func waitsFor(s *status.Run) string {
	if len(s.Waits) == 0 || s.Health == status.Paused {
		return "-"
	}
	text := readable.Text(readable.Brief(s.Waits[0].Detail))
	if more := len(s.Waits) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// waitText returns a reason for waiting, with its time and extent.
func waitText(w status.Wait) string {
	text := readable.Text(w.Detail)
	if !w.Since.IsZero() {
		text += fmt.Sprintf(" (since %s", w.Since.Local().Format(time.DateTime))
		if w.Tasks > 1 {
			text += fmt.Sprintf(", %d tasks", w.Tasks)
		}
		text += ")"
	}
	return text
}

// cellCounts returns "2/4", or "2/4, 1 failed", or "-" if the cells are unknown.
func cellCounts(s *status.Run) string {
	if s.Unreadable {
		return "-"
	}
	in := func(phase runs.Phase) int {
		return lists.Count(s.Cells, func(c status.Cell) bool { return c.Phase == phase })
	}
	text := fmt.Sprintf("%d/%d", in(runs.Done), len(s.Cells))
	if failed := in(runs.Failed); failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}

func timeLeft(s *status.Run) string {
	if s.SecondsLeft == nil || s.Phase.Finished() {
		return "-"
	}
	if *s.SecondsLeft < 1 {
		return "under 1s"
	}
	return "about " + (time.Duration(*s.SecondsLeft) * time.Second).String()
}

func writeStatus(w io.Writer, s *status.Run) {
	fmt.Fprintf(w, "%s: %s, %s cells", s.Run, stateText(s), cellCounts(s))
	if rate := s.Rate(); rate != "" {
		fmt.Fprintf(w, ", %s", rate)
	}
	if left := timeLeft(s); left != "-" {
		fmt.Fprintf(w, ", %s left", left)
	}
	fmt.Fprintln(w)
	if s.Error != "" {
		fmt.Fprintf(w, "failed: %s\n", readable.Lines(s.Error))
	}
	if s.Note != "" {
		fmt.Fprintf(w, "note: %s\n", strings.ReplaceAll(readable.Lines(s.Note), "\n", "\n    "))
	}
	if len(s.Tags) > 0 {
		fmt.Fprintf(w, "tags: %s\n", strings.Join(s.Tags, " "))
	}
	for _, c := range s.Cells {
		fmt.Fprintf(w, "  %s  %-8s %s%s\n", c.Cell, c.Phase, c.Label, cellProgress(c))
		for _, b := range c.Breaches {
			fmt.Fprintf(w, "      gate failed: %s\n", readable.Text(b))
		}
	}
	for _, wait := range s.Waits {
		fmt.Fprintf(w, "waiting: %s\n", waitText(wait))
	}
	if s.FromStorage {
		fmt.Fprintf(w, "%s\n", storageAge(s))
	} else if !s.LastProgress.IsZero() && !s.Phase.Finished() {
		fmt.Fprintf(w, "last output committed at %s\n", s.LastProgress.Local().Format(time.DateTime))
	}
	for _, f := range s.Failures {
		fmt.Fprintf(w, "failed: %s (cells %s, %s): %s\n  node %s\n", readable.Text(f.Label), strings.Join(f.Cells, ", "), readable.Count(f.Attempts, "attempt"), readable.Lines(f.Error), f.Key.Short())
	}
	for _, r := range s.Workers {
		fmt.Fprintf(w, "worker %s: %d of %d slots busy", readable.Text(r.ID), r.Running, r.Slots)
		if r.MemoryBytes > 0 {
			fmt.Fprintf(w, ", %s of memory", bytesText(float64(r.MemoryBytes)))
		}
		if r.MemoryLimitBytes > 0 {
			fmt.Fprintf(w, " (limit %s)", bytesText(float64(r.MemoryLimitBytes)))
		}
		for _, d := range r.Devices {
			fmt.Fprintf(w, ", %s", deviceText(d))
		}
		if r.Draining {
			fmt.Fprint(w, ", draining")
		}
		if r.CannotHelp != "" {
			fmt.Fprintf(w, ", coalmine %s, cannot help: %s", cmp.Or(r.Build, "of an unknown version"), r.CannotHelp)
		}
		fmt.Fprintln(w)
	}
}

// deviceText returns a text such as "NVIDIA H100 80GB HBM3 (79.6 GiB, driver 535.104.05)".
func deviceText(d queue.Device) string {
	var facts []string
	if d.MemoryBytes > 0 {
		facts = append(facts, bytesText(float64(d.MemoryBytes)))
	}
	if d.Driver != "" {
		facts = append(facts, "driver "+d.Driver)
	}
	text := readable.Text(cmp.Or(d.Name, "GPU "+d.ID))
	if len(facts) > 0 {
		text += " (" + readable.Text(strings.Join(facts, ", ")) + ")"
	}
	return text
}

func storageAge(s *status.Run) string {
	if s.LastProgress.IsZero() {
		return "read from storage, which has no outputs yet"
	}
	age := max(0, time.Since(s.LastProgress)).Round(time.Second)
	return fmt.Sprintf("read from storage, as of %s: %v ago", s.LastProgress.Local().Format(time.DateTime), age)
}

// cellProgress returns a text such as ", round 400 of 8000: random sampling 3 of 9". The record of
// an aborted cell does not contain its progress.
func cellProgress(c status.Cell) string {
	var text string
	untold := c.Step == 0 && c.Phase.Finished()
	if c.Steps > 0 && c.Phase != runs.Done && !untold {
		text = fmt.Sprintf(", %s %d of %d", c.Unit, c.Step, c.Steps)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Metrics)) {
		text += fmt.Sprintf(", %s %.4g", readable.Text(strings.TrimPrefix(name, "metrics.")), c.Metrics[name])
	}
	if c.Now != "" {
		text += ": " + readable.Text(c.Now)
	}
	return text
}

func newWatchCommand(g *global) *cobra.Command {
	var notify notifier
	c := &cobra.Command{
		Use:     "watch [RUN]",
		Short:   "Follow a run until it has finished, then print its results",
		Example: "  coalmine watch quickstart",
		RunE: func(c *cobra.Command, args []string) error {
			if err := notify.check(); err != nil {
				return err
			}
			return g.watch(c.Context(), runArgument(args), &notify)
		},
	}
	notify.flag(c.Flags())
	return c
}

// idlePause is the interval at which watch checks a home without an owner.
const idlePause = time.Second

// watch follows a run and prints its results. While no other process owns the home of an unfinished run, watch
// releases it between checks, so that another command can continue or cancel the run.
func (g *global) watch(ctx context.Context, run string, notify *notifier) error {
	for told := false; ; {
		idle, err := g.watchOwner(ctx, &run, notify)
		_, taken := errors.AsType[*datadir.OwnedError](err)
		switch {
		case errors.Is(err, errOwnerEnded):
			g.note("process %d, which worked for the home, has ended", g.owner.PID)
			told = false
		case idle == "" && !(told && taken): // a command may own the home for some seconds
			return err
		case !told:
			g.note("%s", idle)
			told = true
		}
		if goroutines.Sleep(ctx, idlePause) != nil {
			return g.conclude(ctx, notify, nil, nil)
		}
	}
}

var errOwnerEnded = errors.New("the owner of the home has ended")

// watchOwner follows a run and prints its results. It returns errOwnerEnded if the process that owns the home
// ends first. If there is no such process, and the run is unfinished, it returns the run's state at once.
func (g *global) watchOwner(ctx context.Context, run *string, notify *notifier) (idle string, err error) {
	return idle, g.withControl(ctx, func(api control.API) error {
		var outcome *results.Results
		s, err := api.Status(ctx, *run)
		if err == nil {
			*run = s.Run
			if g.ownsHome && !s.Phase.Finished() {
				idle = standing(s)
				return nil
			}
			outcome, err = whileOwned(ctx, g.owner, func(ctx context.Context) (*results.Results, error) {
				return g.follow(ctx, api, control.Submitted{Run: s.Run})
			})
		}
		if err != nil && g.owner != nil && ctx.Err() == nil && ends(ctx, g.owner, err) {
			return errOwnerEnded
		}
		return g.conclude(ctx, notify, outcome, err)
	})
}

const logsHelp = `Print the newest 200 events of a run (default the latest), in order, and the logs of
failed attempts of at most 100 nodes since their last retry. With NODE, a name printed by
"coalmine status RUN" or a prefix of a key, print only the logs of that node, including
logs before a retry and the last output of a successful training.`

func newLogsCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "logs [RUN [NODE]]",
		Short:   "Print the events of a run and the logs of failed attempts",
		Long:    logsHelp,
		Example: "  coalmine logs\n  coalmine logs quickstart\n  coalmine logs quickstart 3fa2c1",
		RunE: g.onRuns(func(ctx context.Context, api control.API, args []string) error {
			logs, err := lookUpLogs(ctx, api, args)
			if err != nil {
				return err
			}
			return g.show(logs, func() error { g.writeLogs(logs); return nil })
		}),
	}
}

// runLogs is the output of logs --json. It omits History for a single node.
type runLogs struct {
	Logs    []control.AttemptLog `json:"logs"`
	History *control.History     `json:"history,omitempty"`
}

// lookUpLogs finds the logs of a run and, if args name one, of a node.
func lookUpLogs(ctx context.Context, api control.API, args []string) (runLogs, error) {
	if len(args) == 2 {
		logs, err := api.Logs(ctx, args[0], args[1])
		return runLogs{Logs: logs}, err
	}
	history, err := api.History(ctx, runArgument(args))
	if err != nil {
		return runLogs{}, err
	}
	logs, err := api.Logs(ctx, history.Run, "")
	return runLogs{logs, history}, err
}

func (g *global) writeLogs(logs runLogs) {
	if h := logs.History; h != nil {
		if h.Dropped > 0 {
			g.printf("(%d older events are not kept)\n", h.Dropped)
		}
		for _, e := range h.Events {
			g.printf("%s  %s\n", e.Time.Local().Format(time.DateTime), readable.Lines(e.Text))
		}
	}
	for _, l := range logs.Logs {
		g.printf("== %s, node %s, attempt %s\n  %s\n", readable.Text(l.Label), l.Node.Short(), readable.Text(l.Attempt), readable.Lines(l.Text))
	}
	switch {
	case len(logs.Logs) > 0:
	case logs.History == nil:
		g.note("no attempt of a node with that label or key has failed in this run (coalmine show RUN CELL --nodes lists nodes)")
	default:
		g.note("no attempt has failed since the last retry; for older logs: coalmine logs RUN NODE")
	}
}

func newResultsCommand(g *global) *cobra.Command {
	var format, rows, output, width, figure string
	var columns []string
	var notes bool
	c := &cobra.Command{
		Use:   "results [RUN]",
		Short: "Print the results of a run",
		Long: `Print the results of a run, complete or not. The first columns of the table are those of
Table 1 of Thakkar et al. 2020; other columns appear if a cell has them. A cell in training
shows its last measurement with the round.

coalmine explain results explains all columns, coalmine explain 'RS memorized' one of them.

--rows rounds writes the metrics of every round as a table, json, csv or parquet: its loss,
its clients, the quantiles of their norms before and after clipping, the clip norm and the
privacy cost of the rounds so far.

With grid.replicates, cells that differ only in the seed are one row of the table: mean ±
standard deviation and, in brackets, the 95% interval. Differences between rows over paired
seeds follow. --rows means and --rows differences write both, one number per line, and for
rows with training.stop_at the numbers of rounds after which they ended.

A table leaves out columns that are empty in all rows, and prints shares in percent.
csv and parquet have all columns, and shares from 0 to 1.

svg, pdf and png draw figures for a paper, at the width of one or two columns. Figures
of all cells come first, then those of each cell. -o figures.pdf writes one PDF with
a page for each: \includegraphics[page=2]{figures.pdf}.

latex is a booktabs table. With replicates it has only means ± standard deviations;
--columns chooses columns that fit the page.

On a terminal a table fits the width (COLUMNS, or the terminal's own): columns without room
move below the others, columns with equal values in all rows become a line, and notes that
report no failure and explain no mark appear only with --notes. In a file or a pipe a table
has its full width and all notes. NO_COLOR turns colors off.

Formats:
` + formatsHelp(),
		Example: "  coalmine results quickstart --format pdf --width two-columns -o figures\n  coalmine results quickstart --format pdf --figure exposure -o exposure.pdf\n  coalmine results quickstart --format html -o report.html\n  coalmine results quickstart --json | jq '.cells[].audit.random_sampling'\n" +
			"  coalmine results quickstart --format tensorboard -o logs && tensorboard --logdir logs",
		RunE: func(c *cobra.Command, args []string) error {
			return g.writeResults(c, runArgument(args), format, rows, output, figureFlags{format, width, figure}, columns, notes)
		},
	}
	c.Flags().StringVar(&format, "format", results.FormatNames()[0], resultFormats())
	c.Flags().StringVar(&rows, "rows", string(results.Cells), "rows of table, csv and parquet (also: --table): cells; canaries with the results of all audits; attacks on updates; attacked-users, if attacks list them; membership attacks; means or differences of replicates; numbers of the JSON with their paths; or rounds")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "table" {
			name = "rows"
		}
		return pflag.NormalizedName(name)
	})
	c.Flags().BoolVar(&notes, "notes", false, "show all notes below a table on a terminal")
	c.Flags().StringVarP(&output, "output", "o", "", "file to write, or folder of svg, pdf, png, mlflow and tensorboard; default standard output")
	c.Flags().StringVar(&width, "width", string(chart.OneColumn), "width of svg, pdf and png in a paper: one-column (85 mm) or two-columns (178 mm)")
	c.Flags().StringSliceVar(&columns, "columns", nil, "columns of table, latex and html, by their headers, separated by commas: 'RS memorized,accuracy %'")
	c.Flags().StringVar(&figure, "figure", "", "svg, pdf and png: only figures with this text in their file names")
	return c
}

// writeResults writes the results of a run in a format: to a file, a folder or standard output.
func (g *global) writeResults(c *cobra.Command, run, format, rows, output string, flags figureFlags, columns []string, notes bool) error {
	ctx := c.Context()
	if f, ok := trackers.Named(format); ok {
		if rows != string(results.Cells) {
			return fmt.Errorf("--rows %s: format %s contains cells and rounds; remove --rows", rows, format)
		}
		return g.track(ctx, run, f, output)
	}
	if slices.Contains(chart.Formats, format) {
		if rows != string(results.Cells) {
			return fmt.Errorf("--rows %s: format %s draws figures; remove --rows", rows, format)
		}
		return g.drawFigures(ctx, run, flags, output)
	}
	if g.json && c.Flags().Changed("format") && format != "json" {
		return fmt.Errorf("--format %s with --json: expected one of them (--json is the same as --format json)", format)
	}
	if g.json {
		format = "json"
	}
	f, err := results.FormatNamed(format)
	if err != nil {
		return fmt.Errorf("--format %.40q: expected one of %s", format, resultFormats())
	}
	if err := f.Has(results.Rows(rows)); err != nil {
		return fmt.Errorf("--rows: %w", err)
	}
	return g.withControl(ctx, func(api control.API) error {
		var screen *results.Terminal
		if output == "" && f.Name == "table" {
			screen = g.screen(notes)
		}
		write, err := resultsOf(ctx, api, run, f, results.Rows(rows), columns, screen)
		if err != nil {
			return err
		}
		if err := g.writeFile(output, write); err != nil || output != "" || f.Name != "table" {
			return err
		}
		g.noteUnfinished(ctx, api, run)
		return nil
	})
}

// noteUnfinished prints the state of an unfinished run, because its table has pending cells.
func (g *global) noteUnfinished(ctx context.Context, api control.API, run string) {
	s, err := api.Status(ctx, run)
	if err != nil || s.Phase.Finished() {
		return // the table is complete
	}
	g.note("%s", standing(s))
}

// standing returns a run's state and the most serious reason that it waits.
func standing(s *status.Run) string {
	text := fmt.Sprintf("%s is %s", s.Run, stateText(s))
	if waits := waitsFor(s); waits != "-" {
		text += ": " + waits
	}
	return text
}

// resultsOf gets the results of a run, and returns a function that writes them, fitted to screen unless it is
// nil.
func resultsOf(ctx context.Context, api control.API, run string, f results.Format, rows results.Rows, columns []string, screen *results.Terminal) (func(io.Writer) error, error) {
	if rows == results.RoundRows {
		r, err := api.Rounds(ctx, run)
		if screen != nil {
			return func(w io.Writer) error { return r.WriteScreen(w, screen) }, err
		}
		return func(w io.Writer) error { return r.Write(w, f.Name) }, err
	}
	r, err := control.ResultsFor(ctx, api, run, f)
	if err != nil {
		return nil, err
	}
	if err := r.Choose(columns); err != nil {
		return nil, fmt.Errorf("--columns: %w", err)
	}
	if screen != nil {
		return func(w io.Writer) error { return r.WriteScreen(w, rows, screen) }, nil
	}
	return func(w io.Writer) error { return r.WriteRows(w, f.Name, rows) }, nil
}

// formatsHelp lists the formats of results, one per line.
func formatsHelp() string {
	var lines []string
	for _, f := range results.Formats() {
		lines = append(lines, fmt.Sprintf("  %-13s %s", f.Name, f.Description))
	}
	lines = append(lines, fmt.Sprintf("  %-13s %s", strings.Join(chart.Formats, ", "), "the figures of html: separate files in the folder -o, or one file"))
	for _, f := range trackers.Formats() {
		lines = append(lines, fmt.Sprintf("  %-13s %s", f.Name, f.Description))
	}
	return strings.Join(lines, "\n")
}

// writeFile replaces a file, or writes to standard output if none is named.
func (g *global) writeFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(g.data)
	}
	return tempfiles.Replace(path, write)
}
