//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// externalFile is an example of examples/external in small.
const externalFile = `
name: small
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 10%%}}
canaries: {words: 5, per_configuration: 2, user_probability: 1/3, example_probability: 1, held_back: 2}
model: {kind: external}
training: {command: python3 train.py, code: trainer, rounds: 4, job: JOB}
audit: {random_sampling: {references: 100}, one_run: {canaries: 20}}
`

// setPython has the commands of experiments find an interpreter as python3.
func setPython(t *testing.T, name string) {
	t.Helper()
	if strings.Contains(name, "/") {
		t.Setenv("PATH", filepath.Dir(name)+":"+os.Getenv("PATH"))
	}
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
}

// The examples' programs train, score and are audited; another program computes their networks and
// audits by itself. The environment is shared by tests.
func TestPyTorchExamplesAreAuditedElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	name := testserver.Python(t, "torch, scipy")
	setPython(t, name)
	for example, job := range map[string]string{
		"gru-central": "{embedding: 8, units: 12, dropout: 0.1, epochs: 4, batch: 16, learning_rate: 0.02}",
		"transformer": "{width: 8, heads: 2, layers: 2, length: 32, dropout: 0.1, epochs: 4, batch: 16, learning_rate: 0.02}",
	} {
		t.Run(example, func(t *testing.T) {
			trainer := must.Get(filepath.Abs("../../examples/external/" + example + "/trainer"))(t)
			home := smallRun(t, strings.NewReplacer("JOB", job, "code: trainer", "code: "+trainer).Replace(externalFile))
			dir := filepath.Join(home, "..", "exported")
			prints(t, "data", "export", "latest", "c01", "--home", home, "--only", "vocabulary,parts,canaries,references", "-o", dir)
			prints(t, "export", "latest", "c01", "--home", home, "-o", filepath.Join(dir, "model.pt"))
			writeFile(t, filepath.Join(dir, "results.json"), prints(t, "results", "latest", "--home", home, "--json"))
			writeFile(t, filepath.Join(dir, "experiment.json"), prints(t, "show", "latest", "c01", "--home", home, "--json"))
			runPython(t, trainer, name, "-c", besideNetwork, dir)
		})
	}
}

// besideNetwork runs the check with the network of the directory that it runs in.
const besideNetwork = `import runpy, sys; sys.path.insert(0, "."); runpy.run_module("check_external", run_name="__main__")`

// The example of images is trained by both contracts; another program computes its network and attacks
// by itself. The environment is shared by tests.
func TestDigitsExampleIsRecomputedElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	name := testserver.Python(t, "numpy")
	setPython(t, name)
	t.Chdir("../..")
	for example, sets := range map[string][]string{
		"central":   {"grid=null", "audit.membership={reference_models: 0}", "data.share=30%", "training.job.epochs=2"},
		"federated": {"training.rounds=4", "audit.deanonymization=null", "training.record=null", "data.devices=null"},
	} {
		t.Run(example, func(t *testing.T) {
			dir := t.TempDir()
			home, run := filepath.Join(dir, "home"), []string{"run", "examples/external/digits/" + example + ".yaml"}
			for _, set := range sets {
				run = append(run, "--set", set)
			}
			prints(t, append(run, "--home", home)...)
			prints(t, "export", "latest", "c01", "--home", home, "-o", filepath.Join(dir, "model"))
			prints(t, "data", "export", "latest", "c01", "--home", home, "--only", "parts,population", "-o", dir)
			writeFile(t, filepath.Join(dir, "results.json"), prints(t, "results", "latest", "--home", home, "--json"))
			writeFile(t, filepath.Join(dir, "experiment.json"), prints(t, "show", "latest", "c01", "--home", home, "--json"))
			output, err := exec.CommandContext(t.Context(), name, "-B", "docs/checks/check_digits.py", dir).CombinedOutput()
			if err != nil || !strings.Contains(string(output), "images: accuracy") {
				t.Errorf("%v\n%s", err, output)
			}
			t.Logf("%s", output)
		})
	}
}

// The example of DP-SGD runs in a directory with nothing in it, and passes its contract; SciPy gives the same verdicts.
// A right training is refuted with a probability of 0.0001; the seed is fixed. The environment is shared by tests.
func TestDPSGDExampleFaultsAreFoundElsewhere(t *testing.T) {
	testserver.WithoutRace(t)
	name := testserver.Python(t, "torch, numpy, scipy.stats")
	setPython(t, name)
	root := must.Get(filepath.Abs("../.."))(t)
	t.Chdir(t.TempDir())
	table := prints(t, "run", "examples/external/dp-sgd/experiment.yaml")
	for setting, verdict := range map[string]string{"no training.job.bug": "no (p ", "bug=clip-batch": "YES", "bug=noise-divided": "YES", "bug=shuffled": "YES"} {
		_, row, _ := strings.Cut(table, setting+" ")
		row, _, _ = strings.Cut(row, "\n")
		if !strings.Contains(row, " "+verdict) {
			t.Errorf("of the setting %q it says %q, want %q", setting, row, verdict)
		}
	}
	writeFile(t, "results.json", prints(t, "results", "latest", "--json"))
	runPython(t, ".", name, "-B", filepath.Join(root, "docs/checks/check_neighbours.py"), "results.json")
	out, status := checkTrain(t, "--command", "python3 train.py", "--code", filepath.Join(root, "examples/external/dp-sgd/trainer"), "--replays", "20", "--deterministic",
		"--job", `{"units": 8, "batch": 16, "clip": 0.5, "noise_multiplier": 1, "delta": 1e-5, "learning_rate": 0.5}`)
	if status != exitDone || !strings.Contains(out, "pass   steps as its claim says") {
		t.Errorf("exit status %d, it prints\n%s", status, out)
	}
}
