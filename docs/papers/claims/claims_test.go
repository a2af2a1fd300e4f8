package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// byHand is a verdict that no number has decided.
var byHand = regexp.MustCompile(`\*\*(As in|Unlike) the paper`)

func TestPagesHaveTheTablesOfTheirResults(t *testing.T) {
	t.Parallel()
	for _, name := range studies {
		folder := filepath.Join("..", name)
		page := must.Get(os.ReadFile(folder + ".md"))(t)
		made, err := pageOf(folder, page)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		head, _, found := bytes.Cut(page, []byte("<!-- claims"))
		if !found || bytes.Contains(head, []byte("\n## ")) {
			t.Errorf("%s.md does not begin with the table of the paper's claims", name)
		}
		if verdict := byHand.Find(page); verdict != nil {
			t.Errorf("%s.md says %q outside of the table of claims, which alone has verdicts", name, verdict)
		}
		taskstest.File(t, folder+".md", made)
	}
}

func TestIntervalDecidesAClaim(t *testing.T) {
	t.Parallel()
	interval := func(low, high float64) estimate {
		return estimate{N: 5, Mean: (low + high) / 2, Low: &low, High: &high}
	}
	for _, c := range []struct {
		expected string
		found    estimate
		want     string
	}{
		{"less", interval(-3, -1), reproduced},
		{"less", interval(1, 3), contradicted},
		{"less", interval(-3, 1), cannotTell},
		{"less", estimate{N: 5, Mean: -2}, cannotTell},
		{"more", interval(1, 3), reproduced},
		{"more", interval(-3, -1), contradicted},
		{"no", interval(-0.3, 0.4), reproduced},
		{"no", interval(-0.6, 0.4), cannotTell},
		{"no", interval(1, 3), contradicted},
		{"no", interval(-3, -1), contradicted},
	} {
		if got := verdict(c.expected, c.found, 0.5); got != c.want {
			t.Errorf("%s, %v to %v: %s, want %s", c.expected, c.found.Low, c.found.High, got, c.want)
		}
	}
}

func TestMeasuresOfAClaimDecideTogether(t *testing.T) {
	t.Parallel()
	little := cannotTell + ": too little is memorized"
	for _, c := range []struct {
		found   []string
		seeds   int
		matched bool
		want    string
	}{
		{[]string{reproduced, cannotTell}, 5, true, reproduced},
		{[]string{cannotTell, contradicted}, 5, true, contradicted},
		{[]string{reproduced, contradicted}, 5, true, "cannot tell: measures disagree"},
		{[]string{reproduced}, 5, false, "cannot tell: unequal utility"},
		{[]string{contradicted}, 5, false, "cannot tell: unequal utility"},
		{[]string{cannotTell}, 5, false, cannotTell},
		{[]string{reproduced}, 2, true, "cannot tell: too few seeds"},
		{[]string{cannotTell, little}, 5, true, cannotTell},
		{[]string{little, little}, 5, true, little},
	} {
		if got := combined(c.found, c.seeds, c.matched); got != c.want {
			t.Errorf("%v, %d seeds, matched %v: %q, want %q", c.found, c.seeds, c.matched, got, c.want)
		}
	}
}

// made is the table of claims of a paper with these files.
func made(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	page := must.Get(pageOf(folder, []byte("<!-- claims: made of results -->\n<!-- end -->")))(t)
	return string(page)
}

const (
	claimsHead = "claim,section,results,row,to,measures,expected,margin,utility,experiment,seeds,minutes\n"
	cells      = "row,label,seed,recall_at_1,perplexity\nr01,plain,1,0.2,50\nr01,plain,2,0.2,50\nr01,plain,3,0.2,50\nr02,dropout,1,0.2,51\nr02,dropout,2,0.2,51\nr02,dropout,3,0.2,51\n"
	canaries   = "row,seed,insertions,exposure\nr01,1,4,9\nr01,1,4,11\nr01,2,4,10.5\nr01,3,4,9.5\nr01,1,1,2\nr01,2,1,2\nr01,3,1,2\nr02,1,4,10.1\nr02,2,4,10.4\nr02,3,4,9.5\n"
)

