package engine

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/tasks/datasets/text"
)

const speeches = "../../examples/data/state-of-the-union.jsonl.gz"

func TestRunMeasuresRequestedRows(t *testing.T) { // not parallel: it measures allocations
	var seen []string
	report := must.Get(Run(t.Context(), Options{
		Repeat: 2, Only: []string{"allocations", "peak", "memory", "scoring-whole"}, Done: func(r Row) { seen = append(seen, r.Name) },
	}))(t)
	if got := strings.Join(seen, " "); got != "peak allocations scoring-whole memory" {
		t.Errorf("rows %q, want those asked for in the order of the table", got)
	}
	peak, allocations, scoring, memory := report.Rows[0], report.Rows[1], report.Rows[2], report.Rows[3]
	if peak.GFLOPS <= 0 {
		t.Errorf("peak of %v GFLOP/s", peak.GFLOPS)
	}
	if !build.Race && (allocations.Allocations == nil || *allocations.Allocations != 0) {
		t.Errorf("allocations %+v: want 0 in the steady state", allocations)
	}
	if scoring.GFLOPS <= 0 || scoring.TokensPerSecond <= 0 || scoring.Reached == nil {
		t.Errorf("scoring %+v: want a rate and a goal", scoring)
	}
	if memory.Megabytes == nil || *memory.Megabytes < 20 || *memory.Megabytes > 64 {
		t.Errorf("memory %+v: want under 64 MB, and more than the logits alone", memory)
	}
}

func TestAFigureOfZeroIsPrinted(t *testing.T) {
	t.Parallel()
	none := 0.0
	data := must.Get(json.Marshal(Row{Name: "x", Allocations: &none}))(t)
	if want := `{"row":"x","what":"","allocations":0}`; string(data) != want {
		t.Errorf("%s, want %s", data, want)
	}
}

func TestImpossibleOptionsAreErrors(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"repeat 0: want at least 1":  {},
		`no row "speed": want some`:  {Repeat: 1, Only: []string{"speed"}},
		"price -0.5: want the price": {Repeat: 1, Price: -0.5},
		"price NaN: want the price":  {Repeat: 1, Price: math.NaN()},
		"price +Inf: want the price": {Repeat: 1, Price: math.Inf(1)},
	} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestBatchesAreRealSentences(t *testing.T) {
	t.Parallel()
	for _, cut := range []int{0, text.SentenceWords} {
		batches := must.Get(readBatches(t.Context(), speeches, cut))(t)
		longest := 0
		for _, batch := range batches {
			if len(batch) != batchSize {
				t.Fatalf("a batch of %d sentences", len(batch))
			}
			padded := pad(batch)
			for i, s := range batch {
				longest = max(longest, len(s))
				if s[0] != text.Begin || len(padded[i]) != len(padded[0]) || len(padded[i]) < len(s) {
					t.Fatalf("sentence %v is padded to %v", s, padded[i])
				}
			}
		}
		if whole := longest > text.SentenceWords+1; whole != (cut == 0) {
			t.Errorf("cut at %d: the longest sentence has %d tokens", cut, longest)
		}
	}
}

func TestMissingTextSkipsRow(t *testing.T) {
	t.Parallel()
	var r Row
	must.Do(t, measureSentences(t.Context(), &bench{Options: Options{Repeat: 1, Text: filepath.Join(t.TempDir(), "none")}}, &r))
	if !strings.Contains(r.Skipped, "--text") || r.Reached != nil {
		t.Errorf("row %+v: want it skipped, and the flag to mend it", r)
	}
}

func TestTheMedianOfAnEvenNumberIsTheMean(t *testing.T) {
	t.Parallel()
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
	if got := median([]float64{9, 1, 3}); got != 3 {
		t.Errorf("median %v, want 3", got)
	}
}

func TestTheCostOfAMillionTokensCountsAllCores(t *testing.T) {
	t.Parallel()
	o := Options{Price: 0.036}
	for _, c := range []struct {
		row  Row
		want float64
	}{
		{Row{TokensPerSecond: 10_000}, 0.001}, // 100 s at 0.00001 a second
		{Row{TokensPerSecond: 10_000, Cores: 1}, 0.001},
		{Row{TokensPerSecond: 10_000, Cores: 16}, 0.016},
		{Row{Seconds: 3}, 0},
	} {
		if got := o.millionCost(c.row); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v costs %v, want %v", c.row, got, c.want)
		}
	}
	if got := (Options{}).millionCost(Row{TokensPerSecond: 1}); got != 0 {
		t.Errorf("cost %v without a price, want none", got)
	}
}

// wordsOf returns the words of the line of a table that begins with a word, or nil.
func wordsOf(table, first string) []string {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == first {
			return f
		}
	}
	return nil
}

func TestThePriceAddsAColumn(t *testing.T) {
	t.Parallel()
	report := Report{Repeat: 1, Rows: []Row{{Name: "training", TokensPerSecond: 12_000, OfPeak: 0.5, MillionCost: 0.00092592}}}
	var free, priced strings.Builder
	report.Print(&free)
	report.Price = 0.04
	report.Print(&priced)
	if strings.Contains(free.String(), "cost") {
		t.Errorf("a cost without a price:\n%s", &free)
	}
	if row := strings.Join(wordsOf(priced.String(), "training"), " "); row != "training 12000 50.0 0.000926" {
		t.Errorf("row %q in\n%s", row, &priced)
	}
	if !strings.Contains(priced.String(), "at 0.04 for an hour of a core") {
		t.Errorf("the table does not say the price:\n%s", &priced)
	}
}
