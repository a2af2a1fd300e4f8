package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/tasks/checkpoints"
	"coalmine/workers/clients/clientstest"
	"coalmine/workflows/standalone/modelaudit/scoretest"
)

// largeWeights is an audit that only this file knows. It counts the weights of a model
// that are above a threshold, needs no canaries, and measures every audited round. All
// that is done for it is this description and its line in the list.
var largeWeights = audits.Description{
	Name:   "large_weights",
	Legend: "Large weights: those of an absolute value above a threshold.",
	New:    func() audits.Fields { return new(weightFields) },
	Limits: []audits.Limit{audits.LimitOf[float64]{
		Name: "large_weights", Doc: "large_weights limits how many there are.", Range: "[0,1e9]", Unit: "weights",
		Breaches: audits.Judged(func(v *weightOutcome, limit float64) []string { return audits.Above("large_weights", v.Large, limit) }),
	}.Limit()},
	Kinds:   []tasks.Kind{countWeights},
	Outcome: func() audits.Outcome { return new(weightOutcome) },
	Measures: []audits.Measure{{
		Name: "large_weights", Of: audits.Of(func(v *weightOutcome) float64 { return v.Large }), Header: "large weights",
		Text: audits.Of(func(v *weightOutcome) string { return fmt.Sprintf("%g/%g", v.Large, v.Of) }),
	}},
	Curves: []audits.Curve{{
		Figure: "Large weights", Name: "weights", Metric: "large",
		Most: func(v audits.Outcome) float64 { return v.(*weightOutcome).Of },
	}},
}

type weightFields struct {
	// LargeWeights are counted. Absent: not done.
	LargeWeights *weightBlock `json:"large_weights,omitempty"`
}

type weightBlock struct {
	// Threshold above which a weight is large.
	Threshold float64 `json:"threshold" default:"0.25" range:"(0,10]" also:"bound"`
}

func (f *weightFields) Asked() bool { return f.LargeWeights != nil }

func (f *weightFields) Check(s *audits.Setting, fail audits.Fail) {
	if s.Training.Central {
		fail([]string{"audit.large_weights", "training.algorithm"}, "counts weights after rounds, which sgd has not")
	}
}

func (f *weightFields) Compile(b audits.Builder, round int) storage.Key {
	return b.Node(countWeights, fmt.Sprintf("large weights after %d", round), f.LargeWeights, tasks.Input{Name: audits.ModelInput, Key: b.Model(round)})
}

func (f *weightFields) States(*audits.Setting) float64 { return 1e6 }

var countWeights = tasks.Kind{Name: "audits/large-weights", Version: 1, Class: tasks.Compute, Run: func(ctx context.Context, t *tasks.Task) error {
	var block weightBlock
	model, err := checkpoints.Read(ctx, t, audits.ModelInput)
	if err := errors.Join(err, t.Decode(&block)); err != nil {
		return err
	}
	v := weightOutcome{Of: float64(len(model.Params))}
	for _, w := range model.Params {
		if max(w, -w) > float32(block.Threshold) {
			v.Large++
		}
	}
	return t.SetMetrics(v)
}}

type weightOutcome struct {
	Large float64 `json:"large"`
	Of    float64 `json:"of"`
}

func (v *weightOutcome) Note(*audits.Cell) string {
	return fmt.Sprintf("%g weights are large", v.Large)
}

func (v *weightOutcome) Figure(*audits.Cell) *audits.Figure {
	return &audits.Figure{
		Name: "Weights", About: "The dot is the model.", Title: "large weights", X: audits.Axis{Most: 1}, Y: audits.Axis{Most: v.Of},
		Dots: []audits.Dot{{Y: v.Large, About: "a model with large weights"}},
	}
}

// asCommand in the environment makes the test program the command, withLargeWeights the
// command with one more audit.
const (
	asCommand        = "COALMINE_TEST_COMMAND"
	withLargeWeights = "COALMINE_TEST_LARGE_WEIGHTS"
)

