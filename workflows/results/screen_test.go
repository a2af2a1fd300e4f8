package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"pgregory.net/rapid"

	"coalmine/internal/must"
)

// wantOnScreen fails if a line is wider than the screen or a word of a text is missing.
func wantOnScreen(t rapid.TB, width int, header []string, rows [][]string) {
	t.Helper()
	var b strings.Builder
	(&Terminal{Width: width}).table(&b, header, rows)
	for line := range strings.Lines(b.String()) {
		if n := runewidth.StringWidth(strings.TrimRight(line, "\n")); n > width {
			t.Fatalf("%d columns, want at most %d: %s", n, width, line)
		}
	}
	unfolded := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -\n", r) {
			return -1
		}
		return r
	}, b.String())
	for _, row := range append([][]string{header}, rows...) {
		for _, text := range row {
			for _, word := range strings.Fields(text) {
				if len(word) <= 16 && !strings.Contains(unfolded, strings.ReplaceAll(word, "-", "")) {
					t.Fatalf("%q of %q is not in\n%s", word, text, b.String())
				}
			}
		}
	}
}

func TestAnyTableFitsTheScreen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-z世%()][a-z0-9世%()]{0,9}( [a-z0-9.±]{1,60}){0,6}`), 1, 14)
		header := texts.Draw(t, "header")
		var rows [][]string
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			row := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,30}( [a-z0-9]{1,20}){0,9}`), len(header), len(header)).Draw(t, "row")
			rows = append(rows, row)
		}
		wantOnScreen(t, rapid.IntRange(40, 200).Draw(t, "width"), header, rows)
	})
}

// keptTable is a table that a page holds.
type keptTable struct {
	header []string
	rows   [][]string
}

// keptTables returns the tables of the shipped examples, which pages of docs and examples hold.
func keptTables(t *testing.T) (tables []keptTable) {
	t.Helper()
	paths := []string{"testdata/results.table", "testdata/replicates.table", "testdata/attacks.table", "../../README.md"}
	for _, pattern := range []string{"../../docs/papers/*/*.txt", "../../docs/*/*.txt", "../../examples/external/*/README.md"} {
		found := must.Get(filepath.Glob(pattern))(t)
		paths = append(paths, found...)
	}
	rule := regexp.MustCompile(`^-+(  -+)+$`)
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		lines := strings.Split(string(text), "\n")
		for i := 1; i < len(lines); i++ {
			if !rule.MatchString(lines[i]) {
				continue
			}
			table := keptTable{header: cut(lines[i-1], lines[i])}
			for _, line := range lines[i+1:] {
				row := cut(line, lines[i])
				if row == nil {
					break
				}
				table.rows = append(table.rows, row)
			}
			tables = append(tables, table)
		}
	}
	if len(tables) < 25 {
		t.Errorf("only %d tables were found", len(tables))
	}
	return tables
}

func TestTheTablesOfTheExamplesFit120Columns(t *testing.T) {
	t.Parallel()
	for _, kept := range keptTables(t) {
		wantOnScreen(t, 120, kept.header, kept.rows)
	}
}

// cut returns the texts of a line above the dashes of a rule; nil if it is no line of that table.
func cut(line, rule string) (row []string) {
	runes := []rune(line)
	at := 0
	for dashes := range strings.SplitSeq(rule, "  ") {
		end := at + len(dashes)
		if at > 0 && at < len(runes) && at >= 2 && string(runes[at-2:at]) != "  " {
			return nil
		}
		row = append(row, strings.TrimSpace(string(runes[min(at, len(runes)):min(end, len(runes))])))
		at = end + 2
	}
	if row[0] == "" || len(runes) > at {
		return nil
	}
	return row
}

func screened(t *testing.T, r *Results, s Terminal) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.WriteScreen(&b, Cells, &s))
	return b.String()
}

