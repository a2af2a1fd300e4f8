package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/tasks/taskstest"
)

// The programs in docs/checks recompute the numbers of a run in Python, from the files that users can
// export. They were written from the pages, not from the Go code.

// cellsOf are the names of the cells of the newest run.
func cellsOf(t *testing.T, home string) []string {
	t.Helper()
	var spec struct{ Cells []struct{ Name string } }
	decodeJSON(t, prints(t, "show", "latest", "--home", home, "--json"), &spec)
	var names []string
	for _, c := range spec.Cells {
		names = append(names, c.Name)
	}
	return names
}

// exportCell writes all that can be exported of a cell into a directory, as the
// programs say, and returns the directory.
func exportCell(t *testing.T, home, cell string) string {
	t.Helper()
	dir := filepath.Join(home, "..", cell)
	prints(t, "data", "export", "latest", cell, "--home", home, "-o", dir)
	prints(t, "export", "latest", cell, "--home", home, "-o", filepath.Join(dir, "model.safetensors"))
	prints(t, "export", "latest", cell, "--home", home, "--round", "0", "-o", filepath.Join(dir, "initial.safetensors"))
	for name, text := range map[string]string{
		"results.json":    prints(t, "results", "latest", "--home", home, "--json"),
		"experiment.json": prints(t, "show", "latest", cell, "--home", home, "--json"),
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

func exportCells(t *testing.T, home string) []string {
	t.Helper()
	var dirs []string
	for _, cell := range cellsOf(t, home) {
		dirs = append(dirs, exportCell(t, home, cell))
	}
	return dirs
}

// runPython runs a program in a directory, with docs/checks on its path, and returns its output.
func runPython(t *testing.T, dir string, command ...string) string {
	t.Helper()
	checks := must.Get(filepath.Abs("../../docs/checks"))(t)
	c := exec.CommandContext(t.Context(), command[0], command[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), "PYTHONPATH="+checks, "PYTHONDONTWRITEBYTECODE=1")
	output, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(command, " "), err, output)
	}
	t.Logf("%s", output)
	return string(output)
}

// withoutTorch runs the program of docs/checks that is named first as if there were no PyTorch.
const withoutTorch = `import runpy, sys; sys.modules["torch"] = None; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], run_name="__main__")`

// modelsFile has every kind with one and two layers, tied and projected, or untied
// and as wide as its units, on words and on bytes; and a quantized one.
const modelsFile = `
name: models
data: {source: %%s, users: {words: 150}, test: {fraction: 10%%%%}}
canaries: {words: 6, per_configuration: 2, user_probability: 1/3, example_probability: 1, held_back: 2}
model: {embedding: 6, units: 8}
training: {rounds: 15, cohort: 10, client: {learning_rate: 8, gradient_clip: 1}}
audit: {random_sampling: {references: 300, exact: true}, beam_search: {width: 3}}
grid:
  axes:
    data: [{level: word, vocabulary: {size: 80}}, {level: byte, sequence: 40}]
    model: [%s]
  include: [{data: {level: word, vocabulary: {size: 80}}, training.quantize_bits: 4}]
`

func allModels() string {
	var models []string
	for _, kind := range []string{"cifg-lstm", "lstm", "gru", "conv"} {
		for layers := range 2 {
			models = append(models, fmt.Sprintf("{kind: %s, layers: %d}", kind, layers+1),
				fmt.Sprintf("{kind: %s, layers: %d, untied: true, projection: 0}", kind, layers+1))
		}
	}
	return fmt.Sprintf(modelsFile, strings.Join(models, ", "))
}

func TestAnExportedModelReproducesResultsElsewhere(t *testing.T) {
	t.Parallel()
	python := testserver.Python(t, "numpy, torch")
	testserver.WithoutRace(t)
	home := smallRun(t, allModels())
	dirs := exportCells(t, home)
	if len(dirs) != 33 {
		t.Fatalf("%d cells, want 33", len(dirs))
	}
	t.Run("with NumPy", func(t *testing.T) {
		t.Parallel()
		for _, program := range []string{"check_export", "check_audit"} {
			runPython(t, ".", append([]string{python, "-c", withoutTorch, program}, dirs...)...)
		}
	})
	t.Run("with PyTorch", func(t *testing.T) {
		t.Parallel()
		runPython(t, ".", append([]string{python, "-m", "check_export"}, dirs...)...)
		runPython(t, ".", append([]string{python, "-c", inEach, contentOf(t, "../../docs/checks/torch_modules.py")}, modulesOf(t, dirs)...)...)
	})
}

