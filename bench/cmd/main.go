// Command cmd runs the benchmarks of the code from the source tree; see bench/README.md:
//
//	go run ./bench/cmd engine --only training
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"coalmine/internal/kernels"
	"coalmine/internal/memory"
	"coalmine/internal/tempfiles"
)

// allowedGarbage is the value of coalmine, whose memory the benchmarks measure.
const allowedGarbage = 32 << 20

func main() {
	memory.Allow(allowedGarbage)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(&output{stdout: stdout, stderr: stderr})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := kernels.Check()
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "bench: %v\n", err)
	return 2
}

func newRoot(o *output) *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure the code; bench/README.md explains the tables",
		Example:       "  go run ./bench/cmd engine --only training",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().BoolVar(&o.json, "json", false, "print the result as JSON")
	root.AddCommand(newEngine(o), newQueue(o), newSubmit(o), newAttacks(o), newClients(o), newCoverage(o), newPlan(o), newIdleWorker(o), newSlot())
	return root
}

// output holds the streams of a benchmark's output.
type output struct {
	stdout, stderr io.Writer
	json           bool
}

func (o *output) note(format string, args ...any) { fmt.Fprintf(o.stderr, format+"\n", args...) }

func (o *output) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(o.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// show prints a result, as a table or as JSON, unless the benchmark has failed.
func (o *output) show(result interface{ Print(io.Writer) }, err error) error {
	if err != nil {
		return err
	}
	if !o.json {
		result.Print(o.stdout)
		return nil
	}
	e := json.NewEncoder(o.stdout)
	e.SetIndent("", " ")
	return e.Encode(result)
}

func withProgram(ctx context.Context, given string, work func(program string) error) error {
	if given != "" {
		return work(given)
	}
	d, err := tempfiles.MakeDirectory("", "bench-")
	if err != nil {
		return err
	}
	defer d.Remove()
	program := filepath.Join(d.Path, "coalmine")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "coalmine/cmd/coalmine").CombinedOutput(); err != nil {
		return fmt.Errorf("building coalmine: %w\n%s\nrun this in the source tree, or name a build by --program", err, out)
	}
	return work(program)
}
