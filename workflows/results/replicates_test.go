package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/audits"
	"coalmine/tasks/reports"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
)

// replicated is a run of four rows and three seeds, of which the last cell is pending.
// Canaries of one seed are those of another row with the same seed; the first rows memorize
// more, and the last learns less.
func replicated(t *testing.T) *Results {
	t.Helper()
	spec := replicatedSpec(t)
	r := &Results{Run: "grid-1", Experiment: spec.Name}
	for i, c := range spec.Cells {
		cell := Cell{Cell: c.Name, Label: c.Label, Axes: c.Axes, Row: c.Row, State: Pending, Status: Pending, Setting: "FedAvg", Partition: string(c.Experiment.Data.Partition)}
		if i < len(spec.Cells)-1 {
			cell.State, cell.Status, cell.Report = Done, Done, reported(replicateReport(i%4, c.Experiment.Seed))
		}
		r.Cells = append(r.Cells, cell)
	}
	return r
}

func replicatedSpec(t *testing.T) *experiment.Spec {
	t.Helper()
	spec := must.Get(experiment.Parse("grid.yaml", []byte(`
name: grid
data: {source: text.jsonl}
model: {embedding: 8, units: 8}
training: {rounds: 40, cohort: 5}
canaries: {user_probability: 10%, example_probability: 10%}
audit: {random_sampling: {references: 1000}, beam_search: {}}
grid: {axes: {data.partition: [iid, by-user], training.cohort: [5, 8]}, replicates: 3}
`), experiment.Options{}))(t)
	return spec
}

// replicateReport is the report of a cell of a row and a seed.
func replicateReport(row int, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, uint64(row)))
	var canaries []string
	memorized, found := 0, 0
	for i := range 12 {
		hard := float64(i+row*2) + 4*rng.Float64()
		held, beam := hard < 7, hard < 6
		if held {
			memorized++
		}
		if beam {
			found++
		}
		canaries = append(canaries, fmt.Sprintf(`{"words": ["w%d", "s%d"], "user_probability": 0.1, "example_probability": 0.1, "users": 3, "holders": 3, "insertions": %d,
			"rank": 1, "exposure": %.2f, "memorized": %v, "beam_found": %v, "log_perplexity": %.2f, "rank_exact": true, "exposure_censored": %v}`,
			i, seed, i+1, math.Max(0, 12-hard), held, beam, hard, held))
	}
	recall := 0.22 - 0.006*float64(row) + 0.002*rng.Float64()
	return fmt.Sprintf(`{"utility": {"recall_at_1": %.4f, "perplexity": %.2f, "tokens": 1000}, "audit": {
		"random_sampling": {"memorized": %d, "of": 12, "references": 1000, "lowest": {"user_probability": 0.1, "example_probability": 0.1}},
		"beam_search": {"memorized": %d, "of": 12, "width": 5, "lowest": null}, "canaries": [%s], "never_inserted": [], "controls": []}}`,
		recall, 70+2*float64(row)+rng.Float64(), memorized, found, strings.Join(canaries, ", "))
}

func TestReplicatesMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, format := range FormatNames() {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			taskstest.File(t, filepath.Join("testdata", "replicates."+format), []byte(written(t, replicated(t), format)))
		})
	}
	for _, rows := range []Rows{Means, Differences, Canaries} {
		var b bytes.Buffer
		must.Do(t, replicated(t).WriteRows(&b, "csv", rows))
		taskstest.File(t, filepath.Join("testdata", "replicates-"+string(rows)+".csv"), b.Bytes())
	}
}

// soFar has the last cell of the replicates measured after round 30 of 40.
func soFar(t *testing.T) *Results {
	t.Helper()
	r := replicated(t)
	r.Cells[len(r.Cells)-1].Interim = &Interim{Unit: "round", Steps: 40, Measured: reports.Point{Round: 30, Utility: json.RawMessage(`{"perplexity": 94}`)}}
	return r
}

