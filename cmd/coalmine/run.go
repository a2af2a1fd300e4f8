package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/dashboards"
	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/workflows/control"
	"coalmine/workflows/control/submission"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/datadir"
	"coalmine/workflows/runs/status"
)

// submitFlags holds the flags of commands that read an experiment file.
type submitFlags struct {
	sets     []string
	maxCells int
	fresh    bool
	priority int
	goesOn   string // run of --continue
	// submitted is the run that this command has submitted; "" before.
	submitted string
	submits   bool
	// makesHome is set for a command that creates a missing home.
	makesHome bool
	set       *pflag.FlagSet
	notify    notifier // for commands that follow the run
}

func (s *submitFlags) add(f *pflag.FlagSet, submits bool) {
	f.StringArrayVar(&s.sets, "set", nil, "override a field: --set training.cohort=100 (repeatable; null removes it)")
	f.IntVar(&s.maxCells, "max-cells", experiment.DefaultMaxCells, "maximum number of cells of a grid")
	s.submits, s.set = submits, f
	if submits {
		f.BoolVar(&s.fresh, "new", false, "start a new run even if an unfinished one has the same experiment")
		f.IntVar(&s.priority, "priority", 0, "priority of the run, also of an unfinished one that continues; runs of higher priority go first")
	}
}

// prepare reads and checks an experiment file and its data.
func (s *submitFlags) prepare(ctx context.Context, g *global, path string) (*submission.Submission, error) {
	path, data, err := g.readExperiment(path)
	if err != nil {
		return nil, err
	}
	return s.prepareText(ctx, g, path, data)
}

