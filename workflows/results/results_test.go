package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/privacy"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/summary"
	"coalmine/tasks/audits/utility"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
)

func sample() *Results {
	audit := &summary.Audit{
		RandomSampling: &summary.SamplingVerdict{Memorized: 54, Of: 90, References: 2_000_000,
			Lowest: &summary.Configuration{UserProbability: 2e-5, ExampleProbability: 0.1}},
		BeamSearch: &summary.BeamVerdict{Of: 90, Width: 5},
		Canaries:   []summary.CanaryResult{}, NeverInserted: []summary.CanaryResult{}, Controls: []summary.CanaryResult{},
	}
	return &Results{Run: "r-1", Experiment: "r", Cells: []Cell{
		{
			Cell: "c01", Label: "iid, SGD, b=32", Status: Done, Setting: "SGD", Partition: "iid",
			Axes:   experiment.Axes{{Path: "data.partition", Value: json.RawMessage(`"iid"`)}},
			Report: &reports.Report{Utility: &utility.Utility{RecallAt1: 0.24, Perplexity: 62.2, Tokens: 123456}, Audit: audit},
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
	if err := sample().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	const want = `setting                     RS memorized  RS lowest (p_u, p_e)  BS memorized  BS lowest  accuracy %  perplexity  epsilon (proved)
--------------------------  ------------  --------------------  ------------  ---------  ----------  ----------  -------------------
iid, SGD, b=32              54/90         1/50000, 10%          0/90          -          24.0        62.2        -
by-user, DP-FedAvg & 100%_                                                                                       18.8 (154)
by-user, FedAvg+Clip                                                                                             infinite (infinite)
iid, FedAvg                 failed                                                                               -
c02 (by-user, DP-FedAvg & 100%_): epsilon 18.8 (papers' convention), 154 proved (replace-one), at delta 1e-07 after 7840 rounds; unit balanced user, fixed-size sampling, classic conversion
c03 (by-user, FedAvg+Clip): epsilon infinite, proved (add-or-remove-one), at delta 0 after 9 rounds; unit balanced user, poisson sampling, classic conversion
c04 (iid, FedAvg) failed: step 3: training diverged
`
	if b.String() != want {
		t.Errorf("table:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestJSONComesBackAsItWas(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	if err := sample().WriteJSON(&first); err != nil {
		t.Fatal(err)
	}
	var back Results
	if err := json.Unmarshal(first.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if err := back.WriteJSON(&second); err != nil {
		t.Fatal(err)
	}
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
	if err := sample().WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&text).ReadAll()
	if err != nil || len(lines) != 5 {
		t.Fatalf("%d lines of CSV (%v), want a header and four cells", len(lines), err)
	}
	if err := sample().WriteParquet(&file); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[flatRow](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d Parquet rows (%v), want four", len(rows), err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	if got := lines[1][column["random_sampling_memorized"]]; got != "54" || *rows[0].RandomSamplingMemorized != 54 {
		t.Errorf("memorized: CSV %q, Parquet %d", got, *rows[0].RandomSamplingMemorized)
	}
	if lines[3][column["epsilon"]] != "" || rows[2].Epsilon != nil || lines[3][column["epsilon_infinite"]] != "true" {
		t.Errorf("an infinite epsilon is %q in CSV, %v in Parquet; want none, marked as infinite", lines[3][column["epsilon"]], rows[2].Epsilon)
	}
}

func TestLaTeXIsEscaped(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := sample().WriteLaTeX(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `by-user, DP-FedAvg \& 100\%\_ &`) {
		t.Errorf("LaTeX:\n%s", b.String())
	}
}

func TestGatesUseTheProvedEpsilon(t *testing.T) {
	t.Parallel()
	limit := 20.0
	audit := &experiment.Audit{FailIf: &experiment.FailIf{Epsilon: &limit}}
	for i, want := range []bool{true, true, true} { // no privacy; 154 proved; infinite
		if got := breaches(audit, sample().Cells[i].Report); (len(got) > 0) != want {
			t.Errorf("cell %d: breaches %q", i, got)
		}
	}
	limit = 200
	if got := breaches(audit, sample().Cells[1].Report); len(got) > 0 {
		t.Errorf("154 is within 200, yet %q", got)
	}
}

func TestGatesCountMemorizedCanaries(t *testing.T) {
	t.Parallel()
	limit := 53
	audit := &experiment.Audit{FailIf: &experiment.FailIf{RandomSamplingMemorized: &limit}}
	if got := breaches(audit, sample().Cells[0].Report); len(got) != 1 {
		t.Errorf("54 memorized against a limit of 53: %q", got)
	}
	limit = 54
	if got := breaches(audit, sample().Cells[0].Report); len(got) != 0 {
		t.Errorf("54 memorized against a limit of 54: %q", got)
	}
}

// audited is a run with one cell, whose lower bound is as given.
func audited(lower float64) *Results {
	r := sample()
	r.Cells = r.Cells[1:2]
	r.Cells[0].Audit = summary.NewAudit()
	r.Cells[0].Audit.OneRun = &onerun.Verdict{
		Canaries: 60, Included: 37, KPlus: 10, KMinus: 8, Correct: 17, EpsilonLower: lower, Delta: 1e-7, Confidence: 0.95,
		EpsilonLargest: 1.82, EpsilonLargestCanaries: 2.97, Neighbouring: privacy.ReplaceOne, Unit: "balanced user", Score: onerun.ScoreLossDifference,
	}
	return r
}

func TestALowerBoundIsNeverBare(t *testing.T) {
	t.Parallel()
	formats := map[string][]string{
		"table": {
			"one-run epsilon >= (of)", "1.29 (1.82)",
			"epsilon at least 1.29 at delta 1e-07 with 95% confidence (replace-one, unit balanced user, score loss-difference): 17 of 18 guesses about 60 canaries are right; all of them would certify 1.82, as many as canaries 2.97\n",
		},
		"latex":   {`one-run epsilon >= (of) \\`, `1.29 (1.82) \\`, `epsilon at least 1.29 at delta 1e-07 with 95\% confidence (replace-one, unit balanced user`},
		"json":    {`"one_run": {`, `"epsilon_lower": 1.29`, `"k_plus": 10`, `"confidence": 0.95`, `"epsilon_largest_canaries": 2.97`},
		"csv":     {"epsilon_lower,one_run_delta,one_run_confidence,one_run_neighbouring,one_run_unit", "1.29,1e-07,0.95,replace-one,balanced user,60,10,8,17,1.82"},
		"html":    {"<th scope=\"col\">one-run epsilon &gt;= (of)</th>", "<td>1.29 (1.82)</td>", "epsilon at least 1.29 at delta 1e-07 with 95% confidence (replace-one, unit balanced user"},
		"parquet": {"epsilon_lower 1.29", "one_run_delta 1e-07", "one_run_confidence 0.95", "one_run_neighbouring replace-one", "one_run_unit balanced user", "one_run_epsilon_largest 1.82"},
	}
	for _, format := range FormatNames() {
		text := written(t, audited(1.29), format)
		if formats[format] == nil {
			t.Errorf("%s: say here what it shows of a lower bound", format)
		}
		for _, want := range formats[format] {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", format, want, text)
			}
		}
	}
}

// written are results in a format, as text.
func written(t *testing.T, r *Results, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	if format == "parquet" {
		return string(describeParquet(t, b.Bytes()))
	}
	return b.String()
}

// Whatever prints an epsilon prints what it assumes.
func TestNoFormatPrintsABareEpsilon(t *testing.T) {
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

func TestBoundsThatCrossAreSaidSo(t *testing.T) {
	t.Parallel()
	for lower, crossed := range map[float64]bool{1.29: false, 155: true} {
		var b bytes.Buffer
		if err := audited(lower).WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "ABOVE epsilon_proved 154") != crossed {
			t.Errorf("a lower bound of %v beside a proved 154:\n%s", lower, b.String())
		}
	}
}

func TestGatesLimitTheLowerBound(t *testing.T) {
	t.Parallel()
	limit := 1.5
	audit := &experiment.Audit{FailIf: &experiment.FailIf{EpsilonLower: &limit}}
	if got := breaches(audit, audited(1.29).Cells[0].Report); len(got) != 0 {
		t.Errorf("1.29 is within 1.5, yet %q", got)
	}
	got := breaches(audit, audited(1.6).Cells[0].Report)
	if want := "epsilon_lower (replace-one, at delta 1e-07 with 95% confidence) is 1.6, above the limit of 1.5"; len(got) != 1 || got[0] != want {
		t.Errorf("breaches %q, want %q", got, want)
	}
}
