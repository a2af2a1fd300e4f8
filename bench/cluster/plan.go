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

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// nothing is the kind of all tasks: it writes a digest and reads nothing.
var nothing = tasks.Kind{
	Name: "bench/nothing", Version: 1, Class: tasks.Compute,
	Run: func(ctx context.Context, t *tasks.Task) error {
		return t.Put(ctx, tasks.ModelBlob, []byte(t.Key.String()))
	},
}

// Registry holds the kinds of the benchmark.
func Registry() tasks.Registry { return tasks.NewRegistry(nothing) }

// shape describes an experiment for the benchmark: trainings in rounds, each of
// several parts and a join, and audits of their checkpoints.
type shape struct {
	Name                 string
	Cells, Parts, Rounds int
	// Audits is the number of checkpoints of each training that are kept and audited.
	Audits int
}

func (s shape) tasks() int { return s.Cells * (s.Rounds*(s.Parts+1) + s.Audits + 2) }

func (s shape) spec() (runs.Spec, error) {
	raw, err := json.Marshal(s)
	return runs.Spec{Name: s.Name, Digest: storage.DigestOf(raw), Experiment: raw}, err
}

func compileShape(_ context.Context, run *runs.Run) (plan.Parts, error) {
	var s shape
	if err := json.Unmarshal(run.Spec.Experiment, &s); err != nil {
		return nil, tasks.Permanent(err)
	}
	p, err := s.plan()
	return plan.SinglePart(p), err
}

func (s shape) plan() (*plan.Plan, error) {
	b := builder{&plan.Plan{Nodes: make(map[storage.Key]*plan.Node), Chains: make(map[storage.Key]*plan.Chain)}}
	for i := range s.Cells {
		if err := b.cell(i, s); err != nil {
			return nil, err
		}
	}
	return b.Plan, nil
}

type builder struct{ *plan.Plan }

// cell adds a training with its initial model, its audits and its report.
func (b builder) cell(i int, s shape) error {
	name := fmt.Sprintf("c%02d", i+1)
	origin, err := b.node("initial model of " + name)
	if err != nil {
		return err
	}
	c := s.chain(name, origin)
	b.Chains[c.Recipe] = c
	needs := []plan.Ref{c.At(s.Rounds)}
	for _, step := range c.Keep[:s.Audits] {
		audit, err := b.node(fmt.Sprintf("audit of %s at %d", name, step), c.At(step))
		if err != nil {
			return err
		}
		needs = append(needs, audit)
	}
	report, err := b.node("report of "+name, needs...)
	b.Cells = append(b.Cells, plan.Cell{Index: i, Name: name, Label: name, Report: report, Model: c.At(s.Rounds), Chain: c, Unit: plan.Round})
	return err
}

func (s shape) chain(name string, origin plan.Ref) *plan.Chain {
	template := plan.Template{Kind: nothing, Params: json.RawMessage(fmt.Sprintf(`{"run":%q,"cell":%q}`, s.Name, name))}
	c := &plan.Chain{Origin: origin, Steps: s.Rounds, StepRounds: 1, Width: s.Parts, Part: template, Join: template}
	for i := range s.Audits {
		c.Keep = append(c.Keep, (i+1)*s.Rounds/s.Audits)
	}
	if s.Audits == 0 {
		c.Keep = []int{s.Rounds}
	}
	c.Recipe = plan.Recipe(origin.Key, c.Width, c.StepRounds, c.Part, c.Join)
	return c
}

func (b builder) node(label string, needs ...plan.Ref) (plan.Ref, error) {
	var inputs []tasks.Input
	for i, need := range needs {
		inputs = append(inputs, tasks.Input{Name: fmt.Sprintf("input-%d", i), Key: need.Key})
	}
	spec, err := tasks.NewSpec(nothing, label, inputs...)
	b.Nodes[spec.Key] = &plan.Node{Spec: spec, Label: label, Needs: needs}
	return plan.Ref{Key: spec.Key}, err
}

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