// prepareText checks the text of an experiment file, and its data.
func (s *submitFlags) prepareText(ctx context.Context, g *global, path string, data []byte) (*submission.Submission, error) {
	finder := g.finder(filepath.Dir(path))
	key := submissionKey{global: g, create: s.submits, makesHome: s.makesHome}
	sub, err := submission.PrepareFile(ctx, path, data, experiment.Options{Sets: s.sets, MaxCells: s.maxCells}, finder, key.fingerprint)
	if err == nil {
		err = key.write(ctx, sub.Spec, s.fresh)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range sub.Warnings {
		g.note("warning: %s", w)
	}
	return sub, nil
}

// givenPriority returns the priority on the command line, or nil.
func (s *submitFlags) givenPriority() *int {
	if !s.set.Changed("priority") {
		return nil
	}
	return &s.priority
}

// noteIdle warns about flags without effect because another process executes the tasks.
func (s *submitFlags) noteIdle(g *global, who string) {
	for _, name := range []string{"task-timeout", "class-limit", "memory", "commands-may-write"} {
		if s.set.Changed(name) {
			g.note("warning: --%s has no effect: %s works on the run, with its own flags", name, who)
		}
	}
}

// submit uploads the missing sources, and then submits.
//
// If this command has submitted before, to a process that has ended, submit returns the same run, which may
// be finished.
func (s *submitFlags) submit(ctx context.Context, api control.API, sub *submission.Submission) (submitted control.Submitted, err error) {
	switch {
	case s.submitted != "":
		found, err := api.Status(ctx, s.submitted)
		switch {
		case err != nil:
			return control.Submitted{}, err
		case found.Run != s.submitted: // Status found another run by a prefix of its id
			return control.Submitted{}, removedError(s.submitted)
		}
		return control.Submitted{Run: found.Run, Continued: true, Phase: found.Phase}, nil
	case s.goesOn != "":
		submitted, err = goOn(ctx, api, s.goesOn)
	default:
		if err := sub.Upload(ctx, api); err != nil {
			return control.Submitted{}, err
		}
		record := sub.Record()
		record.Priority = s.givenPriority()
		submitted, err = api.Submit(ctx, record, s.fresh)
	}
	if errors.Is(err, control.ErrKey) {
		err = fmt.Errorf("the secret key file contains another key: %w", err)
	}
	s.submitted = submitted.Run
	return submitted, err
}

const runHelp = `Run an experiment in this process and print its table of results.

Without --redis and --store the process contains its queue, and stores results in the
directory --home. The same command continues an interrupted run, and reprints a finished
one from the cache. If another process owns the home, the command submits the run to that
process and follows it; if that process exits first, the run continues here. After the
table, the process serves its page as long as a browser shows it.

A change of the file, the data or the code in training.code makes another run, which
reuses all results that the change does not affect. If an earlier run has the same name,
the command lists the fields and files of code that differ. --continue RUN continues an
unfinished run as it was submitted, without FILE.`

// checkRun returns an error unless run has either a file or --continue, which excludes the flags of
// a submission.
func (s *submitFlags) checkRun(c *cobra.Command, args []string) error {
	if s.goesOn != "" {
		if err := refuseFlags(c.Flags(), []string{"set", "new", "max-cells", "priority"}, "run: --continue resumes a run as submitted, but --%s applies to a submission; remove one of them"); err != nil {
			return err
		}
	}
	if (len(args) == 1) == (s.goesOn != "") {
		return errors.New("run: expected the FILE of an experiment, or --continue and an unfinished run; see coalmine run --help")
	}
	return nil
}

func newRunCommand(g *global) *cobra.Command {
	var flags submitFlags
	c := &cobra.Command{
		Use:     "run [FILE]",
		Short:   "Run an experiment and print its results",
		Long:    runHelp,
		Example: "  coalmine run examples/quickstart.yaml\n  coalmine run experiment.yaml --set training.rounds=2000",
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if err := flags.checkRun(c, args); err != nil {
				return err
			}
			if err := flags.notify.check(); err != nil {
				return err
			}
			if flags.goesOn != "" {
				return g.runSubmission(ctx, &flags, nil)
			}
			sub, err := flags.prepare(ctx, g, args[0])
			if err != nil {
				return err
			}
			g.warnOfReplays(ctx, sub)
			return g.runSubmission(ctx, &flags, sub)
		},
	}
	flags.add(c.Flags(), true)
	flags.makesHome = true
	c.Flags().StringVar(&flags.goesOn, "continue", "", "continue this unfinished run as submitted, instead of FILE")
	flags.notify.flag(c.Flags())
	g.coordinates(c.Flags())
	g.works(c.Flags())
	return c
}

func (g *global) runSubmission(ctx context.Context, flags *submitFlags, sub *submission.Submission) error {
	p, err := g.places.place()
	switch {
	case err != nil:
		return err
	case p.server != "":
		client, err := g.places.client(p)
		if err != nil {
			return err
		}
		flags.noteIdle(g, p.String())
		outcome, err := g.runElsewhere(ctx, flags, sub, client)
		return g.conclude(ctx, &flags.notify, outcome, err)
	case p.clustered():
		e, err := openClustered(ctx, g)
		if err != nil {
			return err
		}
		return g.runHere(ctx, flags, sub, e)
	}
	return g.runEmbedded(ctx, p.home, flags, sub)
}

// runEmbedded runs in the data directory, or submits to its owner while there is one.
func (g *global) runEmbedded(ctx context.Context, home string, flags *submitFlags, sub *submission.Submission) error {
	for {
		e, err := openEmbedded(ctx, home, g, listenFlags{address: anyPort})
		if err == nil {
			return g.runHere(ctx, flags, sub, e)
		}
		owned, ok := errors.AsType[*datadir.OwnedError](err)
		if !ok || owned.Address == "" {
			return err
		}
		g.note("%s is owned by process %d; submitting the run to it", home, owned.PID)
		flags.noteIdle(g, fmt.Sprintf("process %d", owned.PID))
		outcome, err := g.runBeside(ctx, flags, sub, owned)
		if err == nil || ctx.Err() != nil || !ends(ctx, owned, err) {
			return g.conclude(ctx, &flags.notify, outcome, err)
		}
		g.note("process %d has ended before the run; continuing here", owned.PID)
	}
}

