package main

import (
	"encoding/csv"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/workflows/results"
)

// 130 rounds: one whole segment of metric rows, and an open one; of central training
// two tasks and a tail.
const roundsFile = `
name: rounds
data: {source: %q, vocabulary: {size: 30}, users: {words: 100}}
model: {embedding: 3, units: 4}
grid:
  axes:
    training:
      - {rounds: 130, cohort: 4, chunks: 2, privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-5, adaptive: {count_noise: 2}}}
      - {rounds: 3, cohort: 4, chunks: 2}
      - {algorithm: sgd, rounds: 50, cohort: 4, steps_per_task: 20}
`

// outputOf returns the output of a command about the runs of a home.
func outputOf(t *testing.T, home string, args ...string) string {
	t.Helper()
	return prints(t, append(args, "--home", home)...)
}

func TestEveryRoundHasARowWithNorms(t *testing.T) {
	t.Parallel()
	file, home := smallFiles(t, roundsFile, spendingText())
	outputOf(t, home, "run", file)
	var found results.Rounds
	decodeJSON(t, outputOf(t, home, "results", "--rows", "rounds", "--json"), &found)
	checkAdaptive(t, found.Cells[0].Rounds)
	checkUnclipped(t, found.Cells[1].Rounds)
	checkRates(t, &found)
	var steps []int64
	for _, r := range found.Cells[2].Rounds {
		steps = append(steps, r.Round)
	}
	if !slices.Equal(steps, []int64{20, 40, 50}) {
		t.Errorf("the tasks of central training end at %v", steps)
	}
	checkFlatRounds(t, home, &found)

	// A longer training closes the segment, and leaves the record of the last round.
	outputOf(t, home, "run", file, "--set", "grid.axes.training=[{rounds: 230, cohort: 4, chunks: 2, privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-5, adaptive: {count_noise: 2}}}]")
	var again results.Rounds
	decodeJSON(t, outputOf(t, home, "results", found.Run, "--rows", "rounds", "--json"), &again)
	if !slices.EqualFunc(again.Cells[0].Rounds, found.Cells[0].Rounds, equalButForSpeed) {
		t.Errorf("once a longer training has run, the run of 130 rounds has %d rows, or others", len(again.Cells[0].Rounds))
	}
}

func equalButForSpeed(a, b results.Round) bool {
	a.TokensPerSecond, b.TokensPerSecond = 0, 0 // records that have gone told more
	return reflect.DeepEqual(a, b)
}

// checkRates holds learning rates to the file. Every round has a speed, which commits tell.
func checkRates(t *testing.T, found *results.Rounds) {
	t.Helper()
	server := []float64{1, 1, 0}
	for i, rate := range []float64{0.5, 0.5, 0.005} {
		for j, r := range found.Cells[i].Rounds {
			if r.LearningRate != rate || r.ServerLearningRate != server[i] {
				t.Errorf("cell %d, row %d: learning rates %v and %v", i+1, j, r.LearningRate, r.ServerLearningRate)
			}
			if r.TokensPerSecond <= 0 {
				t.Errorf("cell %d, row %d: %v tokens/s", i+1, j, r.TokensPerSecond)
			}
		}
	}
}

func checkAdaptive(t *testing.T, rounds []results.Round) {
	t.Helper()
	if len(rounds) != 130 {
		t.Fatalf("%d rounds, want 130", len(rounds))
	}
	clips := map[float64]bool{}
	for i, r := range rounds {
		clips[r.Clip] = true
		n, c := r.Norms, r.ClippedNorms
		ascending := slices.IsSorted([]float64{0, n.Min, n.Tenth, n.Quarter, n.Median, n.ThreeQuarters, n.NineTenths, n.Largest})
		if r.Round != int64(i+1) || r.Clients != 4 || n.Min == 0 || !ascending || r.EpsilonProved == 0 {
			t.Errorf("row %d is %+v", i, r)
		}
		if c.Largest != min(n.Largest, r.Clip) || c.Median != min(n.Median, r.Clip) || (r.Clipped > 0) != (n.Largest > r.Clip) {
			t.Errorf("round %d: clip norm %v, norms %+v, clipped to %+v, a share of %v", r.Round, r.Clip, n, c, r.Clipped)
		}
	}
	if len(clips) < 100 || !clips[0.1] {
		t.Errorf("an adaptive clip norm that begins at 0.1 has the values %v", clips)
	}
}

func checkUnclipped(t *testing.T, rounds []results.Round) {
	t.Helper()
	for _, r := range rounds {
		if r.Norms.Largest == 0 || r.ClippedNorms != (results.ClippedNorms{}) || r.Clip != 0 {
			t.Errorf("a round without clipping: %+v", r)
		}
	}
	if len(rounds) != 3 {
		t.Errorf("%d rounds, want 3", len(rounds))
	}
}

// checkFlatRounds compares the forms with one row a round with the JSON.
func checkFlatRounds(t *testing.T, home string, want *results.Rounds) {
	t.Helper()
	type row struct {
		Cell   string  `parquet:"cell"`
		Round  int64   `parquet:"round"`
		Clip   float64 `parquet:"clip,optional"`
		Median float64 `parquet:"client_norm_median,optional"`
	}
	var expected []row
	for _, c := range want.Cells {
		for _, r := range c.Rounds {
			expected = append(expected, row{c.Cell, r.Round, r.Clip, r.Norms.Median})
		}
	}
	data := outputOf(t, home, "results", "--rows", "rounds", "--format", "parquet")
	if got, err := parquet.Read[row](strings.NewReader(data), int64(len(data))); err != nil || !slices.Equal(got, expected) {
		t.Errorf("Parquet: %d rows, %v; want the %d of the JSON", len(got), err, len(expected))
	}
	lines, err := csv.NewReader(strings.NewReader(outputOf(t, home, "results", "--rows", "rounds", "--format", "csv"))).ReadAll()
	if err != nil || len(lines) != len(expected)+1 {
		t.Fatalf("CSV: %d lines, %v; want a header and %d", len(lines), err, len(expected))
	}
	number := func(line []string, column string) float64 {
		text := line[slices.Index(lines[0], column)]
		if text == "" {
			return 0
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Error(err)
		}
		return x
	}
	for i, line := range lines[1:] {
		if got := (row{line[slices.Index(lines[0], "cell")], int64(number(line, "round")), number(line, "clip"), number(line, "client_norm_median")}); got != expected[i] {
			t.Errorf("CSV line %d: %+v, want %+v", i+2, got, expected[i])
		}
	}
}

func TestUnknownRowsAndFormatsAreRejected(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`--rows: format latex has no rows of rounds; expected one of table, json, csv, parquet`:                                             {"results", "--rows", "rounds", "--format", "latex"},
		`--rows: rows "clients": expected one of cells, canaries, attacks, attacked-users, membership, means, differences, numbers, rounds`: {"results", "--rows", "clients"},
	} {
		refuses(t, want, append(args, "--home", t.TempDir())...)
	}
}