// A cell of a row has a table of its own, with its numbers and notes.
func TestSingleCellOfRowHasTable(t *testing.T) {
	t.Parallel()
	whole := replicated(t)
	alone := must.Get(whole.Of("c05"))(t)
	table, err := alone.Table()
	if err != nil || len(table.Rows) != 1 || table.Rows[0].Cell != "c05" || table.Rows[0].Row != "" || table.Differences != nil || slices.Contains(table.Header, "seeds") {
		t.Errorf("the table is %+v, %v", table, err)
	}
	at := slices.Index(table.Header, "accuracy %")
	if at < 0 || !strings.HasPrefix(table.Abouts[at], "Share of ordinary words") || strings.Contains(table.Rows[0].Texts[at], "±") {
		t.Errorf("column %d of %q is explained by %q", at, table.Header, table.Abouts)
	}
	if _, err := whole.Of("c99"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("another cell is %v", err)
	}
}

func TestTableShowsRunningCellsBelowReplicates(t *testing.T) {
	t.Parallel()
	before := must.Get(replicated(t).Table())(t)
	table, err := soFar(t).Table()
	if err != nil || len(table.Rows) != len(before.Rows)+1 {
		t.Fatalf("%d rows, %v; want one more than %d", len(table.Rows), err, len(before.Rows))
	}
	for i, row := range before.Rows {
		if !slices.Equal(table.Rows[i].Texts, row.Texts) {
			t.Errorf("row %d counts what was measured on the way: %q, want %q", i, table.Rows[i].Texts, row.Texts)
		}
	}
	for _, table := range []*Table{table, table.Differences} {
		if len(table.Abouts) != len(table.Header) {
			t.Errorf("%d columns are explained, want %d: %q", len(table.Abouts), len(table.Header), table.Header)
		}
	}
	last := table.Rows[len(before.Rows)]
	if last.Cell != "c12" || last.Row != "r04" || last.SoFar != "so far: round 30 of 40" || len(last.Texts) != len(table.Header) || !slices.Contains(last.Texts, "94.0") {
		t.Errorf("the last row is %+v", last)
	}
}

func TestRowsOfCellsReportTheirRound(t *testing.T) {
	t.Parallel()
	lines := must.Get(csv.NewReader(strings.NewReader(written(t, soFar(t), "csv"))).ReadAll())(t)
	of := func(line []string, column string) string { return line[slices.Index(lines[0], column)] }
	for _, line := range lines[1:] {
		got := [...]string{of(line, "status"), of(line, "so_far_round"), of(line, "so_far_of")}
		want := [...]string{Done, "", ""}
		if of(line, "cell") == "c12" {
			want = [...]string{Pending, "30", "40"}
		}
		if got != want || of(line, "perplexity") == "" {
			t.Errorf("cell %s: %q, perplexity %q; want %q", of(line, "cell"), got, of(line, "perplexity"), want)
		}
	}
	values := must.Get(soFar(t).CellValues())(t)
	for _, v := range values[len(values)-1] {
		if v.Column == "perplexity" || strings.HasPrefix(v.Column, "so_far") {
			t.Errorf("a tracker would take %+v for a final number", v)
		}
	}
}

// documented is the outcome as other programs read it.
type documented struct {
	Cells []Cell `json:"cells"`
	Rows  []struct {
		Row      string                `json:"row"`
		Cells    []string              `json:"cells"`
		Seeds    []uint64              `json:"seeds"`
		Measures map[string]RowMeasure `json:"measures"`
	} `json:"rows"`
	Differences []Difference `json:"differences"`
}

func documentOf(t *testing.T, r *Results) documented {
	t.Helper()
	var d documented
	must.Do(t, json.Unmarshal([]byte(written(t, r, "json")), &d))
	return d
}

