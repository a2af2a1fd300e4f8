package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
)

// reported is a report from its JSON.
func reported(text string) *reports.Report {
	r := new(reports.Report)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		panic(err)
	}
	return r
}

func sample() *Results {
	const measured = `{
		"utility": {"recall_at_1": 0.24, "perplexity": 62.2, "tokens": 123456},
		"audit": {
			"random_sampling": {"memorized": 54, "of": 90, "references": 2000000, "lowest": {"user_probability": 2e-5, "example_probability": 0.1}},
			"beam_search": {"memorized": 0, "of": 90, "width": 5, "lowest": null},
			"canaries": [], "never_inserted": [], "controls": []}}`
	return &Results{Run: "r-1", Experiment: "r", Cells: []Cell{
		{
			Cell: "c01", Label: "iid, SGD, b=32", Status: Done, Setting: "SGD", Partition: "iid",
			Axes:   experiment.Axes{{Path: "data.partition", Value: json.RawMessage(`"iid"`)}},
			Report: reported(measured),
		},
		{
			Cell: "c02", Label: "by-user, DP-FedAvg & 100%_", Status: Done,
			Report: &reports.Report{Privacy: &privacy.Report{
				Epsilon: 18.8, EpsilonProved: 154, Delta: 1e-7, NoiseMultiplier: 1, Unit: "balanced user", Rounds: 7840,
				Sampling: privacy.FixedSize, Neighbouring: privacy.ReplaceOne, Conversion: privacy.Classic,
			}},
		},
		{
			Cell: "c03", Label: "by-user, FedAvg+Clip", Status: Done,
			Report: &reports.Report{Privacy: &privacy.Report{
				Epsilon: privacy.Epsilon(math.Inf(1)), EpsilonProved: privacy.Epsilon(math.Inf(1)), Infinite: true, Unit: "balanced user", Rounds: 9,
				Sampling: privacy.Poisson, Neighbouring: privacy.AddOrRemoveOne, Conversion: privacy.Classic,
			}},
		},
		{Cell: "c04", Label: "iid, FedAvg", Status: Failed, Errors: []string{"step 3: training diverged"}},
	}}
}

func TestTheTableHasThePapersColumns(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	must.Do(t, sample().Write(&b, "table"))
	const want = `setting                     RS memorized  RS rarest (p_u, p_e)  BS memorized  BS rarest  accuracy %  perplexity  epsilon proved (papers' convention)
--------------------------  ------------  --------------------  ------------  ---------  ----------  ----------  -----------------------------------
iid, SGD, b=32              54/90         1/50000, 10%          0/90          -          24.0        62.2        -
by-user, DP-FedAvg & 100%_                                                                                       154 (18.8)
by-user, FedAvg+Clip                                                                                             infinite
iid, FedAvg                 failed                                                                               -
c02 (by-user, DP-FedAvg & 100%_): epsilon 154, proved (replace-one); 18.8 by the papers' convention, at delta 1e-07 after 7840 rounds; unit balanced user, fixed-size sampling, classic conversion
c03 (by-user, FedAvg+Clip): epsilon infinite, nothing is proved (add-or-remove-one) after 9 rounds; unit balanced user, poisson sampling, classic conversion
c04 (iid, FedAvg) failed: step 3: training diverged
`
	if b.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", b.String(), want)
	}
}

