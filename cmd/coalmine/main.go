// Command coalmine measures how much federated and central training make a model
// memorize. See the README for an introduction, and `coalmine help` for its commands.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"coalmine/clients/python"
	"coalmine/dashboards"
	"coalmine/internal/childprocess"
	"coalmine/internal/goroutines"
	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/readable"
	"coalmine/internal/secrets"
	"coalmine/internal/tempfiles"
	"coalmine/workers/clients"
	"coalmine/workflows/control"
)

// Exit codes.
const (
	exitDone        = 0
	exitCellFailed  = 1
	exitUsage       = 2
	exitInterrupted = 3
	exitGate        = 4
)

// exitError carries an exit code other than the one for usage errors.
type exitError struct {
	code int
	err  error // nil: no message left to print
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// allowedGarbage is the minimum garbage that a process may accumulate, however small its live heap,
// in bytes.
const allowedGarbage = 32 << 20

func main() {
	memory.Allow(allowedGarbage)
	tempfiles.Clean(os.TempDir())
	clients.Clean()
	ctx, stop := interruptible(context.Background())
	code := executeAlone(ctx)
	stop()
	os.Exit(code)
}

// executeAlone executes the command line of this process; its programs find the Python package coalmine.
func executeAlone(ctx context.Context) int {
	defer childprocess.OfferPython(python.Package)()
	return execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// interruptible returns a context that SIGINT, SIGTERM or SIGHUP ends; a second SIGINT or SIGTERM
// ends the process at once. A SIGHUP that is ignored at the start, as under nohup, stays ignored.
func interruptible(parent context.Context) (context.Context, func()) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
		// A closing terminal can send several signals: later ones must not end the process before
		// it has released its work.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, signals...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if err := kernels.Check(); err != nil {
		fmt.Fprintf(stderr, "coalmine: %v\n", err)
		return exitUsage
	}
	out := &output{Writer: stdout}
	root := newRoot(out, stderr)
	root.SetArgs(args)
	err := goroutines.Recover(func() error { return root.ExecuteContext(ctx) })
	if err == nil {
		err = out.lost()
	}
	if err == nil {
		return exitDone
	}
	code := exitUsage
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
		if err = exit.err; err == nil {
			return code
		}
	} else if ctx.Err() != nil {
		code, err = exitInterrupted, interrupted(ctx, err)
	}
	if p, ok := errors.AsType[*goroutines.Panic](err); ok {
		fmt.Fprintf(stderr, "%s\n", p.Stack)
	}
	if slices.Contains(args, "--json") {
		writeFailure(stderr, code, err)
	} else {
		fmt.Fprintf(readable.Writer(stderr), "coalmine: %s\n", secrets.RedactPasswords(err.Error()))
	}
	return code
}

// output is a command's standard output. It keeps the first error of a write, so that a command that
// ignores errors of writes still fails.
type output struct {
	io.Writer

	mu  sync.Mutex
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		o.err = cmp.Or(o.err, err)
		o.mu.Unlock()
	}
	return n, err
}

// lost returns the error of the first write that failed.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	return fmt.Errorf("the output is incomplete: %w", o.err)
}

// interrupted returns the error of a command after a signal. It replaces an error that only reports
// the end of its context.
func interrupted(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
		return errors.New("interrupted")
	}
	return err
}

// failure is the last line on standard error of a failed command with --json.
type failure struct {
	Error string `json:"error"`
	// Kind is the kind of API error; "" if err has none.
	Kind string `json:"kind,omitempty"`
	Exit int    `json:"exit_status"`
}

func writeFailure(stderr io.Writer, code int, err error) {
	line, _ := json.Marshal(failure{secrets.RedactPasswords(err.Error()), dashboards.ErrorKind(err), code}) // strings and a number always encode
	fmt.Fprintf(readable.JSON(stderr), "%s\n", line)
}

