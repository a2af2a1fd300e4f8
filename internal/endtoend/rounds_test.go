package endtoend_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/must"
	"coalmine/workflows/results"
)

// roundsFile trains centrally, by federated averaging, and with both sorts of noise; the federated
// trainings pass a segment's boundary, and are measured before it.
const roundsFile = `
name: rounds
data: {source: text.jsonl, vocabulary: {size: 60}, users: {words: 50}}
model: {embedding: 8, units: 8}
training: {rounds: 104, cohort: 4, chunks: 2}
audit: {every: 50%}
grid:
  axes:
    training:
      - {algorithm: sgd, cohort: 4, steps_per_task: 1}
      - {algorithm: fedavg}
      - {privacy: {clip: 0.01, noise_multiplier: 1, delta: 1e-3}}
      - {sampling: separated, separation: 10, privacy: {clip: 0.01, noise_multiplier: 1, delta: 1e-3, mechanism: {kind: blt, buffers: 2}}}
`

// columns that a cell of the file has a number in, after every round.
var (
	always   = []string{"loss", "update_norm", "learning_rate", "tokens_per_second"}
	averaged = []string{"client_norm", "client_norm_median"}
	clipped  = []string{"clip", "clipped", "clipped_norm_median", "epsilon", "epsilon_proved"}
	columns  = [][]string{always, slices.Concat(always, averaged), slices.Concat(always, averaged, clipped), slices.Concat(always, averaged, clipped)}
)

func TestRoundsSurviveKillsInEveryFormat(t *testing.T) {
	t.Parallel()
	whole, killed := newWorkspace(t), newWorkspace(t)
	for _, w := range []workspace{whole, killed} {
		w.write("rounds.yaml", roundsFile)
	}
	printed(t, whole.coalmine("run", "rounds.yaml"))
	killed.killed("rounds.yaml", 40, 300, 250)
	printed(t, killed.coalmine("run", "rounds.yaml"))
	if got, want := killed.results(), whole.results(); got != want {
		t.Errorf("after kills the results are\n%s\nwant\n%s", got, want)
	}
	checkCurves(t, killed.results())
	got, want := killed.rounds(), whole.rounds()
	for i, cell := range got {
		checkColumns(t, i, cell)
		if !slices.EqualFunc(cell, want[i], sameButForSpeed) {
			t.Errorf("cell %d: after kills its rounds are others", i+1)
		}
	}
	if flat := killed.roundsInCSV(); !slices.EqualFunc(slices.Concat(got...), flat, sameNumbers) {
		t.Error("the rounds in CSV are others than in JSON")
	}
	if flat := killed.roundsInParquet(); !slices.EqualFunc(slices.Concat(got...), flat, sameNumbers) {
		t.Error("the rounds in Parquet are others than in JSON")
	}
}

// numbers are those of a round, by their columns; 0 is the same as none.
type numbers map[string]float64

func sameNumbers(a, b numbers) bool {
	for _, name := range slices.Concat(always, averaged, clipped, []string{"round", "tokens"}) {
		if a[name] != b[name] {
			return false
		}
	}
	return true
}

// sameButForSpeed leaves out fields that differ by execution.
func sameButForSpeed(a, b numbers) bool {
	a, b = numbers{"tokens_per_second": 0}.over(a), numbers{"tokens_per_second": 0}.over(b)
	return sameNumbers(a, b)
}

// over is other with these numbers in place of its own.
func (n numbers) over(other numbers) numbers {
	all := numbers{}
	maps.Copy(all, other)
	maps.Copy(all, n)
	return all
}

func checkColumns(t *testing.T, cell int, rounds []numbers) {
	t.Helper()
	if len(rounds) != 104 {
		t.Errorf("cell %d has %d rounds, want 104", cell+1, len(rounds))
	}
	for _, r := range rounds {
		for _, name := range columns[cell] {
			if r[name] <= 0 {
				t.Errorf("cell %d, round %v: %s is %v", cell+1, r["round"], name, r[name])
			}
		}
	}
}

// checkCurves looks for the columns in the curves of the results, where speeds are not: they would
// make equal runs unequal.
func checkCurves(t *testing.T, text string) {
	t.Helper()
	var found struct {
		Cells []struct{ Curve []map[string]any }
	}
	must.Do(t, json.Unmarshal([]byte(text), &found))
	for i, cell := range found.Cells {
		if len(cell.Curve) != 2 {
			t.Errorf("cell %d was measured %d times, want twice", i+1, len(cell.Curve))
		}
		for _, point := range cell.Curve {
			for _, name := range columns[i] {
				if name == "loss" {
					name = "training_loss"
				}
				if value, _ := point[name].(float64); (value > 0) != (name != "tokens_per_second") {
					t.Errorf("cell %d, round %v of the curve: %s is %v", i+1, point["round"], name, point[name])
				}
			}
		}
	}
}

// rounds are those of every cell of the newest run.
func (w workspace) rounds() (cells [][]numbers) {
	w.t.Helper()
	var all results.Rounds
	text := printed(w.t, w.coalmine("results", "--rows", "rounds", "--json"))
	must.Do(w.t, json.Unmarshal([]byte(text), &all))
	for i := range all.Cells {
		cells = append(cells, numbersOf(&all.Cells[i]))
	}
	return cells
}

func numbersOf(c *results.CellRounds) (rounds []numbers) {
	for i, row := range c.Values() {
		r := numbers{"tokens_per_second": c.Rounds[i].TokensPerSecond}
		for _, v := range row {
			r[v.Column] = v.Number
		}
		rounds = append(rounds, r)
	}
	return rounds
}

func (w workspace) roundsInCSV() (rounds []numbers) {
	w.t.Helper()
	text := printed(w.t, w.coalmine("results", "--rows", "rounds", "--format", "csv"))
	lines := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(w.t)
	for _, line := range lines[1:] {
		r := numbers{}
		for i, name := range lines[0] {
			var value float64
			if n, _ := fmt.Sscan(line[i], &value); n == 1 {
				r[name] = value
			}
		}
		rounds = append(rounds, r)
	}
	return rounds
}

func (w workspace) roundsInParquet() []numbers {
	w.t.Helper()
	path := filepath.Join(w.dir, "rounds.parquet")
	printed(w.t, w.coalmine("results", "--rows", "rounds", "--format", "parquet", "-o", path))
	data := must.Get(os.ReadFile(path))(w.t)
	rows := must.Get(parquet.Read[results.Round](bytes.NewReader(data), int64(len(data))))(w.t)
	return numbersOf(&results.CellRounds{Rounds: rows})
}