const (
	// ownerEvery is the interval at which a run in another process checks whether the process still
	// owns the data directory.
	ownerEvery = time.Second
	// ownerPatience is the time that an owner which no longer answers may take to exit.
	ownerPatience = 10 * time.Second
)

// ends reports whether an error of a data directory's owner means that the owner is exiting.
func ends(ctx context.Context, owned *datadir.OwnedError, err error) bool {
	if _, answered := errors.AsType[*dashboards.Error](err); answered {
		return !owned.OwnerAlive()
	}
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	return awaitEnd(ctx, owned)
}

// awaitEnd waits until a process no longer owns its data directory. It returns false if ctx is done
// first.
func awaitEnd(ctx context.Context, owned *datadir.OwnedError) bool {
	ticker := time.NewTicker(ownerEvery)
	defer ticker.Stop()
	for owned.OwnerAlive() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// runBeside submits to the owner of a data directory. It follows the run until the run has finished
// or the owner no longer owns the directory.
func (g *global) runBeside(ctx context.Context, flags *submitFlags, sub *submission.Submission, owned *datadir.OwnedError) (*results.Results, error) {
	return whileOwned(ctx, owned, func(ctx context.Context) (*results.Results, error) {
		client, err := dashboards.NewClient(owned.Address, owned.Token)
		if err != nil {
			return nil, err
		}
		return g.runElsewhere(ctx, flags, sub, client)
	})
}

// whileOwned calls follow with a context that ends when owned no longer owns its data directory; nil owns none.
func whileOwned(ctx context.Context, owned *datadir.OwnedError, follow func(context.Context) (*results.Results, error)) (*results.Results, error) {
	if owned == nil {
		return follow(ctx)
	}
	ctx, stop := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	defer stop()
	looking.Go(func() {
		if awaitEnd(ctx, owned) {
			stop()
		}
	})
	return follow(ctx)
}

// runHere executes the run in this process until it has finished.
func (g *global) runHere(ctx context.Context, flags *submitFlags, sub *submission.Submission, e *engine) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- e.work(working) }()

	var outcome *results.Results
	submitted, err := flags.submit(ctx, e.control, sub)
	if err == nil {
		if _, watched := g.terminal(); watched && e.dir != nil {
			g.note("page: %s (logs one browser in; after the run: coalmine page)", e.page("/runs/"+submitted.Run))
		}
		g.noteOthers(ctx, e.control, submitted.Run)
		outcome, err = g.follow(working, e.control, submitted)
	}
	concluded := g.conclude(ctx, &flags.notify, outcome, err)
	if err == nil {
		e.keepPage(working)
	}
	stop()
	if workErr := <-worked; workErr != nil && ctx.Err() == nil {
		concluded = errors.Join(concluded, workErr)
	}
	return concluded
}

// noteOthers lists other unfinished runs in this process, because they slow the run down.
func (g *global) noteOthers(ctx context.Context, api control.API, run string) {
	all, err := api.List(ctx)
	if err != nil {
		return // a relevant error also affects the run itself
	}
	others := lists.Filter(all, func(s *status.Run) bool { return s.Run != run && (s.Phase == runs.Queued || s.Phase == runs.Running) })
	if len(others) > 0 {
		names := lists.Map(others, func(s *status.Run) string { return s.Run })
		g.note("other unfinished runs also continue: %s (to stop one: coalmine pause RUN, or cancel RUN)", strings.Join(names, ", "))
	}
}

// runElsewhere submits to a server and follows the run.
func (g *global) runElsewhere(ctx context.Context, flags *submitFlags, sub *submission.Submission, client *dashboards.Client) (*results.Results, error) {
	submitted, err := flags.submit(ctx, client, sub)
	if err != nil {
		return nil, err
	}
	return g.follow(ctx, client, submitted)
}