// A note on several cells stands once in the list for readers; every cell keeps its own notes.
func TestSharedNotesArePrintedOnce(t *testing.T) {
	t.Parallel()
	cell := func(name, rounds string) Cell {
		return Cell{Cell: name, Label: "a " + name, Status: Done, Report: reported(`{"training": {"rounds": ` + rounds + `}, "privacy_budget": {"epsilon": 8, "delta": 1e-5, "stopped": true}}`)}
	}
	const stopped = " stopped after 5 rounds: its privacy budget is epsilon_proved 8 at delta 1e-05"
	failed := Cell{Cell: "c03", Label: "a c03", Status: Failed, Errors: []string{"no"}}
	twice, no := failed, "c03 (a c03) failed: no"
	twice.Errors = []string{"no", "no"}
	each := []string{"c01 (a c01)" + stopped, "c02 (a c02)" + stopped}
	three := append(slices.Clone(each), "c04 (a c04)"+strings.Replace(stopped, "5 rounds", "6 rounds", 1))
	many := append(slices.Clone(each), "c05 (a c05)"+stopped, "c06 (a c06)"+stopped, three[2])
	for name, x := range map[string]struct {
		cells       []Cell
		notes, once []string
	}{
		"all":      {[]Cell{cell("c01", "5"), cell("c02", "5")}, each, []string{"all cells" + stopped}},
		"all done": {[]Cell{cell("c01", "5"), cell("c02", "5"), failed}, append(slices.Clone(each), "c03 (a c03) failed: no"), []string{"all 2 cells that are done" + stopped, "c03 (a c03) failed: no"}},
		"one":      {[]Cell{cell("c01", "5")}, each[:1], each[:1]},
		"some":     {[]Cell{cell("c01", "5"), cell("c02", "5"), cell("c04", "6")}, three, []string{"c01 (a c01), c02 (a c02)" + stopped, three[2]}},
		"twice":    {[]Cell{cell("c01", "5"), twice}, []string{each[0], no, no}, []string{each[0], no}},
		"many":     {[]Cell{cell("c01", "5"), cell("c02", "5"), cell("c05", "5"), cell("c06", "5"), cell("c04", "6")}, many, []string{"c01, c02, c05, c06" + stopped, three[2]}},
	} {
		r := &Results{Cells: x.cells}
		table, err := r.Table()
		if err != nil || !slices.Equal(table.Notes, x.notes) || !slices.Equal(table.NotesOnce, x.once) {
			t.Errorf("%s: notes %q, once %q, %v; want %q and %q", name, table.Notes, table.NotesOnce, err, x.notes, x.once)
		}
		for _, format := range []string{"table", "json", "html"} {
			var b bytes.Buffer
			if err := r.Write(&b, format); err != nil || !strings.Contains(b.String(), x.once[0]) {
				t.Errorf("%s: %s lacks %q, %v:\n%s", name, format, x.once[0], err, b.String())
			}
		}
	}
}

func TestGateFailedByAllCellsIsNotedOnce(t *testing.T) {
	t.Parallel()
	failed := Cell{Cell: "c01", Label: "a", Status: Done, Report: reported(`{"training": {"rounds": 5}}`), Gate: GateFailed, Breaches: []string{"accuracy is 1%, below the limit of 12%"}}
	other := failed
	other.Cell = "c02"
	for want, cells := range map[string][]Cell{
		"c01 (a) failed its gate: accuracy is 1%, below the limit of 12%":     {failed},
		"all cells failed their gate: accuracy is 1%, below the limit of 12%": {failed, other},
	} {
		if table := must.Get((&Results{Cells: cells}).Table())(t); !slices.Contains(table.NotesOnce, want) {
			t.Errorf("the notes are %q, want %q", table.NotesOnce, want)
		}
	}
}

// Images have no canaries, and so none of their columns.
func TestTableOmitsEmptyColumns(t *testing.T) {
	t.Parallel()
	gan := Cell{Cell: "c01", Label: "gan", Status: Done, Report: reported(`{"audit": {"generated_images": {"images": 100, "inverted": {"count": 25, "of": 100, "share": 0.25}}}}`)}
	cnn := Cell{Cell: "c02", Label: "cnn", Status: Done, Report: reported(`{"utility": {"recall_at_1": 0.96, "perplexity": 1.2}}`)}
	waiting := Cell{Cell: "c03", Label: "waiting", Status: Pending}
	for want, cells := range map[string][]Cell{
		"setting,inverted %,Frechet;gan,25.0,-;waiting,pending,-":                        {gan, waiting},
		"setting,accuracy %,perplexity,inverted %,Frechet;gan,,,25.0,-;cnn,96.0,1.2,-,-": {gan, cnn},
		"setting,accuracy %,perplexity;cnn,96.0,1.2":                                     {cnn},
		"setting,status;waiting,pending":                                                 {waiting},
	} {
		table := must.Get((&Results{Cells: cells}).Table())(t)
		got := strings.Join(table.Header, ",")
		for _, texts := range table.texts() {
			got += ";" + strings.Join(texts, ",")
		}
		if got != want {
			t.Errorf("table %q, want %q", got, want)
		}
	}
}

func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	must.Do(t, sample().Write(&first, "json"))
	var back Results
	must.Do(t, json.Unmarshal(first.Bytes(), &back))
	must.Do(t, back.Write(&second, "json"))
	if first.String() != second.String() {
		t.Errorf("JSON changes on its way:\n%s\n%s", first.String(), second.String())
	}
	for _, field := range []string{`"recall_at_1": 0.24`, `"epsilon": null`, `"infinite": true`, `"data.partition": "iid"`, `"lowest": null`} {
		if !strings.Contains(first.String(), field) {
			t.Errorf("JSON lacks %s", field)
		}
	}
}