// By the definition, from the file of canaries: its rows are grouped by row and seed, and
// canaries are paired by their words.
func TestRowsAreRecomputedFromTheirCanaries(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	held := heldCanaries(t, r)
	d := documentOf(t, r)
	for _, row := range d.Rows {
		var counts []float64
		var canaries audits.Ratio
		for _, seed := range row.Seeds {
			n := 0
			for _, yes := range held[row.Row][seed] {
				if yes {
					n++
				}
			}
			counts = append(counts, float64(n))
			canaries.Add(n, len(held[row.Row][seed]))
		}
		want, got := audits.NewEstimate(counts), row.Measures["random_sampling_memorized"]
		want.Pool(canaries.ShareOfCanaries())
		if !reflect.DeepEqual(got.Estimate, *want) || got.N != len(row.Seeds) {
			t.Errorf("row %s: %+v, by its canaries %+v", row.Row, got.Estimate, want)
		}
		if share := canaries.ShareOfCanaries(); *got.Pooled != share {
			t.Errorf("row %s: %+v, by its canaries %+v", row.Row, *got.Pooled, share)
		}
	}
	for _, x := range d.Differences {
		more, fewer, pairs, means := 0, 0, 0, []float64{}
		for _, seed := range x.Seeds {
			total := 0
			for words, mine := range held[x.Row][seed] {
				switch other := held[x.To][seed][words]; {
				case mine && !other:
					more++
					total++
				case other && !mine:
					fewer++
					total--
				}
			}
			pairs += len(held[x.Row][seed])
			means = append(means, float64(total)/float64(len(held[x.Row][seed])))
		}
		got, want := x.Canaries["memorized"], audits.NewEstimate(means)
		if got.Pairs != pairs || got.More != more || got.Fewer != fewer || got.P != SignTest(more, fewer) || math.Abs(float64(got.Difference.Mean-want.Mean)) > 1e-12 {
			t.Errorf("%s less %s: %+v, by their canaries %d pairs, %d, %d, %+v", x.Row, x.To, got, pairs, more, fewer, want)
		}
	}
}

// heldCanaries says by row, seed and words which canaries are memorized.
func heldCanaries(t *testing.T, r *Results) map[string]map[uint64]map[string]bool {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.WriteRows(&b, "csv", Canaries))
	lines := must.Get(csv.NewReader(&b).ReadAll())(t)
	column := func(line []string, name string) string { return line[slices.Index(lines[0], name)] }
	held := map[string]map[uint64]map[string]bool{}
	for _, line := range lines[1:] {
		row := column(line, "row")
		seed := must.Get(strconv.ParseUint(column(line, "seed"), 10, 64))(t)
		if held[row] == nil {
			held[row] = map[uint64]map[string]bool{}
		}
		if held[row][seed] == nil {
			held[row][seed] = map[string]bool{}
		}
		held[row][seed][column(line, "words")] = column(line, "memorized") == "true"
	}
	return held
}

// The first value of an axis is the baseline of the others, and the pending cell of the
// last row takes no part.
func TestRowsAreComparedAlongOneAxis(t *testing.T) {
	t.Parallel()
	d := documentOf(t, replicated(t))
	var got []string
	for _, x := range d.Differences {
		got = append(got, fmt.Sprintf("%s-%s %s %v %v", x.Row, x.To, strings.Join(x.Axes, ","), x.Seeds, x.Utility.Matched))
	}
	want := "r02-r01 training.cohort [1 2 3] true;r03-r01 data.partition [1 2 3] false;r04-r02 data.partition [1 2] false;r04-r03 training.cohort [1 2] true"
	if strings.Join(got, ";") != want {
		t.Errorf("compared are %q, want %q", got, want)
	}
	if n := d.Rows[3].Measures["perplexity"].N; n != 2 || len(d.Rows[3].Cells) != 3 {
		t.Errorf("the last row has %d seeds of %d cells", n, len(d.Rows[3].Cells))
	}
}

// axesOf are axes by their values, a=1, b=2.
func axesOf(values ...string) (axes experiment.Axes) {
	for _, v := range values {
		path, value, _ := strings.Cut(v, "=")
		axes = append(axes, experiment.Axis{Path: path, Value: json.RawMessage(value)})
	}
	return axes
}

// Included cells have axes of their own. By brute force: each row and every earlier one.
func TestDifferencesMatchEnumeration(t *testing.T) {
	t.Parallel()
	grids := [][]experiment.Axes{
		{axesOf("a=1", "b=1"), axesOf("a=1", "b=2"), axesOf("a=2", "b=1"), axesOf("a=2", "b=2"), axesOf("c=7"), axesOf("c=8")},
		{axesOf("a=1", "b=2"), axesOf("a=2", "b=1"), axesOf("a=2", "b=2"), axesOf("a=3", "b=2")},
		{axesOf()},
	}
	for _, grid := range grids {
		var rows []*viewRow
		for i, axes := range grid {
			rows = append(rows, &viewRow{Row: Row{Name: fmt.Sprintf("r%02d", i+1), Axes: axes, Seeds: []uint64{1}}, done: map[uint64]*viewCell{1: emptyCell(t)}})
		}
		var want []string
		for i := range grid {
			var baselines []string
			for _, path := range []string{"a", "b", "c"} {
				for j := range i {
					if d := differing(grid[i], grid[j]); len(d) == 1 && d[0] == path {
						baselines = append(baselines, rows[i].Name+"-"+rows[j].Name)
						break
					}
				}
			}
			if len(baselines) == 0 && i > 0 {
				baselines = []string{rows[i].Name + "-r01"}
			}
			want = append(want, baselines...)
		}
		var got []string
		for _, d := range newDifferences(rows) {
			got = append(got, d.Row+"-"+d.To)
		}
		if !slices.Equal(got, want) {
			t.Errorf("grid %v: compared are %q, want %q", grid, got, want)
		}
	}
}