func TestMain(m *testing.M) {
	clientstest.Serve()
	switch {
	case os.Getenv(withLargeWeights) != "":
		all.Add(largeWeights)
	case os.Getenv(asCommand) == "":
		scoretest.Main(m)
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// weighing runs the command that has the audit, in a folder with a text and a file.
func weighing(t *testing.T, dir string, args ...string) (output string, code int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], append(args, "--home", filepath.Join(dir, "home"))...)
	c.Dir, c.Env = dir, append(os.Environ(), withLargeWeights+"=1")
	out, err := c.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

const weighedFile = `
name: weighed
data: {source: text.jsonl, vocabulary: {size: 30}, users: {words: 100}}
model: {embedding: 3, units: 4}
training: {rounds: 2, cohort: 4, chunks: 2}
audit:
  every: 1
  utility: false
  large_weights: {}
  fail_if: {large_weights: 5}
grid: {axes: {audit.large_weights.threshold: [10, 0.001]}}
`

func weighedFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"text.jsonl": spendingText(), "weighed.yaml": weighedFile} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A new audit is its description and a line in the list: it appears in every output.
func TestAnAddedAuditAppearsEverywhere(t *testing.T) {
	t.Parallel()
	dir := weighedFolder(t)
	output, code := weighing(t, dir, "run", "weighed.yaml")
	if code != exitGate || !strings.Contains(output, "above the limit of 5") {
		t.Fatalf("run ended with %d, want the status of a gate:\n%s", code, output)
	}
	for args, wants := range map[string][]string{
		"results":                {"large weights  gate\n", "0/", "weights are large"},
		"results --json":         {`"large_weights": {`, `"large": 0`, `"breaches": [`, `"round": 1`},
		"results --format csv":   {",large_weights,"},
		"results --format latex": {"& large weights"},
		"results --format html":  {"large weights</th>", "a model with large weights", "Large weights, by round: weights solid", "Large weights: those of an absolute value", "gate failed: large_weights is"},
		"results --help":         {"Large weights: those of an absolute value"},
		"show weighed c02":       {"threshold: 0.001"},
	} {
		output, code := weighing(t, dir, strings.Fields(args)...)
		for _, want := range wants {
			if code != exitDone && code != exitGate || !strings.Contains(output, want) {
				t.Errorf("%s ends with %d and lacks %q:\n%s", args, code, want, output)
			}
		}
	}
	checkWeighedRows(t, dir)
}

func checkWeighedRows(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "weighed.parquet")
	if output, code := weighing(t, dir, "results", "--format", "parquet", "-o", file); code != exitDone {
		t.Fatalf("exit status %d: %s", code, output)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Large *float64 `parquet:"large_weights"`
	}
	rows, err := parquet.Read[row](bytes.NewReader(data), int64(len(data)))
	if err != nil || len(rows) != 2 || *rows[0].Large != 0 || *rows[1].Large <= 5 {
		t.Errorf("rows %+v, %v; want none of the weights, and more than 5", rows, err)
	}
}

func TestAnAddedAuditIsPlannedAndPaid(t *testing.T) {
	t.Parallel()
	dir := weighedFolder(t)
	flop := func(sets ...string) float64 {
		args := []string{"plan", "weighed.yaml", "--json"}
		for _, set := range sets {
			args = append(args, "--set", set)
		}
		output, code := weighing(t, dir, args...)
		var plan struct {
			MeasuringFLOP float64 `json:"measuring_flop"`
		}
		if err := json.Unmarshal([]byte(output), &plan); err != nil || code != exitDone || !strings.Contains(output, `"audits/large-weights"`) {
			t.Fatalf("plan ended with %d, %v:\n%s", code, err, output)
		}
		return plan.MeasuringFLOP
	}
	if twice, once := flop(), flop("audit.every=null"); once == 0 || twice != 2*once {
		t.Errorf("measuring at both rounds costs %v, at the last %v", twice, once)
	}
}

func TestAnAddedAuditsFieldsAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	dir := weighedFolder(t)
	for set, want := range map[string]string{
		"audit.large_weights={threshold: 11}":                                     "audit.large_weights.threshold: is 11; expected a number",
		"audit.large_weights={bound: 1}":                                          "did you mean audit.large_weights.threshold?",
		"audit.large_weight={}":                                                   "did you mean audit.large_weights?",
		"audit={fail_if: {large_weights: 3}, utility: true, large_weights: null}": "limits what audit.large_weights measures, which is not there",
		"training={algorithm: sgd, chunks: null}":                                 "counts weights after rounds, which sgd has not",
	} {
		output, code := weighing(t, dir, "plan", "weighed.yaml", "--set", "grid=null", "--set", set)
		if code != exitUsage || !strings.Contains(output, want) {
			t.Errorf("--set %s: ended with %d and lacks %q:\n%s", set, code, want, output)
		}
	}
}