func TestCSVAndParquetHoldTheSameRows(t *testing.T) {
	t.Parallel()
	var text, file bytes.Buffer
	must.Do(t, sample().Write(&text, "csv"))
	lines, err := csv.NewReader(&text).ReadAll()
	if err != nil || len(lines) != 5 {
		t.Fatalf("%d lines of CSV (%v), want a header and four cells", len(lines), err)
	}
	must.Do(t, sample().Write(&file, "parquet"))
	rows, err := parquet.Read[struct {
		Memorized *int64   `parquet:"random_sampling_memorized"`
		Epsilon   *float64 `parquet:"epsilon"`
	}](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d Parquet rows (%v), want four", len(rows), err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	if got := lines[1][column["random_sampling_memorized"]]; got != "54" || *rows[0].Memorized != 54 {
		t.Errorf("memorized: CSV %q, Parquet %d", got, *rows[0].Memorized)
	}
	if lines[3][column["epsilon"]] != "" || rows[2].Epsilon != nil || lines[3][column["epsilon_infinite"]] != "true" {
		t.Errorf("an infinite epsilon is %q in CSV, %v in Parquet; want none, marked as infinite", lines[3][column["epsilon"]], rows[2].Epsilon)
	}
}

func TestLaTeXIsEscaped(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	must.Do(t, sample().Write(&b, "latex"))
	if !strings.Contains(b.String(), `by-user, DP-FedAvg \& 100\%\_ &`) {
		t.Errorf("LaTeX:\n%s", b.String())
	}
}

// No inserted canary of the cell was ranked, so that an exposure of 0 would be made up.
func TestAGateWithoutAValueFails(t *testing.T) {
	t.Parallel()
	c := sample().Cells[0]
	c.Report = reported(`{"audit": {"random_sampling": {"memorized": 0, "of": 0, "references": 2000000}, "canaries": [], "never_inserted": [], "controls": []}}`)
	for _, name := range []string{"exposure", "random_sampling_memorized"} {
		if got := gate(t, `{"`+name+`":15}`, &c); len(got) != 1 || !strings.HasPrefix(got[0], name+" has no value, because") {
			t.Errorf("breaches %q", got)
		}
	}
}

// gate are the breaches of a cell by the limits of a file.
func gate(t *testing.T, limits string, c *Cell) []string {
	t.Helper()
	var audit experiment.Audit
	must.Do(t, json.Unmarshal([]byte(`{"fail_if":`+limits+`}`), &audit))
	v := must.Get(newViewCell(c))(t)
	_, breaches, _ := judge(&audit, &v.decoded)
	return breaches
}

func TestGatesUseTheProvedEpsilon(t *testing.T) {
	t.Parallel()
	for i := range 3 { // no privacy; 154 proved; infinite
		if got := gate(t, `{"epsilon":20}`, &sample().Cells[i]); len(got) != 1 {
			t.Errorf("cell %d: breaches %q", i, got)
		}
	}
	if got := gate(t, `{"epsilon":200}`, &sample().Cells[1]); len(got) > 0 {
		t.Errorf("154 is within 200, yet %q", got)
	}
}

func TestGatesCountMemorizedCanaries(t *testing.T) {
	t.Parallel()
	if got := gate(t, `{"random_sampling_memorized":53}`, &sample().Cells[0]); len(got) != 1 {
		t.Errorf("54 memorized against a limit of 53: %q", got)
	}
	if got := gate(t, `{"random_sampling_memorized":54}`, &sample().Cells[0]); len(got) != 0 {
		t.Errorf("54 memorized against a limit of 54: %q", got)
	}
}

func TestGatesLookAtInsertedCanariesAlone(t *testing.T) {
	t.Parallel()
	c := inspected().Cells[0]
	if got := gate(t, `{"exposure":20.9}`, &c); len(got) != 0 {
		t.Errorf("20.9 bits are within 20.9, yet %q", got)
	}
	if got := gate(t, `{"exposure":20}`, &c); len(got) != 1 || got[0] != "exposure is 20.9, above the limit of 20" {
		t.Errorf("breaches %q", got)
	}
}

// written are results in a format, as text.
func written(t *testing.T, r *Results, format string) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.Write(&b, format))
	if format == "parquet" {
		return string(describeParquet(t, b.Bytes()))
	}
	return b.String()
}

