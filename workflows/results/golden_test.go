package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// recorded are the results of a run of six cells, by-user and iid, without privacy,
// with clipping and with noise, of which three have failed; as a program got them by
// results --format json.
func recorded(t *testing.T) *Results { return read(t, "results.json") }

func read(t *testing.T, name string) *Results {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	r := new(Results)
	must.Do(t, json.Unmarshal(data, r))
	return r
}

// Programs read these, and people have them in papers: fields and columns may be
// added, none may move.
func TestResultsMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, format := range FormatNames() {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			taskstest.File(t, filepath.Join("testdata", "results."+format), []byte(written(t, recorded(t), format)))
		})
	}
}

// Both cells have the same canaries, and in the second no beam search was asked for.
func TestCanaryRowsMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, format := range FormatNames() {
		f := must.Get(FormatNamed(format))(t)
		if f.Has(Canaries) != nil {
			continue
		}
		var b bytes.Buffer
		must.Do(t, read(t, "canaries.json").WriteRows(&b, format, Canaries))
		written := b.Bytes()
		if format == "parquet" {
			written = describeParquet(t, written)
		}
		taskstest.File(t, filepath.Join("testdata", "canaries."+format), written)
	}
}

// JSON has all fields: the sequence found in place of a canary and its cost, and every
// coin with its score and guess.
func TestJSONHasAllFieldsOfCanaries(t *testing.T) {
	t.Parallel()
	taskstest.File(t, filepath.Join("testdata", "canaries.json"), []byte(written(t, read(t, "canaries.json"), "json")))
	for _, cell := range read(t, "canaries.json").Cells {
		for _, c := range cell.Audit.Canaries() {
			for _, name := range []string{"beam_best", "beam_log_perplexity", "beam_canary_log_perplexity"} {
				if _, there := c.Outcomes.Get(name); there != (cell.Cell == "c01") {
					t.Errorf("%s, canary %q: has %s: %v", cell.Cell, c.Words, name, there)
				}
			}
		}
	}
}

func TestTheDocsNameEveryFormat(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"../../docs/commands.md", "../../docs/api.md"} {
		text := must.Get(os.ReadFile(page))(t)
		for _, format := range FormatNames() {
			if !strings.Contains(string(text), "`"+format+"`") && !strings.Contains(string(text), "--format "+format) {
				t.Errorf("%s does not name the format %s", page, format)
			}
		}
	}
}

// describeParquet is the schema of a file and its rows, one value a line.
func describeParquet(t *testing.T, file []byte) []byte {
	t.Helper()
	f := must.Get(parquet.OpenFile(bytes.NewReader(file), int64(len(file))))(t)
	out := bytes.NewBufferString(f.Schema().String() + "\n")
	rows := make([]parquet.Row, f.NumRows())
	for _, group := range f.RowGroups() {
		if n, err := group.Rows().ReadRows(rows); n != len(rows) {
			t.Fatalf("%d of %d rows: %v", n, len(rows), err)
		}
	}
	columns := f.Schema().Columns()
	for i, row := range rows {
		for _, v := range row {
			fmt.Fprintf(out, "%d %s %v\n", i, columns[v.Column()][0], v)
		}
	}
	return out.Bytes()
}