// Tables of --rows fold by the same function as those of cells, which keeps every text. Here each row keeps its name.
func TestTablesOfNonCellRowsFitScreen(t *testing.T) {
	t.Parallel()
	results := map[Rows]*Results{Canaries: recorded(t), Means: replicated(t), Differences: replicated(t)}
	for rows, r := range results {
		for _, width := range []int{40, 120} {
			var wide, folded bytes.Buffer
			must.Do(t, errors.Join(r.WriteRows(&wide, "table", rows), r.WriteScreen(&folded, rows, &Terminal{Width: width})))
			for line := range strings.Lines(folded.String()) {
				if n := runewidth.StringWidth(strings.TrimRight(line, "\n")); n > width {
					t.Fatalf("%s: %d columns, want at most %d: %s", rows, n, width, line)
				}
			}
			blocks := strings.Count(folded.String(), "\n\n") + 1
			if blocks < 2 || bytes.Count(wide.Bytes(), []byte("\n")) > bytes.Count(folded.Bytes(), []byte("\n")) {
				t.Errorf("%s: %d blocks in %d columns; expected several with all rows:\n%s", rows, blocks, width, &folded)
			}
		}
	}
	var b bytes.Buffer
	if err := recorded(t).WriteScreen(&b, Canaries, &Terminal{Width: 120}); err != nil || !strings.Contains(b.String(), "c01, in this one must  ") {
		t.Errorf("%v, or no row named by cell and words:\n%s", err, &b)
	}
}

func TestAScreenNamesTheBaselineAndFoldsNotes(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	folded, whole := screened(t, r, Terminal{Width: 120}), screened(t, r, Terminal{Width: 120, Notes: true})
	for _, want := range []string{"\nEach setting minus its baseline", "  baseline  ", "notes more: coalmine results grid-1 --notes\n", "in all rows: "} {
		if !strings.Contains(folded, want) {
			t.Errorf("no %q in\n%s", want, folded)
		}
	}
	if strings.Contains(folded, "utility is not matched") || !strings.Contains(strings.ReplaceAll(whole, "\n", " "), "utility is not matched: recall_at_1 differs") {
		t.Errorf("folded:\n%s\nwhole:\n%s", folded, whole)
	}
	if strings.Contains(folded, "\x1b") {
		t.Error("colors without a terminal that has them")
	}
	if !strings.Contains(screened(t, r, Terminal{Width: 120, Color: true}), bold+"setting"+plain) {
		t.Error("no bold header")
	}
}

// A text of an experiment cannot send escape sequences to the terminal.
func TestScreenStripsEscapeSequences(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	(&Terminal{Width: 80}).table(&b, []string{"setting", "a"}, [][]string{{"x\x1b[31my", "\x1b]0;title\x07"}})
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Errorf("%q", b.String())
	}
}

// A table of other rows says, too, which models have learned little and which gates have failed: its numbers alone would read
// as those of a safe training.
func TestTablesOfNonCellRowsMarkModelsAtBaseline(t *testing.T) {
	t.Parallel()
	r := recorded(t)
	r.Cells[0].Utility = json.RawMessage(`{"recall_at_1":0.05,"perplexity":400,"tokens":9000,"baseline":{"recall_at_1":0.052,"perplexity":389.1,"tokens":9000},"at_baseline":true}`)
	var file, screen bytes.Buffer
	must.Do(t, errors.Join(r.WriteRows(&file, "table", Canaries), r.WriteScreen(&screen, Canaries, &Terminal{Width: 400})))
	const want = "): utility is at the level of word or class frequencies (accuracy 5.2%, perplexity 389.1)"
	for name, text := range map[string]string{"file": file.String(), "screen": screen.String()} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: want %q below the rows:\n%s", name, want, text)
		}
	}
}

// A regressor has neither an accuracy nor a perplexity, so tables of regressors do not have these columns.
func TestTablesOfRegressorsHaveNoColumnsWithoutNumbers(t *testing.T) {
	t.Parallel()
	r := &Results{Run: "r-1", Experiment: "r"}
	for _, name := range []string{"c01", "c02"} {
		r.Cells = append(r.Cells, Cell{Cell: name, Label: name, Status: Done, Report: reported(`{"utility": {"mean_absolute_error": 0.9, "tokens": 9}, "training": {"rounds": 3}}`)})
	}
	var file, screen bytes.Buffer
	must.Do(t, errors.Join(r.Write(&file, "table"), r.WriteScreen(&screen, Cells, &Terminal{Width: 100})))
	for name, text := range map[string]string{"file": file.String(), "screen": screen.String()} {
		if !strings.Contains(text, "MAE") || strings.Contains(text, "accuracy") || strings.Contains(text, "perplexity") {
			t.Errorf("the table of a %s:\n%s", name, text)
		}
	}
}