// inEach runs the program that is given first in each of the directories after it.
const inEach = `import os, sys
for directory in sys.argv[2:]:
    os.chdir(directory)
    exec(sys.argv[1], {})`

// modulesOf are the directories of models for which PyTorch has a module.
func modulesOf(t *testing.T, dirs []string) []string {
	t.Helper()
	var found []string
	for _, dir := range dirs {
		text := contentOf(t, filepath.Join(dir, "experiment.json"))
		has := func(field string) bool { return strings.Contains(text, field) }
		if has(`"kind": "lstm"`) || has(`"kind": "gru"`) && has(`"projection": 0`) {
			found = append(found, dir)
		}
	}
	if len(found) != 12 {
		t.Errorf("%d models, want the 8 of kind lstm and 4 of kind gru", len(found))
	}
	return found
}

// dataFile has every way in which data is drawn: the partitions, both ways to sample
// a cohort, parts, users held out, and canaries so frequent that they collide.
const dataFile = `
name: data
seed: 5
data: {source: %s, vocabulary: {size: 70}, users: {words: 90}, validation: {fraction: 5%%}, held_out_users: {fraction: 10%%}}
canaries: {words: 3, per_configuration: 3, user_probability: [1/3, 10%%], example_probability: [1, 1/4], held_back: 2}
model: {embedding: 4, units: 5}
training: {rounds: 5, cohort: 6, chunks: 2}
audit: {random_sampling: {references: 400}}
grid:
  axes:
    data.partition: [by-user, iid]
    training:
      - {algorithm: fedavg}
      - {algorithm: fedavg, sampling: poisson, privacy: {clip: 0.3, noise_multiplier: 1, delta: 1e-5}}
      - {algorithm: sgd, steps_per_task: 2}
`

// coinsFile is the same with coins about users and about records.
var coinsFile = strings.NewReplacer(
	"name: data", "name: coins",
	"user_probability: [1/3, 10%%], example_probability: [1, 1/4]", "user_probability: [1%%], example_probability: [1/3]",
	"audit: {", "audit: {one_run: {canaries: 12, guesses: {k_plus: 6, k_minus: 6}}, ",
).Replace(dataFile)

// bytesFile has canaries of a format, which begin alike, in a share of the training
// part, and a model of convolutions.
const bytesFile = `
name: bytes
data: {source: %s, level: byte, sequence: 30, users: {words: 300}, share: 3/5}
canaries: {alphabet: digits, format: "pin ##-#", per_configuration: 4, user_probability: 1/20, example_probability: 1/4, held_back: 3}
model: {kind: gru, embedding: 4, units: 5}
training: {rounds: 2, cohort: 3}
audit: {random_sampling: {references: 200}, one_run: {canaries: 12, words: 8, guesses: {k_plus: 6, k_minus: 6}}}
grid: {axes: {model.kind: [gru, conv]}}
`

// wordFormsFile has formats of words, with listed ones and without, beside canaries that
// are all random, inserted chosen numbers of times.
const wordFormsFile = `
name: word-forms
seed: 3
data: {source: %s, vocabulary: {size: 98}, users: {words: 90}}
canaries:
  formats: [{words: 3}, {format: "w1 w2 # # w3 # w4"}, {format: "w5. # ## w6", symbols: [w9, w10, w8, w7, w11, w12]}, {words: 4}]
  insertions: [1, 7]
  per_configuration: 3
  held_back: 1
model: {embedding: 4, units: 5}
training: {algorithm: sgd, rounds: 4, cohort: 6, steps_per_task: 2}
audit: {random_sampling: {references: 150, prefix: 0, exact: true}, beam_search: {width: 2, prefix: 0}}
grid: {axes: {data.partition: [by-user, iid]}}
`

// byteFormsFile has formats of bytes over several alphabets, by chosen numbers and by
// probabilities, and a one-run audit beside them.
const byteFormsFile = `
name: byte-forms
data: {source: %s, level: byte, sequence: 30, users: {words: 300}}
canaries:
  formats: [{format: "pin ##-#", symbols: "9e7310"}, {format: "number ####", alphabet: digits}, {words: 5, alphabet: printable}]
  per_configuration: 2
  held_back: 2
model: {kind: gru, embedding: 4, units: 5}
training: {rounds: 2, cohort: 3}
audit: {random_sampling: {references: 80, prefix: 0, exact: true}, beam_search: {width: 2, prefix: 0}, one_run: {canaries: 12, words: 8, guesses: {k_plus: 6, k_minus: 6}}}
grid: {axes: {canaries: [{insertions: [1, 2, 16]}, {user_probability: [1/50, 1/20], example_probability: 1/4}]}}
`

