// This file compares the durations that coalmine plan predicts for experiments with the real ones.

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

// ForecastRow is one experiment. On a machine that also does other work, processor seconds are comparable,
// and wall-clock seconds are not.
type ForecastRow struct {
	File string `json:"file"`
	// Settings are fields that replace the file's, in the syntax of --set.
	Settings []string `json:"settings,omitempty"`
	// Predicted and Real are the seconds from the submission to the end.
	Predicted float64 `json:"predicted_seconds"`
	Real      float64 `json:"real_seconds"`
	// PredictedCPU and RealCPU are the total seconds of all cores, including the experiment's programs.
	PredictedCPU float64 `json:"predicted_cpu_seconds"`
	RealCPU      float64 `json:"real_cpu_seconds"`
}

// Factor returns the ratio of predicted and real processor seconds, or its inverse, at least 1.
func (r *ForecastRow) Factor() float64 {
	ratio := r.PredictedCPU / r.RealCPU
	return math.Max(ratio, 1/ratio)
}

// RunForecast plans and runs an experiment file with settings by a program, in a new directory.
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
	var messages bytes.Buffer
	run := exec.CommandContext(ctx, program, row.arguments("run", home)...)
	run.Stderr = &messages
	began := time.Now()
	err = run.Run()
	row.Real = time.Since(began).Seconds()
	const gate = 4 // exit code if a gate of the experiment fails at its end
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != gate) {
		return nil, fmt.Errorf("running %s: %w\n%s", file, err, &messages)
	}
	row.RealCPU = (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Seconds()
	return row, nil
}

// arguments returns the arguments of a command on the experiment.
func (r *ForecastRow) arguments(command, home string) []string {
	args := []string{command, r.File, "--home", home}
	for _, s := range r.Settings {
		args = append(args, "--set", s)
	}
	return args
}

// plan runs coalmine plan for the prediction.
func (r *ForecastRow) plan(ctx context.Context, program, home string) error {
	var messages bytes.Buffer
	c := exec.CommandContext(ctx, program, append(r.arguments("plan", home), "--json")...)
	c.Stderr = &messages
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("planning %s: %w\n%s", r.File, err, &messages)
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
		return fmt.Errorf("planning %s: the time is unknown\n%s", r.File, &messages)
	}
	r.Predicted = *plan.Machine.Seconds
	r.PredictedCPU = r.Predicted * plan.Machine.Cores * plan.Machine.Busy
	return nil
}

// ForecastRows are the experiments in command-line order.
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
