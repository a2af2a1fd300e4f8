package privacy_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
)

// Every number of the table in docs/privacy.md equals the computed one, rounded
// to the printed digits.
func TestDocumentedTableMatchesAccount(t *testing.T) {
	t.Parallel()
	rows := documentedRows(t)
	if len(rows) != 17 {
		t.Fatalf("%d rows, expected 17", len(rows))
	}
	for _, row := range rows {
		t.Run(row[0]+" users for "+row[2]+" rounds", func(t *testing.T) {
			t.Parallel()
			recipe := documentedRecipe(t, row)
			classic := account(t, recipe)
			recipe.Conversion = privacy.Improved
			recipe.LossDistribution = true
			improved := account(t, recipe)
			recipe.Sampling = privacy.Poisson
			poisson := account(t, recipe)
			ours, order, _ := strings.Cut(strings.TrimSuffix(row[6], ")"), " (")
			for text, got := range map[string]float64{
				row[5]: float64(classic.Epsilon), ours: float64(classic.Epsilon), order: classic.Order,
				row[7]: float64(classic.EpsilonRenyi), row[8]: float64(improved.EpsilonRenyi),
				row[9]: float64(improved.LossDistribution.Lower), row[10]: float64(classic.EpsilonProved),
				row[11]: float64(poisson.EpsilonRenyi), row[12]: float64(poisson.EpsilonProved),
			} {
				if rounded := roundedLike(text, got); rounded != text {
					t.Errorf("%s stands there, %s is computed", text, rounded)
				}
			}
		})
	}
}

// documentedRows returns the cells of the rows that begin with a population.
func documentedRows(t *testing.T) (rows [][]string) {
	text := must.Get(os.ReadFile("../docs/privacy.md"))(t)
	for _, line := range regexp.MustCompile(`(?m)^\|[0-9].*$`).FindAllString(string(text), -1) {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func documentedRecipe(t *testing.T, row []string) privacy.Recipe {
	return privacy.Recipe{
		Population: int(documentedNumber(t, row[0])), Cohort: int(documentedNumber(t, row[1])),
		Rounds:          int(documentedNumber(t, row[2])),
		NoiseMultiplier: documentedNumber(t, row[3]), Delta: documentedNumber(t, row[4]),
	}
}

func documentedNumber(t *testing.T, text string) float64 {
	return must.Get(strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64))(t)
}

// roundedLike writes x with the digits, and in the form, of a text such as 0.160,
// 154 or 9.99e6.
func roundedLike(text string, x float64) string {
	format := byte('f')
	mantissa, _, scientific := strings.Cut(text, "e")
	if scientific {
		format = 'e'
	}
	_, decimals, _ := strings.Cut(mantissa, ".")
	return strings.Replace(strconv.FormatFloat(x, format, len(decimals), 64), "e+0", "e", 1)
}

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

func TestTableWithoutNoisePrintsInfinite(t *testing.T) {
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
	if err != nil || len(f.Series) != 2 || len(f.Series[0].Points) != 4 || f.Series[0].Name != "proved, replace-one" {
		t.Fatalf("%+v, %v", f, err)
	}
	recipe := tenEpochs()
	recipe.Accountant = privacy.RDP
	if f, err := privacy.EpsilonFigure(sweep(t, recipe, 10, 100)); err != nil || f.Series[0].Name != "proved by Rényi divergences, replace-one" {
		t.Errorf("the figure of Rényi divergences is %+v, %v", f, err)
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

func TestTableExplainsInfiniteEpsilonOfTinyNoise(t *testing.T) {
	t.Parallel()
	recipe := tenEpochs()
	recipe.NoiseMultiplier = 1e-200
	var out strings.Builder
	if err := privacy.WriteTable(&out, sweep(t, recipe, 10)); err != nil || !strings.Contains(out.String(), "with so little noise") {
		t.Errorf("error %v, table:\n%s", err, out.String())
	}
}