// devicesFile divides users into devices, in every way there is, and mixes the data themselves
// in as a background.
const devicesFile = `
name: devices
seed: 5
data: {source: %[1]s, level: byte, sequence: 30, order: source, background: {source: %[1]s}}
canaries: {words: 8, insertions: [3, 12], per_configuration: 2, held_back: 1}
model: {kind: gru, embedding: 4, units: 5}
training: {rounds: 2, cohort: 3}
audit: {random_sampling: {references: 40}}
grid:
  axes:
    data.devices:
      - {}
      - {size: 30%%, iid: true}
      - {size: 4, at_least: 11, unseen: 1/4, held_out: 1/3}
      - {prior: chronological, size: 2}
      - {defence: {replace: 40%%}}
      - {unseen: 30%%, defence: {augment: 1.5}}
`

// groupsFile divides users into devices by albums, which every line names.
const groupsFile = `
name: groups
seed: 5
data: {source: %s, level: byte, sequence: 30, columns: {group: album}}
model: {kind: gru, embedding: 4, units: 5}
training: {rounds: 2, cohort: 3}
audit: {utility: true}
grid:
  axes:
    data.devices:
      - {prior: groups}
      - {prior: groups, size: 3, at_least_groups: 4, unseen: 1/4}
      - {prior: groups, size: 20%%, held_out: 1/3, iid: true}
`

// albums gives the texts of tests albums.
func albums(of func(line int) int) string {
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(string(taskstest.Text(1500))), "\n") {
		fmt.Fprintf(&out, "%s,\"album\":%d}\n", strings.TrimSuffix(line, "}"), of(i))
	}
	return out.String()
}

func TestGroupDevicesAreRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	program := testserver.Python(t, "hashlib")
	dirs := exportCells(t, smallRunOf(t, groupsFile, albums(func(line int) int { return line * line % 31 % 7 })))
	runPython(t, ".", append([]string{program, "-m", "check_data"}, dirs...)...)
}

// Users of one group alone are named before anything runs.
func TestUsersWithOneGroupAreRejected(t *testing.T) {
	t.Parallel()
	path, home := smallFiles(t, groupsFile, albums(func(int) int { return 7 }))
	code, _, messages := coalmine(t, "run", path, "--home", home)
	if said := messages; code != exitUsage || !strings.Contains(said, "has 1 group of ") || !strings.Contains(said, `"`) {
		t.Errorf("exit status %d, %s", code, said)
	}
}

func TestDataOfRunIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	program := testserver.Python(t, "numpy")
	for name, file := range map[string]string{
		"words": dataFile, "coins": coinsFile, "bytes": bytesFile, "devices": devicesFile, "formats of words": wordFormsFile, "formats of bytes": byteFormsFile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs := exportCells(t, smallRun(t, file))
			runPython(t, ".", append([]string{program, "-m", "check_data"}, dirs...)...)
			if strings.HasPrefix(name, "formats") {
				runPython(t, ".", append([]string{program, "-c", withoutTorch, "check_audit"}, dirs...)...)
			}
		})
	}
	t.Run("vectors", func(t *testing.T) {
		t.Parallel()
		runPython(t, ".", program, "-m", "check_streams")
	})
}

// updatesFile records all that devices send, whose number of examples differs.
const updatesFile = `
name: updates
data: {source: %s, vocabulary: {size: 60}, users: {words: 0}, devices: {size: 30%%, unseen: 1/4}}
model: {kind: lstm, embedding: 6, units: 8, layers: 2}
training: {rounds: 4, cohort: 6, chunks: 2, record: {every: 2}, checkpoints: {every: 1, keep: 9}, client: {learning_rate: 1}}
audit: {deanonymization: {attacks: [cosine]}}
`

// sharesFile has the noise of a guarantee in the updates of devices, and a cell without
// noise beside it.
const sharesFile = `
name: shares
seed: 4
data: {source: %s, vocabulary: {size: 60}, users: {words: 0}, devices: {size: 30%%}}
model: {kind: lstm, embedding: 6, units: 8}
training: {rounds: 2, cohort: 6, chunks: 2, record: {}, checkpoints: {every: 1, keep: 9}, client: {learning_rate: 1}}
audit: {deanonymization: {attacks: [cosine]}}
grid:
  axes:
    training.privacy:
      - {clip: 0.5}
      - {clip: 0.5, noise_multiplier: 1.5, noise_by: devices, delta: 1e-4}
`

func TestDeviceNoiseIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	program := testserver.Python(t, "math")
	home := smallRun(t, sharesFile)
	clean, noisy := exportCell(t, home, "c01"), exportCell(t, home, "c02")
	for cell, dir := range map[string]string{"c01": clean, "c02": noisy} {
		prints(t, "data", "export", "latest", cell, "--home", home, "-o", dir, "--only", "updates")
	}
	for _, round := range []string{"0", "1"} {
		prints(t, "export", "latest", "c02", "--home", home, "--round", round, "-o", filepath.Join(noisy, round))
	}
	share := fmt.Sprint(1.5 * 0.5 / math.Sqrt(6))
	runPython(t, noisy, program, "-m", "check_updates", "shares", ".", clean, "1", "0", "1", "4", share)
	if said := prints(t, "results", "latest", "--home", home, "--json"); !strings.Contains(said, "adds its share of the noise") {
		t.Errorf("the results do not say who adds the noise: %s", said)
	}
}

func TestExportedUpdatesReproduceNextModelElsewhere(t *testing.T) {
	t.Parallel()
	program := testserver.Python(t, "math")
	home := smallRun(t, updatesFile)
	dir := exportCell(t, home, "c01")
	if _, err := os.Stat(filepath.Join(dir, "updates.jsonl")); err == nil {
		t.Error("updates are written though nobody has asked for them")
	}
	prints(t, "data", "export", "latest", "c01", "--home", home, "-o", dir, "--only", "updates")
	for _, round := range []string{"1", "2", "3", "4"} {
		prints(t, "export", "latest", "c01", "--home", home, "--round", round, "-o", filepath.Join(dir, round))
	}
	for before, round := range map[string]string{"1": "2", "3": "4"} {
		runPython(t, dir, program, "-m", "check_updates", "tables", ".", round, before, round)
	}
}

// naturalFile finds secrets of every pattern in the text of the function below.
const naturalFile = `
name: natural
data: {source: %s, level: byte, sequence: 60, users: {words: 300}}
model: {kind: gru, embedding: 6, units: 8}
training: {rounds: 6, cohort: 4, client: {learning_rate: 1}}
audit: {natural: {patterns: [card, ssn, phone, email], own: ["x=[0-9]", "ref-[0-9]{2}", "code [a-c]!"], references: 300, show: true}}
`

// textWithSecrets is that of the other tests, with a secret in every tenth sentence.
func textWithSecrets() string {
	secrets := []string{"card 4111 1111 1111 1111", "ssn 078-05-1120", "call 212-555-0142", "to Jo.doe7@example.org", "see ref-42", "code b!", "x=7"}
	var b strings.Builder
	i := 0
	for line := range strings.Lines(string(taskstest.Text(1500))) {
		if i++; i%10 == 0 {
			line = strings.Replace(line, `"text":"`, `"text":"`+secrets[i/10%len(secrets)]+", ", 1)
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestNaturalSecretRanksAreRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	numpy := testserver.Python(t, "numpy")
	dirs := exportCells(t, smallRunOf(t, naturalFile, textWithSecrets()))
	runPython(t, ".", append([]string{numpy, "-c", withoutTorch, "check_natural"}, dirs...)...)
}

// samplesFile has samples of words and of bytes, drawn with and without a temperature and
// top-k, and a search.
const samplesFile = `
name: samples
data: {source: %s, users: {words: 300}}
model: {kind: gru, embedding: 6, units: 8}
training: {rounds: 12, cohort: 4, client: {learning_rate: 2}}
audit: {utility: true}
grid:
  axes:
    data: [{vocabulary: {size: 40}}, {level: byte}]
    audit.samples: [{count: 700, length: 7, expansions: 2000, shown: 6}, {count: 300, length: 5, temperature: 0.7, top_k: 20, expansions: 300}]
`

func TestSamplesAreRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	numpy := testserver.Python(t, "numpy")
	dirs := exportCells(t, smallRun(t, samplesFile))
	runPython(t, ".", append([]string{numpy, "-c", withoutTorch, "check_samples"}, dirs...)...)
}