// follow shows the progress of a run until it has finished, and returns its results.
func (g *global) follow(ctx context.Context, api control.API, submitted control.Submitted) (*results.Results, error) {
	if submitted.Continued {
		g.note("continuing run %s%s", submitted.Run, priorityText(submitted))
	} else {
		g.note("run %s", submitted.Run)
	}
	g.noteEarlier(submitted)
	if submitted.Phase == runs.Paused {
		g.note("it is paused; to continue it: coalmine resume %s", submitted.Run)
	}
	statuses, err := api.Watch(ctx, submitted.Run)
	if err != nil {
		return nil, err
	}
	if err := g.showProgress(ctx, api, statuses); err != nil {
		return nil, err
	}
	return api.Results(ctx, submitted.Run)
}

// conclude prints the results, calls the web hook, and returns the results' exit code.
func (g *global) conclude(ctx context.Context, notify *notifier, r *results.Results, err error) error {
	if ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted; the same command goes on")}
	}
	if err != nil {
		return err
	}
	if err := g.writeOutcome(r); err != nil {
		return err
	}
	code := g.verdict(r)
	notify.send(ctx, g, r, code)
	if code == exitDone {
		return nil
	}
	return &exitError{code: code}
}

// writeOutcome writes the results as a table, or with --json as JSON.
func (g *global) writeOutcome(r *results.Results) error {
	if screen := g.screen(false); screen != nil {
		return r.WriteScreen(g.data, results.Cells, screen)
	}
	format := "table"
	if g.json {
		format = "json"
	}
	return r.Write(g.data, format)
}

// verdict returns the exit code of the results. With --json it notes each failed limit; otherwise one
// line refers to the notes of the table.
func (g *global) verdict(r *results.Results) int {
	code, failed := exitDone, 0
	for _, c := range r.Cells {
		if len(c.Breaches) > 0 {
			code, failed = exitGate, failed+1
		}
		for _, b := range c.Breaches {
			if g.json {
				g.note("gate: %s (%s) failed: %s", c.Cell, c.Label, b)
			}
		}
	}
	if failed > 0 && !g.json {
		g.note("gate: failed in %d of %s; the notes of the table name the limits", failed, readable.Count(len(r.Cells), "cell"))
	}
	for _, f := range r.FalseAlarms {
		g.note("%s", f)
	}
	for _, c := range r.Cells {
		if c.Status != results.Done {
			code = exitCellFailed
		}
	}
	return code
}

func newSubmitCommand(g *global) *cobra.Command {
	var flags submitFlags
	var onServer bool
	c := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit an experiment to a cluster, or to the process that owns a home",
		Long: `Check an experiment and its data, upload the data, and record the run. The coordinator
and the workers of the store execute it; "coalmine watch" follows it.

With --on-server the command sends only the file. The server checks it and reads the data:
uploaded data with the digest data.sha256, or sources that serve --allow-source permits.`,
		Example: "  coalmine submit experiment.yaml --redis redis://localhost:6379 --store 's3://coalmine/runs?endpoint=http://localhost:7070'",
		RunE: func(c *cobra.Command, args []string) error {
			if onServer {
				if c.Flags().Changed("max-cells") {
					return errors.New("--max-cells with --on-server: the server applies its own limit; remove one of them")
				}
				return g.submitFile(c.Context(), &flags, args[0])
			}
			sub, err := flags.prepare(c.Context(), g, args[0])
			if err != nil {
				return err
			}
			return g.withControl(c.Context(), func(api control.API) error {
				submitted, err := flags.submit(c.Context(), api, sub)
				if err != nil {
					return err
				}
				return g.printSubmitted(submitted)
			})
		},
	}
	flags.add(c.Flags(), true)
	c.Flags().BoolVar(&onServer, "on-server", false, "have the server check the experiment and read its data")
	return c
}