func emptyCell(t *testing.T) *viewCell {
	t.Helper()
	v := must.Get(newViewCell(&Cell{Cell: "c01"}))(t)
	return &v
}

// A canary that one of the two has not inserted, or that is another one, is no pair.
func TestOnlyCanariesOfBothArePaired(t *testing.T) {
	t.Parallel()
	cell := func(role audits.Role, words, format string, memorized bool) viewCell {
		v := *emptyCell(t)
		report := reported(replicateReport(0, 1))
		full := must.Get(newViewCell(&Cell{Cell: "c01", Report: report}))(t)
		canary := full.decoded.Canaries[0]
		for i := range full.decoded.Canaries {
			if held, _ := ofCanaryOutcome(full.decoded.Canaries[i].Outcomes[0]).number(full.decoded.Canaries[i].Outcomes[0], "memorized"); (held == 1) == memorized {
				canary = full.decoded.Canaries[i]
			}
		}
		canary.Role, canary.Words, canary.Format = role, strings.Fields(words), format
		v.decoded.Canaries = []audits.Canary{canary}
		return v
	}
	a := cell(audits.Inserted, "one two", "", true)
	for i, c := range []struct {
		other viewCell
		want  []float64
	}{
		{cell(audits.Inserted, "one two", "", false), []float64{1}},
		{cell(audits.Inserted, "one two", "", true), []float64{0}},
		{cell(audits.Inserted, "two one", "", false), nil},
		{cell(audits.Inserted, "one two", "# #", false), nil},
		{cell(audits.NeverInserted, "one two", "", false), nil},
		{cell(audits.HeldBack, "one two", "", false), nil},
	} {
		if got := pairs(&a, &c.other, "memorized"); !slices.Equal(got, c.want) {
			t.Errorf("case %d: %v, want %v", i, got, c.want)
		}
	}
}

// An error that is a twentieth larger is no match, at any scale.
func TestUtilityIsMatchedByAvailableMeasure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		measure     string
		before, now float64
		want        string
	}{
		{"recall_at_1", 0.22, 0.2295, "matched"},
		{"recall_at_1", 0.22, 0.2305, "not matched"},
		{"mean_average_precision", 0.5, 0.48, "not matched"},
		{"mean_absolute_error", 10, 10.4, "matched"},
		{"mean_absolute_error", 10, 9.4, "not matched"},
		{"perplexity", 10, 20, "-"},
	} {
		d := &Difference{Measures: map[string]*audits.Estimate{c.measure: audits.NewEstimate([]float64{c.now - c.before})}}
		to := &viewRow{Row: Row{Measures: map[string]RowMeasure{c.measure: {Estimate: *audits.NewEstimate([]float64{c.before})}}}}
		if got := d.matching(to, to).text(); got != c.want {
			t.Errorf("%s %v against %v is %s, want %s", c.measure, c.now, c.before, got, c.want)
		}
	}
}

