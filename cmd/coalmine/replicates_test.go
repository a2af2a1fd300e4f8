package main

import (
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
)

const replicatesFile = `
name: replicates
data: {source: %q, vocabulary: {size: 30}, users: {words: 100}, test: {fraction: 10%%}}
canaries: {words: 4, per_configuration: 3, user_probability: 1/2, example_probability: [10%%, 100%%], held_back: 2}
model: {embedding: 6, units: 8}
training: {rounds: 12, cohort: 6, client: {learning_rate: 4}}
audit: {random_sampling: {references: 400}, beam_search: {width: 3}}
grid:
  axes: {data.partition: [iid, by-user], training.rounds: [12, 2]}
  replicates: 2
`

// replicatesHome has a run of three seeds, after one of two.
func replicatesHome(t *testing.T) (home, file string) {
	t.Helper()
	file, home = smallFiles(t, replicatesFile, spendingText())
	outputOf(t, home, "run", file)
	return home, file
}

// The cells of the first two seeds are found as they were: they have run, and only those of
// the third are planned.
func TestAddedSeedReusesCachedCells(t *testing.T) {
	t.Parallel()
	home, file := replicatesHome(t)
	var planned struct {
		Cells []struct {
			Cell   string `json:"cell"`
			Cached bool   `json:"cached"`
		} `json:"cells"`
	}
	decodeJSON(t, outputOf(t, home, "plan", file, "--set", "grid.replicates=3", "--json"), &planned)
	for i, c := range planned.Cells {
		if c.Cached != (i < 8) {
			t.Errorf("cell %d, %s, of three seeds: cached %v", i, c.Cell, c.Cached)
		}
	}
	if len(planned.Cells) != 12 {
		t.Errorf("%d cells", len(planned.Cells))
	}
}

// Every mean, interval and difference of a real run, by SciPy from its rows of canaries.
func TestReplicatesAreRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	interpreter := testserver.Python(t, "scipy")
	home, file := replicatesHome(t)
	outputOf(t, home, "run", file, "--set", "grid.replicates=3")
	dir := filepath.Dir(file)
	for _, rows := range []string{"cells", "canaries", "means", "differences"} {
		text := outputOf(t, home, "results", "--format", "csv", "--rows", rows)
		writeFile(t, filepath.Join(dir, rows+".csv"), text)
	}
	runPython(t, dir, interpreter, "-m", "check_replicates", ".")
	compared := outputOf(t, home, "compare", "latest/r01", "latest/r04")
	if !strings.Contains(compared, "data.partition: iid -> by-user") || !strings.Contains(compared, ", p ") {
		t.Errorf("compare prints:\n%s", compared)
	}
}
