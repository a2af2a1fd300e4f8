package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/forecast"
)

func TestPlanListsTasksByReason(t *testing.T) {
	t.Parallel()
	missing := []string{"no cached result"}
	for want, groups := range map[string][]forecast.Group{
		"      5 other tasks to run: no cached result\n": {
			{Kind: "audits/summary", ToRun: 1, Why: missing}, {Kind: "evaluation/part", ToRun: 4, Why: missing},
		},
		"      audits/summary           1 to run: no cached result\n      other tasks: 4 cached, 2 no longer needed\n": {
			{Kind: "audits/summary", ToRun: 1, Cached: 1, Why: missing}, {Kind: "evaluation/part", Cached: 3, Unneeded: 2},
		},
		"      datasets/encode          1 to run: evicted: vocabulary\n      reports/cell             1 to run: no cached result\n      other tasks: 0 cached, 0 no longer needed\n": {
			{Kind: "datasets/encode", ToRun: 1, Why: []string{"evicted: vocabulary"}}, {Kind: "reports/cell", ToRun: 1, Why: missing},
		},
	} {
		var out bytes.Buffer
		if (&global{stdout: &out}).writeGroups(groups); out.String() != want {
			t.Errorf("%+v: %q, want %q", groups, &out, want)
		}
	}
}

// A setting has one line for all its seeds, and conditions of the privacy cost stand once.
func TestPlanPrintsOneLinePerSetting(t *testing.T) {
	t.Parallel()
	clip, free := &experiment.Row{Name: "r01", Label: "clipped"}, &experiment.Row{Name: "r02", Label: "plain"}
	report := must.Get(privacy.Account(privacy.Recipe{Population: 100, Cohort: 10, Rounds: 5, NoiseMultiplier: 1, Delta: 1e-5, Randomness: privacy.Seeded}))(t)
	condition := report.Validity()
	cells := []plannedCell{
		{Cell: "c1", Label: "clipped, seed 1", row: clip, Privacy: &report, Cached: true}, {Cell: "c2", Label: "plain, seed 1", row: free},
		{Cell: "c3", Label: "clipped, seed 2", row: clip, Privacy: &report}, {Cell: "c4", Label: "plain, seed 2", row: free},
	}
	var out bytes.Buffer
	g := &global{stdout: &out}
	g.writePlannedRows(cells)
	g.writeValidity(cells)
	want := "r01  clipped, 2 seeds: 1 to run, the rest cached\n      privacy with the first seed: epsilon "
	if !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), condition) != 1 || !strings.Contains(out.String(), "\nr02  plain, 2 seeds: to run\nprivacy: "+condition+"\n") {
		t.Errorf("plan:\n%s", &out)
	}
}

func TestPlanFormatsDaysAndHours(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{90: "1m30s", 25 * 3600: "1 day 1 hour", 49.5 * 3600: "2 days 1 hour", 72 * 3600: "3 days 0 hours"} {
		if got := roughly(seconds); got != want {
			t.Errorf("%g seconds are %q, want %q", seconds, got, want)
		}
	}
}

