package main

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/workflows/control"
)

// 130 rounds: one whole segment of metric rows, and an open one.
const noisyFile = `
name: noisy
data: {source: %q, vocabulary: {size: 30}, users: {words: 100}}
model: {embedding: 3, units: 4}
training: {rounds: 130, cohort: 4, chunks: 1, sampling: poisson, privacy: {clip: 0.1, noise_multiplier: 1, delta: 1e-5, conversion: improved}}
audit: {one_run: {canaries: 20, guesses: {k_plus: 5, k_minus: 5}}}
grid: {axes: {training.privacy.noise_multiplier: [1, 0]}}
`

// spendingText is a source of 23 users.
func spendingText() string {
	var text strings.Builder
	for i := range 900 {
		fmt.Fprintf(&text, `{"user":"u%d","text":"a%d b%d c%d d%d"}`+"\n", i%23, i%13, i%7, i%5, i*i%11)
	}
	return text.String()
}

func TestRunReportsPrivacyCostOfEveryRound(t *testing.T) {
	t.Parallel()
	file, home := smallFiles(t, noisyFile, spendingText())
	planned := plannedPrivacy(t, file)
	if table := outputOf(t, home, "run", file); !strings.Contains(table, "add-or-remove-one, unit balanced user, score loss-difference") {
		t.Errorf("the table does not explain its lower bound:\n%s", table)
	}
	g := &global{stdout: io.Discard, data: io.Discard, stderr: io.Discard}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	g.flags(flags)
	must.Do(t, flags.Set("home", home))
	must.Do(t, g.withControl(t.Context(), func(api control.API) error {
		results, err := api.Results(t.Context(), "")
		if err != nil {
			return err
		}
		noisy, err := api.Spending(t.Context(), "", "c01")
		if err != nil {
			return err
		}
		checkSpending(t, noisy, results.Cells[0].Privacy)
		if !reflect.DeepEqual(planned[0], results.Cells[0].Privacy) || planned[1] == nil || !planned[1].Infinite {
			t.Errorf("the plan says %+v, the result %+v; without noise %+v", planned[0], results.Cells[0].Privacy, planned[1])
		}
		clipped, err := api.Spending(t.Context(), "", "c02")
		if len(clipped.Rounds) != 0 || clipped.Rounds == nil {
			t.Errorf("a training without noise has spent %+v", clipped)
		}
		return err
	}))
}

// plannedPrivacy is the planned privacy cost of each cell.
func plannedPrivacy(t *testing.T, file string) []*privacy.Report {
	t.Helper()
	out := prints(t, "plan", file, "--json", "--home", filepath.Join(t.TempDir(), "none"))
	var plan struct {
		Cells []struct{ Privacy *privacy.Report }
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Cells) != 2 {
		t.Fatalf("%v in %s", err, out)
	}
	return []*privacy.Report{plan.Cells[0].Privacy, plan.Cells[1].Privacy}
}

func checkSpending(t *testing.T, s control.Spending, report *privacy.Report) {
	t.Helper()
	if len(s.Rounds) != 130 || s.Delta != 1e-5 || s.Neighbouring != privacy.AddOrRemoveOne || s.Unit != "balanced user" || s.Sampling != privacy.Poisson || s.Conversion != privacy.Improved {
		t.Fatalf("%d rounds of %+v", len(s.Rounds), s)
	}
	last := control.SpentRound{}
	for _, r := range s.Rounds {
		if r.Round != last.Round+1 || r.EpsilonProved <= last.EpsilonProved {
			t.Errorf("round %+v after %+v", r, last)
		}
		last = r
	}
	if last.EpsilonProved != report.EpsilonRenyi || last.Epsilon != report.Epsilon {
		t.Errorf("the last round has cost %+v, the report says %v (%v)", last, report.Epsilon, report.EpsilonRenyi)
	}
	if !slices.Equal(s.Assumptions, report.Assumptions) || !slices.Equal(s.NotCovered, report.NotCovered) || s.HoldsAgainst != report.HoldsAgainst {
		t.Errorf("it rests on %+v, the report on %q, %q, %q", s.Grounds, report.Assumptions, report.NotCovered, report.HoldsAgainst)
	}
	figure, err := privacy.EpsilonFigure(s.Reports())
	if err != nil || figure.Series[0].Name != "proved by Rényi divergences, add-or-remove-one" {
		t.Errorf("%v, figure %+v", err, figure)
	}
}
