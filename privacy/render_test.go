package privacy_test

import (
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
)

func sweep(t *testing.T, recipe privacy.Recipe, rounds ...int) []privacy.Report {
	t.Helper()
	return must.Get(privacy.Sweep(privacy.Account, recipe, rounds))(t)
}

func TestTableShowsBothEpsilonsAndEveryAssumption(t *testing.T) {
	t.Parallel()
	recipe := tenEpochs()
	recipe.Randomness = privacy.Seeded
	var out strings.Builder
	must.Do(t, privacy.WriteTable(&out, sweep(t, recipe, 784, 7840)))
	for _, text := range []string{
		"epsilon proved", "papers' convention", "5.62", "20.9", "29.9", "18.8", "71.7", "154", "pld", "fixed-size, 5000 of 392000", "replace-one", "classic",
		"Theorem 27", "balanced user", "the vocabulary", "sigma = noise multiplier / 2", "valid only while the experiment's seed",
	} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the table lacks %q:\n%s", text, out.String())
		}
	}
}

func TestTableOfNoNoiseSaysInfinite(t *testing.T) {
	t.Parallel()
	recipe := tenEpochs()
	recipe.NoiseMultiplier = 0
	var out strings.Builder
	if err := privacy.WriteTable(&out, sweep(t, recipe, 10)); err != nil || !strings.Contains(out.String(), "infinite") {
		t.Errorf("error %v, table:\n%s", err, out.String())
	}
}

func TestFigureHasBothEpsilons(t *testing.T) {
	t.Parallel()
	reports := sweep(t, tenEpochs(), 0, 10, 100, 1000, 10_000)
	f, err := privacy.EpsilonFigure(reports)
	if err != nil || len(f.Series) != 2 || len(f.Series[0].Points) != 4 {
		t.Fatalf("%+v, %v", f, err)
	}
	for i, r := range reports[1:] {
		if proved, papers := f.Series[0].Points[i], f.Series[1].Points[i]; proved.X != float64(r.Rounds) || proved.Y != float64(r.EpsilonProved) || papers.Y != float64(r.Epsilon) {
			t.Errorf("%d rounds: %+v and %+v, want %v and %v", r.Rounds, proved, papers, r.EpsilonProved, r.Epsilon)
		}
	}
}

func TestFigureNeedsTwoPoints(t *testing.T) {
	t.Parallel()
	if _, err := privacy.EpsilonFigure(sweep(t, tenEpochs(), 0, 10)); err == nil {
		t.Error("a plot of one point was drawn")
	}
}

func TestTableOfNextToNoNoiseSaysWhyItIsInfinite(t *testing.T) {
	t.Parallel()
	recipe := tenEpochs()
	recipe.NoiseMultiplier = 1e-200
	var out strings.Builder
	if err := privacy.WriteTable(&out, sweep(t, recipe, 10)); err != nil || !strings.Contains(out.String(), "with so little noise") {
		t.Errorf("error %v, table:\n%s", err, out.String())
	}
}
