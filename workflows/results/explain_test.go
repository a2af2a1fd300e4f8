package results

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
)

// Columns of fields and of metrics have names of others; all other columns of recorded results are explained.
func TestEveryColumnIsExplained(t *testing.T) {
	t.Parallel()
	columns := Columns()
	explained := func(rows Rows, names []string) {
		for _, name := range names {
			if strings.Contains(name, ".") || strings.HasSuffix(name, "_infinite") {
				continue
			}
			if !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == name && slices.Contains(c.Rows, rows) && c.Doc != "" }) {
				t.Errorf("no sentence explains the column %s of --rows %s", name, rows)
			}
		}
	}
	for _, name := range []string{"results.json", "replicates.json", "canaries.json", "attacks.json", "membership.json"} {
		v := must.Get(read(t, name).view())(t)
		for rows := range flatTables {
			explained(rows, must.Get(v.flat(rows))(t).header())
		}
		for _, header := range v.table().Header {
			if header != "setting" && header != "seeds" && header != "status" && header != gateHeader && !slices.ContainsFunc(columns, func(c Column) bool { return c.Header == header }) {
				t.Errorf("no sentence explains the header %q of the table", header)
			}
		}
	}
	explained(RoundRows, (&Rounds{}).table().header())
	for _, structs := range [][]any{{replicateRow{}}, {soFarRow{}}, {gateRow{}, unjudgedRow{}}} {
		explained(Cells, newFlatTable("", structs).header())
	}
}

// Every number of an outcome in JSON has a column or a sentence of its own.
func TestEveryNumberIsExplained(t *testing.T) {
	t.Parallel()
	for _, c := range Columns() {
		if c.Doc == "" {
			t.Errorf("no sentence explains %s%s", c.Name, c.Path)
		}
	}
	for _, name := range []string{"exposure.highest", "audit.exposure.highest", "beam_search.width", "utility.tokens", "all_targets.perplexity", "linking.next.share", "classifier.score", "attacks.curve"} {
		if len(Explain(name)) == 0 || Explain(name)[0].Doc == "" {
			t.Errorf("%s: %+v", name, Explain(name))
		}
	}
	for path := range recordedNumbers(t) {
		if len(Explain(path)) == 0 {
			t.Errorf("no sentence explains %s", path)
		}
	}
	for path, column := range map[string]string{"utility.perplexity": "perplexity", "audit.linking.ap": "linking_ap", "one_run.trade_off.epsilon_lower": "one_run_trade_off_epsilon_lower"} {
		if found := Explain(path); len(found) != 1 || found[0].Name != column {
			t.Errorf("%s: %+v, want the column %s", path, found, column)
		}
	}
}

// recordedNumbers returns the paths of the numbers of outcomes in recorded JSON, without those of canaries, which
// are columns.
func recordedNumbers(t *testing.T) map[string]bool {
	paths := map[string]bool{}
	for _, name := range []string{"results.json", "replicates.json", "canaries.json", "attacks.json", "membership.json"} {
		var recorded struct {
			Cells []struct {
				Utility any            `json:"utility"`
				Audit   map[string]any `json:"audit"`
			} `json:"cells"`
		}
		must.Do(t, json.Unmarshal(must.Get(os.ReadFile("testdata/"+name))(t), &recorded))
		for _, cell := range recorded.Cells {
			everyNumber(cell.Utility, "utility", paths)
			for key, outcome := range cell.Audit {
				if key != "canaries" && key != "controls" && key != "never_inserted" {
					everyNumber(outcome, key, paths)
				}
			}
		}
	}
	return paths
}

// everyNumber adds the path of each number in a decoded JSON value, without the places in lists.
func everyNumber(of any, path string, paths map[string]bool) {
	switch v := of.(type) {
	case map[string]any:
		for key, value := range v {
			everyNumber(value, path+"."+key, paths)
		}
	case []any:
		for _, value := range v {
			everyNumber(value, path, paths)
		}
	case float64:
		paths[path] = true
	}
}

// The ends of an interval by Student's t are not cut at the range of the values, and their sentences say it.
func TestEndsOutsideTheRangeAreExplained(t *testing.T) {
	t.Parallel()
	high, low := Explain("matching.learned.networks.high"), Explain("matching.learned.networks.low")
	if len(high) != 1 || len(low) != 1 || !strings.Contains(high[0].Doc, "not cut at 1") || !strings.Contains(low[0].Doc, "not cut at 0") || !strings.Contains(high[0].Doc, "over networks with other initial values") {
		t.Errorf("%+v, %+v", high, low)
	}
}

// A column that two tables have with different meanings has two explanations, the end of an interval names its number.
func TestAColumnIsExplainedByNameAndByHeader(t *testing.T) {
	t.Parallel()
	byName, byHeader := Explain("random_sampling_memorized"), Explain("RS memorized")
	if len(byName) != 1 || len(byHeader) != 1 || byName[0].Doc != byHeader[0].Doc || byName[0].Better != audits.Lower || byName[0].Audit != "random_sampling" {
		t.Errorf("by name %+v, by header %+v", byName, byHeader)
	}
	if both := Explain("search_expanded"); len(both) != 2 || both[0].Doc == both[1].Doc {
		t.Errorf("search_expanded of cells and of canaries: %+v", both)
	}
	if low := Explain("membership_auc_low"); len(low) != 1 || !strings.Contains(low[0].Doc, "membership_auc") || low[0].Better != "" {
		t.Errorf("the lower end of an interval: %+v", low)
	}
	if none := append(Explain(""), Explain("no_such_column")...); none != nil {
		t.Errorf("columns of names that none has: %+v", none)
	}
}

// The header of a table says which numbers are better; the legends name the headers.
func TestHeadersOfTablesAreExplained(t *testing.T) {
	t.Parallel()
	table := must.Get(sample().Table())(t)
	at := slices.Index(table.Header, "accuracy %")
	if at < 0 || !strings.HasSuffix(table.Abouts[at], " Higher is better.") {
		t.Fatalf("%q are explained by %q", table.Header, table.Abouts)
	}
	if !slices.Contains(table.Legends, "accuracy %: "+table.Abouts[at]) {
		t.Errorf("the legends %q lack the accuracy", table.Legends)
	}
}
