package main

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
	"coalmine/workflows/standalone/modelaudit"
)

// foreignFile has models that PyTorch has modules of, and canaries that they memorize.
const foreignFile = `
name: foreign
data: {source: %s, vocabulary: {size: 80}, users: {words: 150}, test: {fraction: 10%%}}
canaries: {words: 5, per_configuration: 3, user_probability: 1/2, example_probability: 1, held_back: 3}
model: {kind: gru, untied: true, projection: 0, embedding: 8, units: 16}
training: {rounds: 40, cohort: 10, client: {learning_rate: 4, gradient_clip: 1}}
audit: {random_sampling: {references: 400, exact: true}}
`

func TestThePythonClientPassesItsTestsElsewhere(t *testing.T) {
	t.Parallel()
	name := testserver.Python(t, "torch")
	output, err := exec.CommandContext(t.Context(), name, "-B", "-m", "unittest", "discover", "-s", "../../clients/python/tests").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "\nOK") {
		t.Errorf("%v\n%s", err, output)
	}
}

// A model that this program has trained, computed by another and asked by contract, has the
// native audit's verdicts.
func TestContractScorerMatchesNativeAuditElsewhere(t *testing.T) {
	t.Parallel()
	name := testserver.Python(t, "numpy, torch")
	testserver.WithoutRace(t)
	home := smallRun(t, foreignFile)
	model, list := filepath.Join(home, "..", "model.safetensors"), filepath.Join(home, "..", "canaries.txt")
	prints(t, "export", "latest", "c01", "--home", home, "-o", model)
	writeFile(t, list, strings.Join(canariesOf(t, home), "\n"))
	var native modelaudit.Report
	decodeJSON(t, prints(t, "audit", model, "--canaries", list, "--references", "400", "--beam-width", "0", "--exact", "--json"), &native)
	if v := native.RandomSampling; v.Memorized == 0 || v.Memorized == v.Of {
		t.Fatalf("%d of %d are memorized; expected some, and not all", v.Memorized, v.Of)
	}
	for _, program := range []string{"torch_gru.py", "exported.py"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			command := name + " -B ../../clients/python/examples/" + program + " " + model
			texts := filepath.Join(t.TempDir(), "texts.txt")
			writeFile(t, texts, strings.Join(canariesOf(t, home), "\n"))
			prints(t, "contract", "check", "score", "--command", command, "--texts", texts)
			var got modelaudit.Report
			decodeJSON(t, prints(t, "audit", "--command", command, "--vocabulary", model, "--canaries", list, "--references", "400", "--exact", "--json"), &got)
			checkVerdicts(t, &got, &native)
		})
	}
}

// checkVerdicts compares verdicts, and scores within the precision of float32.
func checkVerdicts(t *testing.T, got, want *modelaudit.Report) {
	t.Helper()
	if *got.RandomSampling.MemorizedLow > want.RandomSampling.Memorized || *got.RandomSampling.MemorizedHigh < want.RandomSampling.Memorized {
		t.Errorf("%d to %d are memorized, want %d", *got.RandomSampling.MemorizedLow, *got.RandomSampling.MemorizedHigh, want.RandomSampling.Memorized)
	}
	largest, moved := 0.0, 0
	for i := range want.Canaries {
		g, w := &got.Canaries[i], &want.Canaries[i]
		largest = max(largest, math.Abs(*g.Ranked.LogPerplexity-*w.Ranked.LogPerplexity))
		if *g.Rank != *w.Rank {
			moved++
		}
		if *g.Memorized != *w.Memorized {
			t.Errorf("%q: memorized is %v, want %v", w.Text, *g.Memorized, *w.Memorized)
		}
	}
	if largest > 1e-4 || moved > 1 {
		t.Errorf("log-perplexities differ by up to %g nats, %d ranks of %d differ", largest, moved, len(want.Canaries))
	}
	t.Logf("log-perplexities differ by up to %.2g nats, %d ranks of %d differ", largest, moved, len(want.Canaries))
}

// canariesOf are the canaries of the first cell of the newest run, one a line.
func canariesOf(t *testing.T, home string) []string {
	t.Helper()
	var results struct {
		Cells []struct {
			Audit struct {
				Canaries, Controls []struct{ Words []string }
				Never              []struct{ Words []string } `json:"never_inserted"`
			}
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &results)
	audit := results.Cells[0].Audit
	var lines []string
	for _, c := range append(append(audit.Canaries, audit.Never...), audit.Controls...) {
		lines = append(lines, strings.Join(c.Words, " "))
	}
	return lines
}

func decodeJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
