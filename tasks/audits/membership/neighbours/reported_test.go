package neighbours

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical/replay"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// reportedSteps is a made-up training of others: releases of 5 and 3 elements, whose noise has a deviation.
func reportedSteps(t *testing.T, g *taskstest.Graph, repeats int, deviation float64) *taskstest.Node {
	t.Helper()
	claim := external.Replayed{
		ReplayClaim: external.ReplayClaim{NoiseMultiplier: 1.5, Sampling: privacy.FixedSize, Population: 40, Cohort: 2, Rounds: 10, Delta: 1e-4},
		Parts:       []external.ReplayedPart{{Name: "a", Size: 5}, {Name: "b", Size: 3}},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	values := map[string][]float32{}
	for range repeats {
		first := rng.IntN(40)
		second := (first + 1 + rng.IntN(39)) % 40
		claim.Cohorts = append(claim.Cohorts, []int{min(first, second), max(first, second)})
		for i := range 8 {
			inside := float32(0)
			if i == 3 {
				inside = 1 // one member moves one element
			}
			values["whole"], values["inside"], values["outside"] = append(values["whole"], 2), append(values["inside"], 2-inside), append(values["outside"], 2)
			values["noisy"] = append(values["noisy"], float32(2+deviation*rng.NormFloat64()))
		}
	}
	var tensors []safetensors.Tensor
	for _, name := range []string{"whole", "inside", "outside", "noisy"} {
		tensors = append(tensors, safetensors.Tensor{Name: name, Shape: []int{repeats, 8}, Float32: values[name]})
	}
	file := must.Get(safetensors.Marshal(tensors, nil))(t)
	said := must.Get(json.Marshal(claim))(t)
	return g.Put("trained", map[string][]byte{external.ResultBlob: []byte(`{"model":"out/model"}`), external.FileBlob("replay.json"): said, external.FileBlob("replay.safetensors"): file})
}

// A right training is refuted with a probability of 1e-4; the seed is fixed.
func TestReportedReplaysAreTested(t *testing.T) {
	t.Parallel()
	params := ReportParams{Replay: external.Replay{Repeats: 60}, FalseAlarm: 1e-4}
	for deviation, by := range map[float64]string{1.5: "", 0.7: replay.NoiseTest} {
		g := taskstest.NewGraph(t)
		n := g.Run(ReportAuditor, params, taskstest.In(audits.ModelInput, reportedSteps(t, g, 60, deviation)))
		if by == "" {
			taskstest.Golden(t, n)
		}
		var v Outcome
		must.Do(t, json.Unmarshal(n.Blob(OutcomeBlob), &v))
		if v.Refuted != (by != "") || v.Refuted && v.By != by || v.Sensitivity != 1 || v.Unit != "record" || !v.Reported {
			t.Errorf("noise of deviation %g: %+v", deviation, v)
		}
	}
}

// A program's number of parameters is known after its replay, and the power of the noise's test by it.
func TestTheReplayOfAProgramHasAPower(t *testing.T) {
	t.Parallel()
	f, s := &Fields{Neighbours: &Block{Repeats: 60, FalseAlarm: must.Get(numbers.ParseProbability("0.01%"))(t)}}, &audits.Setting{External: &external.ModelParams{}}
	if before := power(f, s, nil); before != nil {
		t.Errorf("before the replay: %+v", before)
	}
	v := &Outcome{Repeats: 60, Finding: replay.Finding{Tests: []replay.Test{{Name: replay.NoiseTest, Freedom: 60 * 500}}}}
	after := power(f, s, v)
	if len(after) != 1 || after[0].Chance != 1e-4 {
		t.Fatalf("after the replay: %+v", after)
	}
	if broken := power(f, s, &Outcome{Finding: v.Finding}); broken != nil {
		t.Errorf("after a replay of no rounds: %+v", broken)
	}
	// By scipy: chi2.cdf(chi2.ppf(1e-4 / 18, 30000) / 0.98**2, 30000).
	if got := after[0].Power(audits.Question{Sizes: []int{60}, Leak: 0.98}); math.Abs(got-0.7013171909) > 1e-6 {
		t.Errorf("power %v", got)
	}
}

// A divisor of 16 in place of 1 scales the noise and the move alike; noise that lacks more than the move does not.
func TestANoteDoubtsTheDivisorOfAClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sensitivity, claimed, noise float64
		doubts                      bool
	}{{1. / 16, 1, 1. / 16, true}, {16, 1, 1, true}, {1, 1, 1. / 16, false}, {1. / 16, 1, 1. / 256, false}, {2, 1, 0.5, false}, {1, 0, 1, false}, {0, 0, 1, false}} {
		v := &Outcome{Claimed: 1, ClaimedSensitivity: c.claimed, Finding: replay.Finding{
			Sensitivity: c.sensitivity, Refuted: true, Noise: replay.Multiplier{Measured: c.noise, Low: 0.99 * c.noise, High: 1.01 * c.noise},
		}}
		if doubts := strings.Contains(v.Note(nil), "as if the divisor or the clip norm of the claim were wrong"); doubts != c.doubts {
			t.Errorf("a move of %g and noise of %g: %s", c.sensitivity, c.noise, v.Note(nil))
		}
	}
}

func TestReplaysOfWrongLengthAreRejected(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	if _, err := g.Try(ReportAuditor, ReportParams{Replay: external.Replay{Repeats: 61}}, taskstest.In(audits.ModelInput, reportedSteps(t, g, 60, 1.5))); !tasks.IsPermanent(err) {
		t.Errorf("got %v, want a permanent error", err)
	}
}
