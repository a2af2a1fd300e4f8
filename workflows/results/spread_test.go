package results

import (
	"slices"
	"strings"
	"testing"

	"coalmine/tasks/audits"
)

func TestSpreadKeepsBothEndsAndEvenDistances(t *testing.T) {
	t.Parallel()
	for length := range 60 {
		items := make([]int, length)
		for i := range items {
			items[i] = i
		}
		for n := 2; n < 40; n++ {
			got := spread(items, n)
			if len(got) != min(length, n) || length > 0 && (got[0] != 0 || got[len(got)-1] != length-1) {
				t.Fatalf("%d of %d items are %v", n, length, got)
			}
			least, most := length, 0
			for i := 1; i < len(got); i++ {
				least, most = min(least, got[i]-got[i-1]), max(most, got[i]-got[i-1])
			}
			if len(got) > 1 && (least < 1 || most > least+1) || !slices.IsSorted(got) {
				t.Fatalf("%d of %d items have distances %d to %d: %v", n, length, least, most, got)
			}
		}
	}
}

// A terminal shows no legends: below rows of several seeds the table names deviation and interval.
func TestATableOfSeveralSeedsNamesItsSpreads(t *testing.T) {
	t.Parallel()
	for text, named := range map[string]bool{"1.0 ± 1.0 of 9 (0-61%)": true, "18.2 ± 1.6 (14.1 to 22.2)": true, "5/9": false, "21.9": false} {
		table := &Table{Rows: []TableRow{{Texts: []string{"setting", "3", text}}}}
		if got := table.spreads(); strings.Contains(got, "standard deviation over seeds; in brackets the 95% interval") != named {
			t.Errorf("below %q stands %q", text, got)
		}
	}
}

// "refutes epsilon" above "0.0 ± 0.0" would read as a refuted epsilon of 0.
func TestRowsCountSeedsOfTruthValues(t *testing.T) {
	t.Parallel()
	column := tableColumn{Measure: &audits.Measure{Name: "refuted", Header: "refutes epsilon", Scale: audits.Percent, Of: audits.Of(func(refuted *bool) bool { return *refuted })}}
	for want, refuted := range map[string][]float64{"0 of 3": {0, 0, 0}, "1 of 3": {0, 1, 0}, "1 of 1": {1}} {
		row := viewRow{Row: Row{Measures: map[string]RowMeasure{"refuted": {Estimate: *audits.NewEstimate(refuted)}}}}
		for _, column.compact = range []bool{false, true} {
			if got := row.text(column); got != want {
				t.Errorf("%v: %q, want %q", refuted, got, want)
			}
		}
	}
}
