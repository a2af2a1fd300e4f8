package results_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/must"
	"coalmine/tasks/checkpoints"
	"coalmine/workflows/results"
)

// mixed are rounds of a training with a seed and of one with a secret key, as JSON has them.
const mixed = `{"run":"r","experiment":"e","cells":[
{"cell":"c01","label":"seeded","axes":{},"rounds":[{"round":1,"clients":4,"examples":0,"tokens":139,"loss":2.5,"update_norm":3}]},
{"cell":"c02","label":"secret","axes":{},"rounds":[{"round":1,"update_norm":4}],"withheld":["clients","examples","tokens","loss"]}]}`

// Numbers that are withheld are absent in every format, and zeros of others are not.
func TestWithheldNumbersAreAbsent(t *testing.T) {
	t.Parallel()
	var rounds results.Rounds
	must.Do(t, json.Unmarshal([]byte(mixed), &rounds))
	written := map[string]string{}
	for _, format := range []string{"json", "csv", "parquet"} {
		var b bytes.Buffer
		must.Do(t, rounds.Write(&b, format))
		written[format] = b.String()
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(written["json"])); err != nil || compact.String() != strings.ReplaceAll(mixed, "\n", "") {
		t.Errorf("as JSON they are\n%s\n%v", &compact, err)
	}
	lines := strings.Split(written["csv"], "\n")
	for i, want := range []string{"cell,label,round,clients,examples,tokens,loss,update_norm", "c01,seeded,1,4,0,139,2.5,3", "c02,secret,1,,,,,4"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %q; want %q in it", i, lines[i], want)
		}
	}
	type row struct {
		Cell     string   `parquet:"cell"`
		Examples *int64   `parquet:"examples"`
		Tokens   *int64   `parquet:"tokens"`
		Loss     *float64 `parquet:"loss"`
		Norm     float64  `parquet:"update_norm"`
	}
	rows, err := parquet.Read[row](strings.NewReader(written["parquet"]), int64(len(written["parquet"])))
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	seeded, secret := rows[0], rows[1]
	if seeded.Examples == nil || *seeded.Examples != 0 || *seeded.Tokens != 139 || *seeded.Loss != 2.5 || seeded.Norm != 3 {
		t.Errorf("the row with a seed is %+v", seeded)
	}
	if secret.Examples != nil || secret.Tokens != nil || secret.Loss != nil || secret.Norm != 4 || secret.Cell != "c02" {
		t.Errorf("the row with a secret key is %+v", secret)
	}
}

// A program need not tell its loss; 0 would be a perfect one.
func TestUnreportedLossIsAbsent(t *testing.T) {
	t.Parallel()
	rounds := results.Rounds{Cells: []results.CellRounds{{Cell: "c01", Rounds: []results.Round{
		{Row: checkpoints.Row{Round: 1, Tokens: 7}}, {Row: checkpoints.Row{Round: 2, Tokens: 7, Loss: 2.5}},
	}}}}
	for format, want := range map[string]string{"csv": ",1,0,0,7,,0,", "json": `"tokens": 7,
     "update_norm": 0`} {
		var b bytes.Buffer
		must.Do(t, rounds.Write(&b, format))
		if !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "2.5") {
			t.Errorf("%s has no %q:\n%s", format, want, &b)
		}
	}
}

// A program tells rounds, losses and counts alone. Norms, and counts that it did not tell, are absent
// from every format, also of rounds that were read from a server.
func TestUnreportedNumbersOfProgramAreAbsent(t *testing.T) {
	t.Parallel()
	const program = `{"run":"r","experiment":"e","cells":[{"cell":"c01","label":"program","axes":{},"rounds":[{"round":1,"tokens":7,"loss":2.5},{"round":2,"clients":3,"examples":5,"loss":2}]}]}`
	var rounds results.Rounds
	must.Do(t, json.Unmarshal([]byte(program), &rounds))
	again, err := json.Marshal(rounds)
	if err != nil || string(again) != program {
		t.Errorf("as JSON they are\n%s\n%v", again, err)
	}
	var b bytes.Buffer
	must.Do(t, rounds.Write(&b, "csv"))
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[0], ",round,clients,examples,tokens,loss,update_norm,client_norm,clipped,noise_deviation,") ||
		!strings.Contains(lines[1], "program,1,,,7,2.5,,,,,") || !strings.Contains(lines[2], "program,2,3,5,,2,,,,,") {
		t.Errorf("as CSV they are\n%s", &b)
	}
	for _, row := range rounds.Cells[0].Values() {
		for _, v := range row {
			if v.Number == 0 {
				t.Errorf("trackers are told of a %s of 0", v.Column)
			}
		}
	}
}

// Central training has no clients, and 0 of them would be an empty cohort.
func TestCentralTrainingHasNoClients(t *testing.T) {
	t.Parallel()
	rounds := results.Rounds{Cells: []results.CellRounds{{Rounds: []results.Round{
		{Row: checkpoints.Row{Round: 1, Examples: 2, Tokens: 7, Loss: 2.5, UpdateNorm: 1}},
		{Row: checkpoints.Row{Round: 2, UpdateNorm: 0}},
	}}}}
	var b bytes.Buffer
	must.Do(t, rounds.Write(&b, "csv"))
	lines := strings.Split(b.String(), "\n")
	if !strings.Contains(lines[1], ",1,,2,7,2.5,1,,0,0,") || !strings.Contains(lines[2], ",2,0,0,0,,0,0,0,0,") {
		t.Errorf("central training and an empty cohort are\n%s", &b)
	}
}
