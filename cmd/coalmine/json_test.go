package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
)

// An experiment with subjects for every kind of command: a grid, clipping with noise,
// canaries, audits.
const jsonFile = `
name: json
data: {source: %q, vocabulary: {size: 30}, users: {words: 100}, test: {fraction: 10%%}}
model: {embedding: 3, units: 4}
canaries: {user_probability: [1/4], example_probability: [100%%], per_configuration: 2}
audit: {random_sampling: {references: 200}, beam_search: {}}
grid:
  axes:
    training:
      - {rounds: 3, cohort: 4, chunks: 2, privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-5}}
      - {algorithm: sgd, rounds: 5, cohort: 4, steps_per_task: 5}
`

// jsonCommands are commands that print JSON; FILE stands for the experiment, RUN for its
// run, SOURCE for its data, OUT for a place to write to. They run in this order, and RUN is the
// newest.
var jsonCommands = []string{
	"init OUT.yaml --data SOURCE", "plan FILE --cores 4", "power FILE", "run FILE", "status", "status RUN", "results RUN", "results RUN --table rounds", "compare RUN/c01 RUN/c02",
	"logs RUN", "show RUN", "show RUN c01", "show RUN c01 --nodes", "sample RUN c02", "export RUN c02 -o OUT", "data inspect FILE",
	"data export RUN c01 -o OUT/data", "account --population 1000 --cohort 10 --rounds 10 --noise-multiplier 1 --delta 1e-5",
	"account RUN", "verify RUN --sample 3", "pin RUN", "unpin RUN", "priority RUN 3", "note RUN noisy", "tag RUN paper", "watch RUN",
	"canaries export FILE -o OUT/canaries", "data import SOURCE --name json", "data list", "data remove json",
	"submit FILE --new --set seed=3", "pause RUN", "resume RUN", "cancel RUN", "gc --dry-run", "rm RUN", "bench", "version", "version --licenses", "explain training.privacy", "explain random_sampling_memorized", "explain results",
}

// jsonElsewhere are the other commands, each with why it is not among those.
var jsonElsewhere = map[string]string{
	"audit":                "asks a model for long, and has null for what of a canary was not asked; its tests decode its JSON",
	"retry":                "wants a failed run, and prints what pause prints",
	"demo":                 "trains for 40 seconds, and prints the output of run",
	"data example":         "needs Python; examples_test.go runs it",
	"drain":                "wants a live worker, and prints a list of ids",
	"contract check score": "asks a program; its tests decode its JSON", "contract check train": "asks a program; its tests decode its JSON",
	"contract check client": "asks a program; its tests decode its JSON",
	"data convert idx":      "has its own files; images_test.go decodes what convert prints", "data convert tff": "as data convert idx",
	"data convert leaf": "as data convert idx", "data convert parquet": "as data convert idx", "data convert folder": "as data convert idx", "data convert texts": "as data convert idx",
	"serve": "runs until it is ended, and prints no facts", "worker": "runs until it is ended, and prints no facts",
	"health":          "answers by its exit status",
	"schema":          "prints a JSON Schema, whose names are the schema's",
	"completion bash": "prints a script of the shell", "completion zsh": "as completion bash", "completion fish": "as completion bash", "completion powershell": "as completion bash",
}

// A command that is new stands in one of the lists.
func TestEveryCommandHasJSONTestOrExemption(t *testing.T) {
	t.Parallel()
	root := newRoot(io.Discard, io.Discard)
	tested := make(map[string]bool)
	for _, line := range jsonCommands {
		c, _, err := root.Find(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		tested[c.CommandPath()] = true
	}
	known := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			walk(below)
		}
		if !c.Runnable() || c.HasSubCommands() {
			return
		}
		_, excepted := jsonElsewhere[strings.TrimPrefix(c.CommandPath(), "coalmine ")]
		if excepted {
			known++
		}
		if tested[c.CommandPath()] == excepted {
			t.Errorf("%s is in both lists or in none: add it to jsonCommands, or to jsonElsewhere with the reason", c.CommandPath())
		}
	}
	walk(root)
	if known != len(jsonElsewhere) {
		t.Errorf("%d of the %d commands of jsonElsewhere exist", known, len(jsonElsewhere))
	}
}

// nullable are values that may be null, each because nothing tells it; docs/api.md says so.
// Lists are never null.
var nullable = []string{"seconds_left", "lowest", "exposure_se", "before", "after"}

func TestCommandsPrintCoherentJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, home := smallFiles(t, jsonFile, string(taskstest.Text(1500)))
	words := strings.NewReplacer("FILE", file, "SOURCE", filepath.Join(filepath.Dir(file), "text.jsonl"), "RUN", "latest", "OUT/canaries", filepath.Join(dir, "canaries"), "OUT/data", filepath.Join(dir, "data"), "OUT", filepath.Join(dir, "model"))
	for _, line := range jsonCommands {
		printed := outputOf(t, home, append(strings.Fields(words.Replace(line)), "--json")...)
		var v any
		if err := json.Unmarshal([]byte(printed), &v); err != nil {
			t.Errorf("%s prints no JSON: %v: %.200s", line, err, printed)
		}
		if _, object := v.(map[string]any); !object && !strings.HasPrefix(line, "sample") {
			t.Errorf("%s prints no object: %.200s", line, printed)
		}
		for _, problem := range incoherent("", v) {
			t.Errorf("%s: %s", line, problem)
		}
	}
}

var (
	snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	// Axes and parameters have the paths of experiment files.
	paths = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`)
)

// incoherent lists deviations from the conventions of all commands, below a path.
func incoherent(path string, v any) (problems []string) {
	switch v := v.(type) {
	case map[string]any:
		allowed := snakeCase
		if strings.HasSuffix(path, ".axes") || strings.HasSuffix(path, ".parameters") {
			allowed = paths
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			below := path + "." + name
			if !allowed.MatchString(name) {
				problems = append(problems, below+" is no snake_case")
			}
			if v[name] == nil && !slices.Contains(nullable, name) && allowed == snakeCase {
				problems = append(problems, below+" is null")
				continue
			}
			if _, word := v[name].(string); name == "status" && word && v["state"] != v[name] {
				problems = append(problems, path+" has a status that is not its state")
			}
			problems = append(problems, incoherent(below, v[name])...)
		}
	case []any:
		for _, element := range v {
			problems = append(problems, incoherent(path+"[]", element)...)
		}
	}
	return problems
}

func TestFormatWithJSONFlagIsRejected(t *testing.T) {
	t.Parallel()
	refuses(t, "--format csv with --json", "results", "--json", "--format", "csv", "--home", t.TempDir())
}

// Standard error tells once which run a name was taken for, and standard output has the
// facts alone.
func TestAmbiguousRunNameSelectsNewest(t *testing.T) {
	t.Parallel()
	file, home := smallFiles(t, jsonFile, string(taskstest.Text(1500)))
	must.Do(t, os.Mkdir(home, 0o700))
	outputOf(t, home, "submit", file)
	var newest control.Submitted
	decodeJSON(t, outputOf(t, home, "submit", file, "--set", "seed=3", "--json"), &newest)
	code, out, messages := coalmine(t, "results", "json", "--json", "--home", home)
	if code != exitDone {
		t.Fatalf("exit status %d: %s", code, messages)
	}
	var found results.Results
	decodeJSON(t, out, &found)
	if want := fmt.Sprintf("%q fits 2 runs; using the newest, %s\n", "json", newest.Run); found.Run != newest.Run || messages != want {
		t.Errorf("results of %s, and %q; want those of %s, and %q", found.Run, messages, newest.Run, want)
	}
}