func TestClaimsAreDecidedByTheRowsOfSeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ claim, cells, want string }{
		{"a,1,x,r01 insertions=4,r01 insertions=1,exposure,more,,,,,", cells, "exposure +8.00 (+6.76, +9.24)|reproduced|"},
		{"a,1,x,r01 insertions=4,29.9,exposure,more,,,,,", cells, "|contradicted|"},
		{"a,1,x,r02 insertions=4,r01 insertions=4,exposure,no,,,,,", cells, "; recall@1 +0.00, perplexity +1.0|reproduced|"},
		{"a,1,x,r01 insertions=1,r01 insertions=1,exposure,no,,,,,", cells, "|cannot tell|"}, // no spread
		{"a,1,x,r02 insertions=4,r01 insertions=4,exposure,no,,,,,", strings.ReplaceAll(cells, ",51", ",53"), "|cannot tell: unequal utility|"},
		{"a,1,x,r02 insertions=4,r01 insertions=4,exposure,no,,,,,", strings.ReplaceAll(cells, "0.2,", "0,"), "|cannot tell: unequal utility|"},
		{"a,1,x,r02 insertions=4,r01 insertions=4,exposure,no,,any,,,", strings.ReplaceAll(cells, ",51", ",53"), "|reproduced|"},
		{"a,1,x,r02 insertions=4,r01 insertions=4,exposure,no,9,,,,", cells, "|cannot tell: too little is memorized|"},
		{"a,1,x,r02 insertions=4,r01 insertions=4,exposure,no,,,,,", strings.Replace(cells, "r02,dropout,1,0.2,51", "r02,dropout,1,0.2,1e19", 1), "|2|"},
		{"a,1,,,,,,,,other,2,7", cells, "|2|other, 7 minutes of processor time a seed|cannot tell: too few seeds|"},
		{"a,1,,,,,,,,other,,", cells, "|other would measure it|not measured|"},
	} {
		got := made(t, map[string]string{"claims.csv": claimsHead + c.claim + "\n", "x-cells.csv": c.cells, "x-canaries.csv": canaries})
		if !strings.Contains(got, c.want) {
			t.Errorf("%s\n%s\nwant %s", c.claim, got, c.want)
		}
	}
}

func TestSharedLabelPartsArePrintedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ label, other, want string }{
		{"by-user, SGD, b=32", "iid, SGD, b=32", "SGD, b=32: by-user minus iid"},
		{"iid, FedAvg, b=5", "iid, SGD, b=32", "iid: FedAvg, b=5 minus SGD, b=32"},
		{"SGD", "FedAvg", "SGD minus FedAvg"},
		{"DP-SGD, noise 1, 1 copy", "SGD, 1 copy", "DP-SGD, noise 1, 1 copy minus SGD, 1 copy"},
		{"plain", "plain", "plain minus plain"},
	} {
		if got := minus(c.label, c.other); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.label, c.other, got, c.want)
		}
	}
}

// Three configurations; the rarest is 1/100 of the records of 1/10 of the users.
func TestRarestMemorizedConfigurationIsRanked(t *testing.T) {
	t.Parallel()
	canary := func(users, examples, memorized string) map[string]string {
		return map[string]string{"user_probability": users, "example_probability": examples, "memorized": memorized}
	}
	for _, c := range []struct {
		memorized [4]string
		want      float64
	}{
		{[4]string{"false", "false", "false", "false"}, 4},
		{[4]string{"false", "true", "false", "false"}, 3},
		{[4]string{"true", "true", "false", "false"}, 2},
		{[4]string{"true", "true", "false", "true"}, 1},
	} {
		rows := table{canary("0.01", "1", c.memorized[0]), canary("0.1", "0.1", c.memorized[1]), canary("0.1", "0.01", c.memorized[2]), canary("0.1", "0.01", c.memorized[3])}
		if place, ok := rarest("memorized")(rows); !ok || place != c.want {
			t.Errorf("%v: place %v, want %v", c.memorized, place, c.want)
		}
	}
}

