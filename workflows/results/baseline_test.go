package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

const hardlyLearned = `{"recall_at_1":0.05,"perplexity":400,"tokens":9000,"baseline":{"recall_at_1":0.052,"perplexity":389.1,"tokens":9000},"at_baseline":true}`

// Every row with a number of memorization says that its model has hardly learned: without that, "not memorized" misleads. The
// column is the last one, so that readers by number keep theirs; it is null where nobody compared.
func TestRowsMarkModelsAtBaseline(t *testing.T) {
	t.Parallel()
	for rows, file := range map[Rows]string{
		Canaries: "canaries.json", Attacks: "attacks.json", AttackedUsers: "attacks.json",
		Membership: "membership.json", Means: "", Differences: "",
	} {
		t.Run(string(rows), func(t *testing.T) {
			t.Parallel()
			r := replicated(t)
			if file != "" {
				r = read(t, file)
			}
			r.Cells[0].Utility = json.RawMessage(hardlyLearned)
			marked := []string{r.Cells[0].Cell}
			if row := r.Cells[0].Row; row != nil {
				marked = append(marked, row.Name)
			}
			list := csvRows(t, r, rows)
			last := len(list[0]) - 1
			if list[0][last] != atBaseline || len(list) < 2 {
				t.Fatalf("%d rows of %q; want at_baseline last", len(list)-1, list[0])
			}
			found := 0
			for _, row := range list[1:] {
				want := ""
				if slices.ContainsFunc(marked, func(name string) bool { return slices.Contains(row, name) }) {
					want, found = "true", found+1
				}
				if row[last] != want {
					t.Errorf("at_baseline of %q is %q, want %q", row, row[last], want)
				}
			}
			if found == 0 {
				t.Error("no row is about the model at its baseline")
			}
			checkOtherForms(t, r, rows)
		})
	}
}

// csvRows returns the header and the rows of a table.
func csvRows(t *testing.T, r *Results, rows Rows) [][]string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.WriteRows(&b, "csv", rows))
	return must.Get(csv.NewReader(&b).ReadAll())(t)
}

// checkOtherForms finds the column in Parquet and in the text table, which omits it if no model is at its baseline.
func checkOtherForms(t *testing.T, r *Results, rows Rows) {
	t.Helper()
	var file, table, without bytes.Buffer
	must.Do(t, r.WriteRows(&file, "parquet", rows))
	if !strings.Contains(string(describeParquet(t, file.Bytes())), " at_baseline true\n") {
		t.Errorf("Parquet of %s lacks the column", rows)
	}
	must.Do(t, r.WriteRows(&table, "table", rows))
	r.Cells[0].Utility = json.RawMessage(strings.Replace(hardlyLearned, `"at_baseline":true`, `"at_baseline":false`, 1))
	must.Do(t, r.WriteRows(&without, "table", rows))
	if !strings.Contains(table.String(), atBaseline) || strings.Contains(without.String(), atBaseline) && rows != Means && rows != Differences {
		t.Errorf("the table of %s has the column, with a model at its baseline: %t, without: %t", rows, strings.Contains(table.String(), atBaseline), strings.Contains(without.String(), atBaseline))
	}
}