// Every format that prints an epsilon prints its assumptions.
func TestEveryFormatPrintsEpsilonAssumptions(t *testing.T) {
	t.Parallel()
	for _, format := range FormatNames() {
		text := strings.ReplaceAll(written(t, sample(), format), "1e-07", "1e-7") // JSON writes it so
		for _, fact := range []string{"154", "1e-7", "fixed-size", "replace-one", "classic", "balanced user", "add-or-remove-one"} {
			if !strings.Contains(text, fact) {
				t.Errorf("%s lacks %q beside its epsilons:\n%s", format, fact, text)
			}
		}
	}
}

// Every format shows a failed gate, and none calls it passed.
func TestFailedGateIsShownInEveryFormat(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells[0].Gate, r.Cells[0].Breaches = GateFailed, []string{"exposure is 20, above the limit of 15", "accuracy is 1%, below the limit of 12%"}
	r.Cells[1].Gate = GateMet
	if r.Gate() != GateFailed {
		t.Errorf("the gate of the run is %q", r.Gate())
	}
	const first = "exposure is 20, above the limit of 15"
	for format, wants := range map[string][]string{
		"table": {" gate\n", "failed its gate: " + first},
		"latex": {`& gate \\`, "failed its gate: " + first},
		"json":  {`"gate": "failed"`, `"gate": "met"`, first},
		"csv":   {",gate,breaches,", `,failed,"` + first + `; accuracy`, ",met,,"},
		"html":  {">gate</th>", ">failed</td>", "gate failed: " + first},

		"parquet": {"gate failed\n", "gate met\n", "breaches " + first + "; accuracy"},
	} {
		text := written(t, r, format)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, text)
			}
		}
		if strings.Contains(text, "passed") {
			t.Errorf("%s says passed:\n%s", format, text)
		}
	}
	if sample().Gate() != "" {
		t.Error("cells without limits have a gate")
	}
}

// The mark of a model that has hardly learned stands in every form, and so does its explanation.
func TestModelAtBaselineIsMarkedInEveryFormat(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells[0].Utility = json.RawMessage(`{"recall_at_1":0.05,"perplexity":400,"tokens":9000,"baseline":{"recall_at_1":0.052,"perplexity":389.1,"tokens":9000},"at_baseline":true}`)
	for format, wants := range map[string][]string{
		"table": {"5.0 *", "400.0 *", "* utility is at the level of word or class frequencies (accuracy 5.2%, perplexity 389.1)"},
		"latex": {"5.0 * &", "utility is at the level of"},
		"json":  {`"at_baseline": true`, "utility is at the level of"},
		"csv":   {"baseline_perplexity", ",389.1,"},
		"html":  {">5.0 *</td>", "utility is at the level of"},

		"parquet": {"at_baseline true\n", "baseline_perplexity 389.1\n"},
	} {
		text := written(t, r, format)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, text)
			}
		}
	}
}

// JSON says of a convention that is no proof whether data or an audit refute it.
func TestRefutedConventionUnderestimates(t *testing.T) {
	t.Parallel()
	report := privacy.Report{Epsilon: 1, EpsilonProved: 5, Neighbouring: privacy.ReplaceOne, NoiseMultiplier: 1}
	proved := privacy.Report{Epsilon: 1, EpsilonProved: 1, Neighbouring: privacy.AddOrRemoveOne, NoiseMultiplier: 1}
	for _, c := range []struct {
		privacy *privacy.Report
		atLeast float64
		want    *bool
	}{{nil, 2, nil}, {&proved, 0.5, nil}, {&report, 0.5, new(bool)}, {&report, 2, audits.When(true, true)}} {
		cell := &audits.Cell{Privacy: c.privacy, Outcomes: []audits.Outcome{&onerun.Outcome{EpsilonLower: c.atLeast, Delta: 1e-5}}}
		if got := underestimates(cell); !reflect.DeepEqual(got, c.want) {
			t.Errorf("an audit has %v at least, of %+v: %v", c.atLeast, c.privacy, got)
		}
	}
}

// A gate that is met by some numbers alone names the others in every form.
func TestEveryFormatListsUnjudgedNumbers(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells[0].Gate, r.Cells[0].Unjudged = GateMet, []string{"the AUC of one user"}
	for format, want := range map[string]string{
		"table": ": not judged: the AUC of one user", "latex": "not judged: the AUC of one user", "html": "<p>not judged: the AUC of one user</p>",
		"csv": ",gate,breaches,unjudged,", "parquet": "unjudged the AUC of one user", "json": `"unjudged": [`,
	} {
		if text := written(t, r, format); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", format, want, text)
		}
	}
	if strings.Contains(written(t, sample(), "csv"), "unjudged") {
		t.Error("results without such numbers have a column for them")
	}
}