const rootHelp = `Coalmine measures what federated and central training make a model memorize.

An experiment is a YAML file, usually with a grid of settings. "coalmine run FILE"
runs it in one process and prints a table of results; after an interruption the same
command continues. For a cluster, start "coalmine serve" and any number of
"coalmine worker" on one Redis and one store, then "coalmine submit FILE".

A command uses the home .coalmine, another home (--home), a cluster (--redis,
--store) or a server (--server). A flag overrides the variables COALMINE_SERVER,
COALMINE_REDIS_URL and COALMINE_STORE_URL. Flags that name two places are an
error, as are variables if no flag names a place.

Exit status: 0 done; 1 a cell failed or was cancelled; 2 usage, or an invalid experiment
file; 3 interrupted, the same command goes on; 4 a gate (audit.fail_if) failed.`

// addMan adds the command that writes man pages, in builds that include it: see man.go.
var addMan = func(*cobra.Command) {}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:   "coalmine",
		Short: "Measure what training makes a model memorize",
		Long:  rootHelp,
		Example: "  coalmine demo                     # four models and what they memorize, in a minute\n" +
			"  coalmine init --data posts.csv    # an experiment file for your own texts\n" +
			"  coalmine run experiment.yaml      # runs it and prints a table of results",
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 1, // any two commands of two letters are within 2
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	g := &global{stdout: readable.Writer(stdout), data: stdout, stderr: stderr}
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		c.SetContext(control.WithChoiceReporter(c.Context(), g.choiceNoter()))
		g.warnOfPassword(c.Flags())
		g.noteSecrets()
		g.storeSuffices = c.GroupID == groupLook || c.GroupID == groupSteer
		g.storeMustExist = g.storeSuffices || c.Name() == "gc" || c.Name() == "verify"
		if stderr == os.Stderr {
			// Drivers without their own logger write to the default one.
			slog.SetDefault(g.logger())
		}
	}
	g.flags(root.PersistentFlags())
	// This replaces cobra's Version, which needs text/template for another text: see
	// scripts/check-linked.sh.
	showVersion := root.Flags().BoolP("version", "v", false, "version for coalmine")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *showVersion {
			g.printf("coalmine %s\n", version())
			return nil
		}
		return c.Help()
	}
	addCommands(root, g)
	root.SetHelpCommandGroupID(groupProgram)
	root.SetCompletionCommandGroupID(groupProgram)
	nameShells(root)
	addMan(root)
	explainArguments(root)
	g.completeArguments(root)
	root.SetFlagErrorFunc(explainFlag)
	root.SetUsageFunc(writeUsage)
	return root
}

// IDs of the groups of commands that code compares.
const (
	groupLook    = "look"
	groupSteer   = "steer"
	groupProgram = "program"
)

// addCommands adds all commands, by groups of the help.
func addCommands(root *cobra.Command, g *global) {
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"run", "Run experiments:", []*cobra.Command{
			newDemoCommand(g), newInitCommand(g), newRunCommand(g), newPlanCommand(g), newSubmitCommand(g), newWorkerCommand(g), newServeCommand(g),
		}},
		{groupLook, "Look:", []*cobra.Command{
			newStatusCommand(g), newWatchCommand(g), newLogsCommand(g), newResultsCommand(g), newCompareCommand(g), newShowCommand(g), newSampleCommand(g),
		}},
		{groupSteer, "Steer:", newSteerCommands(g)},
		{"data", "Data and store:", []*cobra.Command{newDataCommand(g), newExportCommand(g), newCollectCommand(g), newVerifyCommand(g)}},
		{"audit", "Audits and privacy:", []*cobra.Command{
			newAuditCommand(g), newContractCommand(g), newCanariesCommand(g), newPowerCommand(g), newAccountCommand(g),
		}},
		{groupProgram, "Program:", []*cobra.Command{
			newBenchCommand(g), newSchemaCommand(g), newExplainCommand(g), newHealthCommand(g), newVersionCommand(g),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.id
		}
		root.AddCommand(group.commands...)
	}
}