// Recall@1 alone matches a model that learned little with one that learned much, and two that learned nothing.
func TestUtilityIsMatchedByRecallAndPerplexity(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		recall, perplexity, toRecall, toPerplexity float64
		want                                       string
	}{
		{0.20, 104, 0.205, 100, ""},
		{0.20, 106, 0.205, 100, "perplexity differs by +6, more than 5"},
		{0.20, 94, 0.205, 100, "perplexity differs by -6, more than 5"},
		{0.20, 106, 0.25, 100, "recall_at_1 differs by -0.05, more than 0.01"},
		{0, 100, 0.005, 100, "recall_at_1 of one of the models is 0"},
		{0.005, 100, 0, 100, "recall_at_1 of one of the models is 0"},
		{0.20, inf, 0.205, 100, "a perplexity is infinite"},
		{0.20, 100, 0.205, inf, "a perplexity is infinite"},
	} {
		level := func(recall, perplexity float64) *viewRow {
			return &viewRow{Row: Row{Measures: map[string]RowMeasure{
				"recall_at_1": {Estimate: *audits.NewEstimate([]float64{recall})}, "perplexity": {Estimate: *audits.NewEstimate([]float64{perplexity})},
			}}}
		}
		d := &Difference{Measures: map[string]*audits.Estimate{"recall_at_1": audits.NewEstimate([]float64{c.recall - c.toRecall})}}
		if !math.IsInf(c.perplexity, 0) && !math.IsInf(c.toPerplexity, 0) {
			d.Measures["perplexity"] = audits.NewEstimate([]float64{c.perplexity - c.toPerplexity})
		}
		got := d.matching(level(c.recall, c.perplexity), level(c.toRecall, c.toPerplexity))
		if got.Reason != c.want || got.Matched != (c.want == "") {
			t.Errorf("%+v: matched %v, %q", c, got.Matched, got.Reason)
		}
	}
}

// Means and differences can be read without a program: in percent, without columns that say nothing.
func TestMeansAndDifferencesArePrintedAsTables(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	for rows, want := range map[Rows]string{
		Means:       "r01  iid, b=5      recall_at_1 %              3  22.077   0.015275",
		Differences: "recall_at_1 %",
	} {
		var table, csv bytes.Buffer
		must.Do(t, errors.Join(r.WriteRows(&table, "table", rows), r.WriteRows(&csv, "csv", rows)))
		if got := table.String(); !strings.Contains(got, want) || strings.Contains(got, "experiment") || strings.Count(got, "\n") != strings.Count(csv.String(), "\n")+1 {
			t.Errorf("%s:\n%s\nof\n%s", rows, got, csv.String())
		}
	}
}

// The rounds that a target took are a measure of the row.
func TestRowsReportRoundsToTarget(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	taken := 0
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Row.Name == "r01" && taken < 200 {
			taken += 100
			c.StopAt = &training.TargetProgress{Measure: training.PerplexityMeasure, Target: 75, Reached: taken == 100}
			c.Training.Rounds = taken
		}
	}
	var means bytes.Buffer
	must.Do(t, r.WriteRows(&means, "table", Means))
	if want := regexp.MustCompile(`(?m)^r01 .* rounds +2 +150 `); !want.MatchString(means.String()) {
		t.Errorf("no rounds among\n%s", means.String())
	}
	if text, want := written(t, r, "table"), "trained for 150.0 ± 70.7 (0.0 to 785.3) rounds (sgd: steps)"; !strings.Contains(text, want) || !strings.Contains(text, "1 of 2 trainings reached") {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestReplicatesJSONRoundTrip(t *testing.T) {
	t.Parallel()
	first := written(t, replicated(t), "json")
	var back Results
	must.Do(t, json.Unmarshal([]byte(first), &back))
	if second := written(t, &back, "json"); second != first {
		t.Errorf("JSON changes on its way:\n%s\n%s", first, second)
	}
}

// Without replicates there is no word of them in any format.
func TestResultsWithoutReplicatesOmitThem(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "csv", "parquet", "table"} {
		text := written(t, recorded(t), format)
		for _, word := range []string{"seed", "\"row", ",row", "differences"} {
			if strings.Contains(strings.ReplaceAll(text, "experiment's seed", ""), word) {
				t.Errorf("%s has %q", format, word)
			}
		}
	}
	for _, rows := range []Rows{Means, Differences} {
		var b bytes.Buffer
		if err := recorded(t).WriteRows(&b, "csv", rows); err != nil || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: %v, %q; want a header alone", rows, err, b.String())
		}
	}
}