// submitFile submits an experiment file; the receiver checks it.
func (g *global) submitFile(ctx context.Context, flags *submitFlags, path string) error {
	path, text, err := g.readExperiment(path)
	if err != nil {
		return err
	}
	file := control.File{Name: path, Text: text, Sets: flags.sets, Priority: flags.givenPriority()}
	return g.withControl(ctx, func(api control.API) error {
		submitted, err := api.SubmitFile(ctx, file, flags.fresh)
		if err != nil {
			return err
		}
		return g.printSubmitted(submitted)
	})
}

func (g *global) printSubmitted(s control.Submitted) error {
	if g.json {
		return g.printJSON(s)
	}
	g.printf("%s\n", s.Run)
	if s.Continued {
		g.note("an unfinished run has the same experiment; it continues%s (--new starts another)", priorityText(s))
	}
	g.noteEarlier(s)
	if s.Phase == runs.Paused {
		g.note("it is paused; to continue it: coalmine resume %s", s.Run)
		return nil
	}
	if g.ownsHome {
		g.note("the run waits, because no process owns this home; to start it: coalmine run --continue %s, or coalmine serve", s.Run)
		return nil
	}
	g.note("workers will run it; follow it with: coalmine watch %s", s.Run)
	return nil
}

// goOn returns an unfinished run to continue.
func goOn(ctx context.Context, api control.API, name string) (control.Submitted, error) {
	s, err := api.Status(ctx, name)
	switch {
	case err != nil:
		return control.Submitted{}, err
	case s.Phase == runs.Failed:
		return control.Submitted{}, fmt.Errorf("--continue: run %s has failed; to retry its failed nodes: coalmine retry %s", s.Run, s.Run)
	case s.Phase == runs.Cancelled:
		return control.Submitted{}, fmt.Errorf("--continue: run %s is cancelled; resume it first (coalmine resume %s)", s.Run, s.Run)
	case s.Phase.Finished():
		return control.Submitted{}, fmt.Errorf("--continue: run %s is %s; expected an unfinished run (for its outcome: coalmine results %s)", s.Run, s.Phase, s.Run)
	}
	return control.Submitted{Run: s.Run, Continued: true, Phase: s.Phase}, nil
}

// maxChanges is the maximum number of differences in a note.
const maxChanges = 8

// noteEarlier notes the fields in which a new run differs from the previous run of its name.
func (g *global) noteEarlier(s control.Submitted) {
	e := s.Earlier
	if e == nil || len(e.Changes) == 0 {
		return
	}
	changes := lists.Map(e.Changes[:min(len(e.Changes), maxChanges)], control.Change.String)
	if more := len(e.Changes) - maxChanges; more > 0 {
		changes = append(changes, fmt.Sprintf("and %d more (coalmine compare %s %s)", more, e.Run, s.Run))
	}
	g.note("it differs from %s (%s) in %s", e.Run, e.Phase, strings.Join(changes, "; "))
	if !e.Phase.Finished() {
		g.note("%s is not finished; to continue it instead: coalmine cancel %s; coalmine run --continue %s", e.Run, s.Run, e.Run)
	}
}

// priorityText returns a text such as " with priority 5" if the run takes the priority of this
// submission, or "".
func priorityText(s control.Submitted) string {
	if s.Priority == nil {
		return ""
	}
	return fmt.Sprintf(" with priority %d", *s.Priority)
}

// withControl opens the runs, calls do, and closes them.
func (g *global) withControl(ctx context.Context, do func(control.API) error) error {
	api, done, err := g.control(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(api), done())
}

// onRuns returns the function of a command that opens the runs, calls do, and closes them.
func (g *global) onRuns(do func(ctx context.Context, api control.API, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		return g.withControl(c.Context(), func(api control.API) error { return do(c.Context(), api, args) })
	}
}

// runArgument returns the run argument of a command; "" means the newest run.
func runArgument(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
