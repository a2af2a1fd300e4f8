package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/tasks/taskstest"
)

// What every kind of command has to say about: a grid, clipping with noise, canaries, audits.
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
// run, OUT for a place to write to.
var jsonCommands = []string{
	"plan FILE --cores 4", "run FILE", "status", "status RUN", "results RUN", "results RUN --table rounds", "compare RUN/c01 RUN/c02",
	"logs RUN", "show RUN", "show RUN c01", "show RUN c01 --nodes", "sample RUN c02", "export RUN c02 -o OUT", "data inspect FILE",
	"data export RUN c01 -o OUT/data", "account --population 1000 --cohort 10 --rounds 10 --noise-multiplier 1 --delta 1e-5",
	"account RUN", "verify RUN --sample 3", "pin RUN", "unpin RUN", "priority RUN 3", "gc --dry-run", "rm RUN", "version",
}

// nullable are values that may be null, each because nothing tells it; docs/api.md says so.
// Lists are never null.
var nullable = []string{"seconds_left", "lowest", "exposure_se", "before", "after"}

func TestCommandsSpeakOneJSON(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, home := smallFiles(t, jsonFile, string(taskstest.Text(1500)))
	words := strings.NewReplacer("FILE", file, "RUN", "latest", "OUT/data", filepath.Join(dir, "data"), "OUT", filepath.Join(dir, "model"))
	for _, line := range jsonCommands {
		printed := outputOf(t, home, append(strings.Fields(words.Replace(line)), "--json")...)
		var v any
		if err := json.Unmarshal(printed, &v); err != nil {
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

// incoherent lists what differs from how all commands speak, below a path.
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

func TestOneFormatIsAskedFor(t *testing.T) {
	t.Parallel()
	var out, messages bytes.Buffer
	code := execute(t.Context(), []string{"results", "--json", "--format", "csv", "--home", t.TempDir()}, &out, &messages)
	if code != exitUsage || !strings.Contains(messages.String(), "--format csv with --json") {
		t.Errorf("exit status %d: %s", code, messages.String())
	}
}