// A spread that is large beside the number has an interval of Student's t that leaves its range.
func TestIntervalsStayInRangeOfMeasure(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Report != nil {
			odd := float64((i/4 + i%4) % 2)
			c.Report = reported(fmt.Sprintf(`{"utility": {"recall_at_1": %g, "perplexity": %g, "tokens": 1000},
				"audit": {"random_sampling": {"memorized": %g, "of": 12, "references": 1000}}}`, 0.02+0.9*odd, 1.5+40*odd, 1+10*odd))
		}
	}
	d := documentOf(t, r)
	clipped := map[string]int{}
	for _, m := range measures() {
		least, most := m.Range()
		for _, row := range d.Rows {
			e, measured := row.Measures[m.Name]
			if !measured || e.Low == nil {
				continue
			}
			if e.Pooled != nil {
				most = 12
			}
			if *e.Low < least || *e.High > most {
				t.Errorf("%s of %s: %g to %g, outside %g to %g", m.Name, row.Row, *e.Low, *e.High, least, most)
			}
			if *e.Low == least {
				clipped[m.Name]++
			}
		}
		for _, x := range d.Differences {
			if e := x.Measures[m.Name]; e != nil && e.Low != nil && (*e.Low < least-most || *e.High > most-least) {
				t.Errorf("%s of %s less %s: %g to %g", m.Name, x.Row, x.To, *e.Low, *e.High)
			}
		}
	}
	if want := map[string]int{"recall_at_1": 4, "perplexity": 4}; !reflect.DeepEqual(clipped, want) {
		t.Errorf("ends at the least value by measure: %v, want %v", clipped, want)
	}
}

// Two seeds with accuracies of 2% and 98% have an interval of Student's t far outside [0, 1].
func TestIntervalsOfSharesStayInUnitRange(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Report != nil {
			c.Report = reported(fmt.Sprintf(`{"utility": {"recall_at_1": %g, "perplexity": 70, "tokens": 1000}, "audit": {}}`, 0.02+0.96*float64((i/4+i%4)%2)))
		}
	}
	d := documentOf(t, r)
	for _, row := range d.Rows {
		if e := row.Measures["recall_at_1"]; *e.Low != 0 || *e.High != 1 {
			t.Errorf("%s: %g to %g", row.Row, *e.Low, *e.High)
		}
	}
	if len(d.Rows) != 4 || len(d.Differences) != 4 {
		t.Fatalf("%d rows and %d differences", len(d.Rows), len(d.Differences))
	}
	for _, x := range d.Differences {
		if e := x.Measures["recall_at_1"]; e.Low != nil && (*e.Low < -1 || *e.High > 1) {
			t.Errorf("%s less %s: %g to %g", x.Row, x.To, *e.Low, *e.High)
		}
	}
	if text := written(t, r, "table"); !strings.Contains(text, " (0.0 to 100.0)") {
		t.Errorf("the table has\n%s", text)
	}
	var means bytes.Buffer
	if err := r.WriteRows(&means, "csv", Means); err != nil || !strings.Contains(means.String(), ",0,1,") {
		t.Errorf("%v, the means are\n%s", err, means.String())
	}
}

// An empty table of rows tells how to get some; a file for programs has its header.
func TestEmptyTablesNameMissingSettings(t *testing.T) {
	t.Parallel()
	for rows, want := range map[Rows]string{
		Means: "grid.replicates", Differences: "grid.replicates", Attacks: "audit.deanonymization", AttackedUsers: "audit.deanonymization", Membership: "audit.membership", Canaries: "the block canaries",
	} {
		r := &Results{Run: "x-1", Experiment: "x", Cells: []Cell{{Cell: "c01", Label: "iid", Status: Pending}}}
		var table, file bytes.Buffer
		must.Do(t, errors.Join(r.WriteRows(&table, "table", rows), r.WriteRows(&file, "csv", rows)))
		if !strings.Contains(table.String(), want) || !strings.HasPrefix(file.String(), "run,experiment,") {
			t.Errorf("rows of %s: the table is %q, the file %q", rows, table.String(), file.String())
		}
	}
}

func TestLargeShareOfCanariesWarns(t *testing.T) {
	t.Parallel()
	for replaced, want := range map[int]bool{0: false, 10: false, 81: true} {
		report := new(reports.Report)
		report.Training.Examples, report.Training.ReplacedExamples = 100, replaced
		r := &Results{Run: "x-1", Experiment: "x", Cells: []Cell{{Cell: "c01", Label: "iid", Status: Done, Report: report}}}
		if table := written(t, r, "table"); strings.Contains(table, ": canaries are 81% of the training examples, more than 10%: ") != want {
			t.Errorf("%d of 100 examples: noted is wrong, want %t:\n%s", replaced, want, table)
		}
	}
}