// As scipy.stats.pearsonr([50, 60, 70], [9, 5, 4]) says; the second row has two canaries.
func TestPerplexityIsCorrelatedWithMeanExposure(t *testing.T) {
	t.Parallel()
	rows := table{
		{"row": "r01", perplexityOfCell: "50", "fitted_exposure": "9"},
		{"row": "r02", perplexityOfCell: "60", "fitted_exposure": "7"},
		{"row": "r02", perplexityOfCell: "60", "fitted_exposure": "3"},
		{"row": "r03", perplexityOfCell: "70", "fitted_exposure": "4"},
	}
	if r, ok := perplexityAgainstExposure(rows); !ok || math.Abs(r+0.944911182523) > 1e-9 {
		t.Errorf("r = %v", r)
	}
	if _, ok := perplexityAgainstExposure(rows[:3]); ok {
		t.Error("two rows have a correlation")
	}
}

func TestConditionsCompareNumbersAndTexts(t *testing.T) {
	t.Parallel()
	rows := table{{"row": "r01", "bits": "30"}, {"row": "r02", "bits": "33.5"}, {"row": "r02", "bits": ""}}
	for condition, want := range map[string]int{"row=*": 3, "row=r02": 2, "row=* bits>31": 1, "row=* bits<31": 1, "row=r02 bits<31": 0, "row=* bits>33.5": 0} {
		if got := len(rows.where(condition)); got != want {
			t.Errorf("%s: %d rows, want %d", condition, got, want)
		}
	}
}

// As scipy.stats.ttest_ind_from_stats(2.8, 1.0954451, 5, 1.2, 1.3038405, 5, equal_var=False) says.
func TestMeansAreComparedByWelch(t *testing.T) {
	t.Parallel()
	e := welch(map[string]string{"n": "5", "mean": "2.8", "sd": "1.0954451"}, map[string]string{"n": "5", "mean": "1.2", "sd": "1.3038405"})
	if math.Abs(*e.Low+0.165329) > 1e-5 || math.Abs(*e.High-3.365329) > 1e-5 || e.N != 5 {
		t.Errorf("%v to %v over %d", *e.Low, *e.High, e.N)
	}
}

// The diagonal has a mean of 8, and the rest one of 6.
func TestStageShareComparesOtherAndSameStages(t *testing.T) {
	t.Parallel()
	if share, ok := keptAtOtherStages(table{{"deanonymization_stages": "9 5; 7 7"}}); !ok || share != 0.75 {
		t.Errorf("%v is kept, want 0.75", share)
	}
	if _, ok := keptAtOtherStages(table{{}}); ok {
		t.Error("something is kept without stages")
	}
}

func TestFederatedShareOfCentralTraining(t *testing.T) {
	t.Parallel()
	rows := table{{"row": "r01", "recall_at_1": "0.3"}, {"row": "r02", "recall_at_1": "0.4"}}
	if share, ok := federatedShare("recall_at_1")(rows); !ok || math.Abs(share-0.75) > 1e-15 {
		t.Errorf("a share of %v, want 0.75", share)
	}
	if _, ok := federatedShare("recall_at_1")(rows[:1]); ok {
		t.Error("one row has a share")
	}
}

func TestUsersBelowHalfCountsLowerHistogram(t *testing.T) {
	t.Parallel()
	if users, ok := usersBelowHalf(table{{"prepared_users_accuracy_histogram": "5 4 0 7"}}); !ok || users != 9 {
		t.Errorf("%v users, want 9", users)
	}
	if _, ok := usersBelowHalf(table{{}}); ok {
		t.Error("users are counted without a histogram")
	}
}