func TestPlanCountsTasks(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]*forecast.Explanation{
		"1 task, none cached":     {Nodes: map[storage.Key]forecast.Node{{Digest: storage.Digest{1}}: {Disposition: forecast.ToRun}}},
		"1 task, the rest cached": {Nodes: map[storage.Key]forecast.Node{{Digest: storage.Digest{1}}: {Disposition: forecast.ToRun}, {Digest: storage.Digest{2}}: {Disposition: forecast.Cached}}},
		"0 tasks, all cached":     {Nodes: map[storage.Key]forecast.Node{{Digest: storage.Digest{2}}: {Disposition: forecast.Cached}}},
	} {
		if got := tasksText(x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPlanReportsPowerRangeOverCells(t *testing.T) {
	t.Parallel()
	auc := func(power float64) forecast.Power {
		return forecast.Power{Audit: "membership", Statement: "auc", Leak: forecast.Leak{Name: "AUC", Value: 0.6}, Power: power}
	}
	exposure := func(gate string, power float64) forecast.Power {
		p := forecast.Power{Audit: "exposure", Leak: forecast.Leak{Name: "bits", Value: 5}, Power: power}
		p.Gate = gate
		return p
	}
	for want, list := range map[string][]forecast.Power{
		"membership auc (AUC 0.6) 10% to 72% over the cells; ": {auc(0.72), auc(0.1)},
		"membership auc (AUC 0.6) 10%; ":                       {auc(0.1)},
		"exposure (bits 5) 83%, gate exposure (bits 5) 0.8%; ": {exposure("", 0.83), exposure("exposure", 0.008)},
	} {
		var out strings.Builder
		(&global{stdout: &out}).writePower(list, nil)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", &out, want)
		}
	}
}

// Steps of SGD come by 50 a task here, and the rest in one task. A training goes step by step: a
// cluster of a hundred cores is no faster with it than one of two, and one core takes as long as
// all tasks together.
func TestPlanEstimatesClusterTimes(t *testing.T) {
	t.Parallel()
	file, home := smallFiles(t, `
name: federated
data: {source: %s, vocabulary: {size: 20}, users: {words: 50}}
model: {embedding: 8, units: 8}
training: {rounds: 40, cohort: 4, chunks: 2}
audit: {utility: true}
`, string(taskstest.Text(500)))
	plan := func(args ...string) (int, string, string) {
		return coalmine(t, append([]string{"plan", file, "--home", home}, args...)...)
	}
	code, out, messages := plan("--json", "--cores", "1,2,100")
	var planned struct {
		Tasks        int
		TrainingFLOP float64     `json:"training_flop"`
		MeasuredFLOP float64     `json:"measuring_flop"`
		ThisMachine  thisMachine `json:"this_machine"`
		Clusters     []simulatedCluster
	}
	if err := json.Unmarshal([]byte(out), &planned); err != nil || code != exitDone || len(planned.Clusters) != 3 {
		t.Fatalf("exit status %d, %v: %s%s", code, err, out, messages)
	}
	here, total := planned.ThisMachine, planned.TrainingFLOP+planned.MeasuredFLOP
	if least := total / (float64(here.Cores) * here.GFLOPS * 1e9 * here.Used); planned.Tasks <= 40*3 || here.Kernels == "" || here.Seconds == nil || *here.Seconds < least {
		t.Errorf("%d tasks of %g FLOP, on this machine %+v", planned.Tasks, total, here)
	}
	one, two, many := planned.Clusters[0], planned.Clusters[1], planned.Clusters[2]
	if one.Busy < 0.999 || one.Seconds < 40*3*forecast.TaskSeconds || two.Seconds >= one.Seconds || many.Seconds > two.Seconds || many.Seconds < 40*2*forecast.TaskSeconds || many.Busy > 0.05 {
		t.Errorf("%+v", planned.Clusters)
	}
	if code, out, _ := plan("--cores", "100"); code != exitDone || !strings.Contains(out, "on 100 such cores, at work") || !strings.Contains(out, fmt.Sprintf("\n%d tasks, none cached; ", planned.Tasks)) {
		t.Errorf("exit status %d: %s", code, out)
	}
	if _, out, _ := plan(); strings.Contains(out, "training: ") {
		t.Errorf("without --nodes the plan lists tasks: %s", out)
	}
	if _, out, _ := plan("--nodes"); !strings.Contains(out, "\n      training: train ") {
		t.Errorf("with --nodes the plan lists no tasks: %s", out)
	}
	if code, _, messages := plan("--cores", "0"); code == exitDone || !strings.Contains(messages, "--cores: 0 cores; expected 1 to 100000") {
		t.Errorf("exit status %d: %s", code, messages)
	}
}

func TestPlanCountsLastStepsOfTraining(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, `{"user":"u%d","text":"a%d b%d c%d"}`+"\n", i%23, i%13, i%7, i%5)
	}
	file, home := smallFiles(t, `
name: central
data: {source: %q, vocabulary: {size: 20}, users: {words: 10}}
model: {embedding: 3, units: 4}
training: {algorithm: sgd, rounds: 50, cohort: 4, steps_per_task: 50, client: {learning_rate: 1}}
audit: {utility: true}
`, text.String())
	var perStep float64
	for _, c := range []struct {
		steps int
		want  []string
	}{
		{50, []string{"train 50 steps from scratch"}},
		{49, []string{"train 49 steps from scratch"}},
		{149, []string{"train 100 steps from scratch", "train to 149 from the checkpoint at 100"}},
	} {
		out := outputOf(t, home, "plan", file, "--json", "--set", fmt.Sprintf("training.rounds=%d", c.steps))
		var plan struct {
			Cells        []struct{ Training []string }
			TrainingFLOP float64 `json:"training_flop"`
		}
		if err := json.Unmarshal([]byte(out), &plan); err != nil || !slices.Equal(plan.Cells[0].Training, c.want) {
			t.Errorf("%d steps: %v in %s, want %q", c.steps, err, out, c.want)
		}
		if perStep == 0 {
			perStep = plan.TrainingFLOP / float64(c.steps)
		}
		if got := plan.TrainingFLOP / float64(c.steps); perStep == 0 || math.Abs(got/perStep-1) > 1e-12 {
			t.Errorf("%d steps: %g FLOP each, want the %g of whole tasks", c.steps, got, perStep)
		}
	}
}

// A program that takes too long is named, unless the command itself was interrupted.
func TestTimedOutTrialIsReported(t *testing.T) {
	t.Parallel()
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, ctx := range []context.Context{t.Context(), interrupted} {
		var stderr bytes.Buffer
		(&global{stderr: &stderr}).trial(ctx, time.Now(), "c01", "tried", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if got, want := stderr.String(), "the program of c01 could not be tried: the program did not end within 1m0s"; strings.Contains(got, want) != (ctx.Err() == nil) {
			t.Errorf("it notes %q; want %q, and nothing after an interrupt", got, want)
		}
	}
}
