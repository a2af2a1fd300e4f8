// This file compares how long coalmine plan says that experiments take with how long they take.

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"
)

// ForecastRow is one experiment. On a machine that also does other work seconds of a processor compare, and
// those of the clock do not.
type ForecastRow struct {
	File string `json:"file"`
	// Settings are the fields that take the place of the file's, as --set has them.
	Settings []string `json:"settings,omitempty"`
	// Predicted and Real are the seconds from the submission to the end.
	Predicted float64 `json:"predicted_seconds"`
	Real      float64 `json:"real_seconds"`
	// PredictedCPU and RealCPU are the seconds of all cores together, those of the experiment's programs included.
	PredictedCPU float64 `json:"predicted_cpu_seconds"`
	RealCPU      float64 `json:"real_cpu_seconds"`
}

// Factor is how many times too low or too high the predicted seconds of a processor are, at least 1.
func (r *ForecastRow) Factor() float64 {
	ratio := r.PredictedCPU / r.RealCPU
	return math.Max(ratio, 1/ratio)
}

// RunForecast plans and runs an experiment file with settings by a program, in a directory of its own.
func RunForecast(ctx context.Context, program, file string, settings []string) (*ForecastRow, error) {
	home, err := os.MkdirTemp("", "coalmine-forecast-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	row := &ForecastRow{File: file, Settings: settings}
	if err := row.plan(ctx, program, home); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	run := exec.CommandContext(ctx, program, row.arguments("run", home)...)
	run.Stderr = &said
	began := time.Now()
	err = run.Run()
	row.Real = time.Since(began).Seconds()
	const gate = 4 // a gate of the experiment stops it at its end
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != gate) {
		return nil, fmt.Errorf("running %s: %w\n%s", file, err, &said)
	}
	row.RealCPU = (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Seconds()
	return row, nil
}

// arguments are those of a command about the experiment.
func (r *ForecastRow) arguments(command, home string) []string {
	args := []string{command, r.File, "--home", home}
	for _, s := range r.Settings {
		args = append(args, "--set", s)
	}
	return args
}

// plan asks for the prediction.
func (r *ForecastRow) plan(ctx context.Context, program, home string) error {
	var said bytes.Buffer
	c := exec.CommandContext(ctx, program, append(r.arguments("plan", home), "--json")...)
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("planning %s: %w\n%s", r.File, err, &said)
	}
	var plan struct {
		Machine struct {
			Seconds     *float64
			Cores, Busy float64
		} `json:"this_machine"`
	}
	if err := json.Unmarshal(out, &plan); err != nil {
		return fmt.Errorf("planning %s: %w", r.File, err)
	}
	if plan.Machine.Seconds == nil {
		return fmt.Errorf("planning %s: the time is unknown\n%s", r.File, &said)
	}
	r.Predicted = *plan.Machine.Seconds
	r.PredictedCPU = r.Predicted * plan.Machine.Cores * plan.Machine.Busy
	return nil
}

// ForecastRows are the experiments in the order of the command line.
type ForecastRows []*ForecastRow

// Print writes a table.
func (rows ForecastRows) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "experiment\tpredicted s\treal s\tpredicted CPU s\treal CPU s\tfactor")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.2f\n", strings.Join(append([]string{r.File}, r.Settings...), " "), r.Predicted, r.Real, r.PredictedCPU, r.RealCPU, r.Factor())
	}
	_ = t.Flush()
}
