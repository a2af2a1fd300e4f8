package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
)

// diverged has replicates of two rows, the second with a perplexity beyond the range of float64 in
// one of its seeds.
func diverged() *Results {
	r := &Results{Run: "r-1", Experiment: "r"}
	for row := range 2 {
		for seed := range 2 {
			utility := fmt.Sprintf(`{"recall_at_1": 0.24, "perplexity": %d, "tokens": 9}`, 60+seed)
			if row == 1 && seed == 1 {
				utility = `{"recall_at_1": 0.01, "perplexity": null, "infinite": true, "mean_loss": 3068.5, "tokens": 9}`
			}
			axes := experiment.Axes{
				{Path: "training.privacy.noise_multiplier", Value: json.RawMessage(fmt.Sprint(20 + 30*row))},
				{Path: "seed", Value: json.RawMessage(fmt.Sprint(1 + seed))},
			}
			r.Cells = append(r.Cells, Cell{
				Cell: fmt.Sprintf("c%02d", 1+len(r.Cells)), Label: axesText(axes), Status: Done, Axes: axes,
				Row:    &experiment.Row{Name: fmt.Sprintf("r%02d", 1+row), Label: fmt.Sprintf("noise %d", 20+30*row)},
				Report: reported(fmt.Sprintf(`{"utility": %s, "curve": [{"round": 3, "utility": %s}], "training": {"rounds": 3}}`, utility, utility)),
			})
		}
	}
	return r
}

func csvOf(t *testing.T, r *Results, rows Rows) (lines []map[string]string) {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.WriteRows(&b, "csv", rows))
	all := must.Get(csv.NewReader(&b).ReadAll())(t)
	for _, line := range all[1:] {
		named := map[string]string{}
		for i, name := range all[0] {
			named[name] = line[i]
		}
		lines = append(lines, named)
	}
	return lines
}

func TestDivergedModelIsShownInEveryFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"table": "infinite", "latex": "& infinite", "html": "infinite", "csv": "perplexity_infinite", "parquet": "perplexity_infinite",
		"json": `"mean": null`,
	} {
		if text := written(t, diverged(), format); !strings.Contains(text, want) || strings.Contains(text, "Inf") {
			t.Errorf("%s lacks %q, or has an Inf:\n%s", format, want, text)
		}
	}
	cells := csvOf(t, diverged(), Cells)
	if c := cells[3]; c["perplexity"] != "" || c["perplexity_infinite"] != "true" || c["recall_at_1"] != "0.01" {
		t.Errorf("the cell that diverged has perplexity %q, infinite %q", c["perplexity"], c["perplexity_infinite"])
	}
	if c := cells[2]; c["perplexity"] != "60" || c["perplexity_infinite"] != "" {
		t.Errorf("another cell has perplexity %q, infinite %q", c["perplexity"], c["perplexity_infinite"])
	}
	for _, c := range csvOf(t, diverged(), Means) {
		if c["measure"] == "perplexity" && (c["mean_infinite"] == "true") != (c["row"] == "r02") {
			t.Errorf("row %s: mean %q, infinite %q", c["row"], c["mean"], c["mean_infinite"])
		}
	}
	for _, c := range csvOf(t, diverged(), Differences) {
		if c["measure"] == "perplexity" {
			t.Errorf("there is a difference of perplexities of which one is infinite: %v", c)
		}
	}
	values := must.Get(diverged().CellValues())(t)
	for _, v := range values[3] {
		if v.Column == "perplexity" || v.Column == "perplexity_infinite" && v.Number != 1 {
			t.Errorf("trackers get %+v", v)
		}
	}
}

func TestFiniteTablesHaveNoInfiniteColumns(t *testing.T) {
	t.Parallel()
	r := diverged()
	r.Cells = r.Cells[:3]
	for _, rows := range []Rows{Cells, Means} {
		for name := range csvOf(t, r, rows)[0] {
			if strings.HasSuffix(name, "_infinite") && name != "epsilon_infinite" {
				t.Errorf("rows of %s have a column %s", rows, name)
			}
		}
	}
}

func TestDivergedModelReportsMeanTestLoss(t *testing.T) {
	t.Parallel()
	for utility, want := range map[string]float64{
		`{"perplexity": null, "infinite": true, "mean_loss": 3068.5, "all_targets": {"perplexity": null, "infinite": true, "mean_loss": 2999.5}}`: 2999.5,
		`{"perplexity": null, "infinite": true, "mean_loss": 3068.5, "all_targets": {"perplexity": 1}}`:                                           0,
		`{"perplexity": null, "infinite": true, "mean_loss": 3068.5}`:                                                                             0, // a program's words alone
	} {
		p := reports.Point{Utility: json.RawMessage(utility)}
		must.Do(t, setLosses(&p, nil))
		if got, _ := p.Metric(testLoss); got != want {
			t.Errorf("%s: test loss %v, want %v", utility, got, want)
		}
	}
}
