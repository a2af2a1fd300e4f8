package neighbours_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/privacy/empirical/replay"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/neighbours"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/plan/plantest"
)

// file is a small training of 74 users.
const file = `
name: neighbours
data: {source: none.jsonl, vocabulary: {size: 40}, users: {words: 300}}
model: {embedding: 8, units: 8}
training:
  rounds: 2
  cohort: 8
  chunks: 2
  client: {learning_rate: 0.5}
  privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-3}
audit:
  utility: false
  neighbours: {repeats: 30}
`

func replayed(t *testing.T, sets ...string) *neighbours.Outcome {
	t.Helper()
	r := plantest.CellReport(t, file, sets...)
	v := new(neighbours.Outcome)
	plantest.Outcome(t, &r, "neighbours", v)
	return v
}

// Each training is refuted with a probability of 1e-4 at most, so that one of the 216 of -whole is with one of 2.2%. An interval
// misses the claimed noise with one of 5% at most: more than 24 of 216 do with one of 2e-4. Fixed seeds give one outcome.
func TestRightTrainingsAreNotRefuted(t *testing.T) {
	t.Parallel()
	seeds, allowed := 1, 0
	if taskstest.Whole() {
		seeds, allowed = 12, 24
	}
	var missed atomic.Int64
	t.Cleanup(func() {
		if n := missed.Load(); n > int64(allowed) {
			t.Errorf("%d intervals miss the claimed noise multiplier; expected at most %d", n, allowed)
		}
	})
	for name, sets := range map[string]string{
		"fixed size":       "training.sampling=fixed-size",
		"poisson":          "training.sampling=poisson",
		"shuffled":         "training.sampling=shuffled",
		"momentum":         "training.server={optimizer:momentum,learning_rate:0.1} training.client.steps=2",
		"adaptive":         "training.privacy.adaptive={quantile:0.5,count_noise:2}",
		"devices":          "training.privacy.noise_by=devices",
		"compressed":       "training.client.compress={keep:0.5,bits:8}",
		"dropout":          "training.client.dropout=0.2",
		"secret":           "training.privacy.randomness=secret",
		"tree":             "training.privacy.mechanism={kind:tree} training.sampling=separated training.separation=3",
		"banded":           "training.privacy.mechanism={kind:banded,bands:2} training.sampling=separated training.separation=3",
		"blt":              "training.privacy.mechanism={kind:blt,buffers:2} training.sampling=separated training.separation=3",
		"dp-sgd":           "training={algorithm:sgd,rounds:3,cohort:16,sampling:poisson,client:{learning_rate:0.5},privacy:{clip:0.1,noise_multiplier:1,delta:1e-4}}",
		"dp-sgd fixed":     "training={algorithm:sgd,rounds:3,cohort:60,sampling:fixed-size,client:{learning_rate:0.5,optimizer:adam},privacy:{clip:0.1,noise_multiplier:2,delta:1e-4}}",
		"dp-sgd momentum":  "training={algorithm:sgd,rounds:3,cohort:60,sampling:fixed-size,client:{learning_rate:0.5,optimizer:momentum,momentum:0.9},privacy:{clip:0.1,noise_multiplier:1,delta:1e-4}}",
		"dp-sgd shuffled":  "training={algorithm:sgd,rounds:3,cohort:60,sampling:shuffled,client:{learning_rate:0.5},privacy:{clip:5,noise_multiplier:1,delta:1e-4}}",
		"after one_shot":   "model={embedding:32,units:32} audit.one_shot={canaries:20}",
		"canaries in data": "canaries={per_configuration:2,words:3,user_probability:[1/2],example_probability:[1/2]}",
	} {
		for seed := range seeds {
			t.Run(fmt.Sprint(name, " ", seed+1), func(t *testing.T) {
				t.Parallel()
				v := replayed(t, append(strings.Fields(sets), fmt.Sprint("seed=", seed+1))...)
				if v.Refuted || v.Sensitivity > v.ClaimedSensitivity+replay.Tolerance || v.Outside > replay.Tolerance {
					t.Errorf("refuted: %+v", v)
				}
				if v.Sensitivity < 1-replay.Tolerance { // a clip norm that is 1.01 times the claimed one is found
					t.Errorf("sensitivity %g: nobody was clipped", v.Sensitivity)
				}
				if n := countedByPower(t, sets); v.Noise.Parts != n && (name != "dp-sgd" || v.Noise.Parts != n-1) { // whose last record may take no part
					t.Errorf("%d intervals; the power counts %d", v.Noise.Parts, n)
				}
				if v.Epsilon == nil {
					t.Error("no epsilon of the noise")
				}
				if v.Noise.Low > v.Claimed || v.Noise.High < v.Claimed {
					missed.Add(1)
				}
				t.Logf("p %.2g by %s, sensitivity %.6g of %g in %d moves, noise multiplier %.3g [%.3g, %.3g] of %s, claimed %.3g", v.P, v.By, v.Sensitivity, v.ClaimedSensitivity, v.Moves, v.Noise.Measured, v.Noise.Low, v.Noise.High, v.Noise.Part, v.Claimed)
			})
		}
	}
}

// countedByPower returns the number of intervals that the power counts. All noise at the noise multiplier of
// a limit has an interval below it with a probability of 0.025 over their number, and any noise is below that of
// a limit of 0, a million times the claimed one.
func countedByPower(t *testing.T, sets string) int {
	cell := &plantest.Resolve(t, file, nil, strings.Fields(sets)...).Cells[0]
	none := 0.0
	for _, s := range neighbours.Audit.Power(cell.Experiment.Setting(), nil) {
		return int(math.Round(0.025 / s.Power(audits.Question{Sizes: s.Numbers(), Leak: 1e6, Limit: &none})))
	}
	t.Fatal("no power")
	return 0
}

// The faults of audit.control are found, each by a test of its own.
func TestControlsAreRefuted(t *testing.T) {
	t.Parallel()
	for control, by := range map[string]string{
		"no-noise":           replay.NoiseTest,
		"clip-per-batch":     replay.SensitivityTest,
		"double-sensitivity": replay.SensitivityTest,
		"poisson-accounted":  replay.EqualTest,
		"same-cohort":        replay.OverlapTest,
	} {
		t.Run(control, func(t *testing.T) {
			t.Parallel()
			v := replayed(t, "audit.control="+control, "training.sampling=poisson", "training.client.batch=4")
			least := math.Inf(1)
			for _, x := range v.Tests {
				if x.Name == by {
					least = x.P * float64(len(v.Tests))
				}
			}
			if !v.Refuted || least > v.FalseAlarm {
				t.Errorf("p %g of %q: %+v", least, by, v)
			}
		})
	}
}

func TestReplaysAreComputedElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "scipy.stats")
	var cells []any
	for _, control := range []string{"null", "no-noise", "double-sensitivity", "poisson-accounted"} {
		v := replayed(t, "training.sampling=poisson", "audit.control="+control)
		cells = append(cells, map[string]any{"cell": control, "audit": map[string]any{"neighbours": v}})
	}
	data := must.Get(json.Marshal(map[string]any{"cells": cells}))(t)
	file := filepath.Join(t.TempDir(), "results.json")
	must.Do(t, os.WriteFile(file, data, 0o600))
	if output, err := exec.CommandContext(t.Context(), python, "-B", "../../../../docs/checks/check_neighbours.py", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
