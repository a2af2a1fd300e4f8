package forecast

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/rdp"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
)

// ganTraining is one of Augenstein et al. 2020, section 6: a gan of some of 3,400 users.
func ganTraining(users int) Training {
	return Training{Run: "images", Cell: fmt.Sprint("of-", users), Label: fmt.Sprint(users, " users"), Generator: true, OfUsers: 3400, Recipe: privacy.Recipe{
		Population: users, Cohort: 10, Rounds: 1000, NoiseMultiplier: 0.01, Delta: 1 / float64(users), Randomness: privacy.Seeded,
	}}
}

// words is the word model of section 5 there.
func words() Training {
	return Training{Run: "text", Cell: "c01", Label: "words", OfUsers: 342_477, Recipe: privacy.Recipe{
		Population: 342_477, Cohort: 5000, Rounds: 2000, NoiseMultiplier: 1, Delta: 2.92e-6, Randomness: privacy.Secret,
	}}
}

func account(t *testing.T, q PrivacyQuestion, trainings ...Training) *PrivacyAnswer {
	t.Helper()
	return must.Get(Account(trainings, q))(t)
}

// printed is a number with the digits of a text such as 2.38 or 4.00e-8.
func printed(text string, x float64) string {
	format := byte('f')
	mantissa, _, scientific := strings.Cut(text, "e")
	if scientific {
		format = 'e'
	}
	_, decimals, _ := strings.Cut(mantissa, ".")
	out := strconv.FormatFloat(x, format, len(decimals), 64)
	return strings.NewReplacer("e+0", "e", "e-0", "e-").Replace(out)
}

// Every row of tables 3 and 13 of Augenstein et al. 2020 comes out in all digits that are
// printed there.
func TestCostsMatchPublishedTables(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		users          int
		small          string
		scaled         int
		delta, epsilon string
	}{
		{425, "2.35e-3", 250_000, "4.00e-8", "2.38"},
		{2125, "4.71e-4", 1_250_000, "8.00e-9", "1.48"},
		{850, "1.18e-3", 500_000, "2.00e-8", "1.79"},
		{2905, "3.44e-4", 1_708_824, "5.85e-9", "1.47"},
		{3340, "2.99e-4", 1_964_706, "5.09e-9", "1.40"},
		{3400, "2.94e-4", 2_000_000, "5.00e-9", "1.39"},
		{3282, "3.05e-4", 1_930_588, "5.18e-9", "1.40"},
	} {
		costs := account(t, PrivacyQuestion{Scales: []int{100}, Population: 2_000_000}, ganTraining(row.users)).Trainings[0].Scales
		small, scaled := costs[0], costs[1]
		if got := printed(row.small, small.Delta); got != row.small {
			t.Errorf("%d users: delta %s, printed %s", row.users, got, row.small)
		}
		if got := printed("9.99e6", float64(small.Epsilon)); got != "9.99e6" {
			t.Errorf("%d users: epsilon %s, printed 9.99e6", row.users, got)
		}
		if scaled.Population != row.scaled || scaled.Cohort != 1000 || scaled.NoiseMultiplier != 1 || scaled.Rounds != 1000 || scaled.OfUsers != 2_000_000 {
			t.Errorf("%d users stand for %d of %d, cohort %d, noise %v, %d rounds; printed %d", row.users,
				scaled.Population, scaled.OfUsers, scaled.Cohort, scaled.NoiseMultiplier, scaled.Rounds, row.scaled)
		}
		if delta, epsilon := printed(row.delta, scaled.Delta), printed(row.epsilon, float64(scaled.Epsilon)); delta != row.delta || epsilon != row.epsilon {
			t.Errorf("%d users, scaled: epsilon %s at delta %s, printed %s at %s", row.users, epsilon, delta, row.epsilon, row.delta)
		}
	}
}

// Table 5, whose epsilon stands in section 5.
func TestCostMatchesPublishedWordModel(t *testing.T) {
	t.Parallel()
	cost := account(t, PrivacyQuestion{}, words()).Trainings[0].Scales[0]
	if epsilon, delta := printed("9.22", float64(cost.Epsilon)), printed("2.92e-6", cost.Delta); epsilon != "9.22" || delta != "2.92e-6" {
		t.Errorf("epsilon %s at delta %s, printed 9.22 at 2.92e-6", epsilon, delta)
	}
}

// At every scale, the noise on the mean update is the simulation's: noise multiplier
// over cohort; and more users never cost more.
func TestNoiseOfMeanUpdateIsEqualAtAllScales(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		training := ganTraining(20 + rng.IntN(3000))
		training.Recipe.NoiseMultiplier = math.Exp(rng.Float64() - 3)
		costs := account(t, PrivacyQuestion{Scales: []int{2, 10, 500}, Delta: 1e-6}, training).Trainings[0].Scales
		for i, c := range costs {
			noise := c.NoiseMultiplier / float64(c.Cohort)
			if want := training.Recipe.NoiseMultiplier / 10; math.Abs(noise-want) > 1e-15 || c.Population != c.Scale*training.Recipe.Population {
				t.Errorf("scale %d: noise %v on the mean of %d users, want %v", c.Scale, noise, c.Population, want)
			}
			if i > 0 && c.EpsilonProved > costs[i-1].EpsilonProved {
				t.Errorf("%+v: epsilon %v at scale %d, %v before", training, c.EpsilonProved, c.Scale, costs[i-1].EpsilonProved)
			}
		}
	}
}

// The cost of two models together is computed by hand, at the scale that they stand for.
func TestModelsOfTheSameUsersAreComposed(t *testing.T) {
	t.Parallel()
	badly, well := ganTraining(2125), ganTraining(425)
	a := account(t, PrivacyQuestion{Scales: []int{100}, Population: 2_000_000}, badly, well)
	want := math.Inf(1)
	for _, order := range rdp.WholeOrders() {
		divergence := 0.
		for _, users := range []float64{1_250_000, 250_000} {
			curve := must.Get(rdp.FixedSize(1000/users, 1, []float64{order}))(t)
			divergence += 1000 * curve.Values()[0]
		}
		want = min(want, divergence+math.Log(125_000_000)/(order-1))
	}
	if len(a.Together) != 2 || a.Together[0].Scale != 1 || a.Together[1].Scale != 100 {
		t.Fatalf("together %+v", a.Together)
	}
	together := a.Together[1]
	if math.Abs(float64(together.Epsilon)-want) > 1e-9 || together.Delta != 1/(100*1_250_000.) {
		t.Errorf("together epsilon %v at delta %v, by hand %v at 8e-9", together.Epsilon, together.Delta, want)
	}
	for _, c := range a.Trainings {
		if together.EpsilonProved < c.Scales[1].EpsilonProved {
			t.Errorf("%v proved together, %v of %s alone", together.EpsilonProved, c.Scales[1].EpsilonProved, c.Cell)
		}
	}
}

func TestTableExplainsItsNumbers(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	a := account(t, PrivacyQuestion{Scales: []int{100}}, ganTraining(2125), words())
	a.Unbounded = []UnboundedCell{{"text", "c02", "plain", "no noise was added"}}
	must.Do(t, a.WriteTable(&b))
	for _, text := range []string{
		"images/of-2125 (2125 users)", "text/c01 (words)", "2125 of 3400", "212500 of 340000", "all 2 together",
		"a generator inherits the guarantee of its discriminator", "post-processing", "samples and images",
		"disjoint selections are added up too", "need training.privacy.randomness: secret", "every model may be trained on the same user",
		"delta is that of the training's file; at a scale 1/(scale x its users) if that is less", "the mean update has the same noise", "left out: text/c02 (plain): no noise was added", "fixed-size sampling, classic conversion",
		"not covered: the vocabulary", "percentiles and models prepared", "only while the experiment's seed", "without the run's secret key",
	} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the table lacks %q:\n%s", text, b.String())
		}
	}
}

// The papers' convention of all trainings together underestimates where that of one is refuted, and only there.
func TestRefutedConventionIsMarked(t *testing.T) {
	t.Parallel()
	noisy := func(noise float64) Training {
		training := words()
		training.Recipe = privacy.Recipe{Population: 1223, Cohort: 1000, Rounds: 1, NoiseMultiplier: noise, Delta: 1e-5}
		return training
	}
	poisson := words()
	poisson.Recipe.Sampling = privacy.Poisson
	for _, c := range []struct {
		trainings []Training
		want      string
	}{
		{[]Training{noisy(0.3), noisy(20)}, "22.4 underestimates"},
		{[]Training{poisson, poisson}, ""},
	} {
		a := account(t, PrivacyQuestion{}, c.trainings...)
		var b strings.Builder
		must.Do(t, a.WriteTable(&b))
		_, line, _ := strings.Cut(b.String(), "all 2 together")
		line, _, _ = strings.Cut(line, "\n")
		if refuted := c.want != ""; a.Together[0].PapersRefuted != refuted || strings.Contains(line, "underestimates") != refuted || !strings.HasSuffix(line, c.want) {
			t.Errorf("refuted together: %t, want %t; the line is %q", a.Together[0].PapersRefuted, refuted, line)
		}
	}
}

// Notes stand only where they are true. A delta of 1/users or more is warned of.
func TestOnlyLargeDeltaWarns(t *testing.T) {
	t.Parallel()
	for delta, warned := range map[float64]bool{0: false, 1e-3: true, 1e-9: false} {
		training := words()
		training.Recipe.Delta = 2e-6
		notes := strings.Join(account(t, PrivacyQuestion{Delta: delta, Scales: []int{10}}, training).Notes, "\n")
		if strings.Contains(notes, "WARNING: c01 at scale 1: delta 0.001 is 1/users or more") != warned || strings.Contains(notes, "WARNING") != warned {
			t.Errorf("delta %g is warned of: %t, want %t:\n%s", delta, !warned, warned, notes)
		}
	}
}

func TestTableOmitsAbsentNotes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	must.Do(t, account(t, PrivacyQuestion{Delta: 1e-7}, words()).WriteTable(&b))
	for _, text := range []string{"generator", "together", "at a scale", "selected", "seed", "delta is 1/users", "not composed"} {
		if strings.Contains(b.String(), text) {
			t.Errorf("the table speaks of %q:\n%s", text, b.String())
		}
	}
	if !strings.Contains(b.String(), "delta is 1e-07 everywhere") {
		t.Errorf("the table does not say its delta:\n%s", b.String())
	}
}

// A training over records counts records, at the delta of its file.
func TestCostHasDeltaAndUnitOfFile(t *testing.T) {
	t.Parallel()
	training := Training{Run: "sgd", Cell: "c01", Label: "DP-SGD", OfUsers: 600, Recipe: privacy.Recipe{
		Population: 600, Cohort: 30, Rounds: 10, NoiseMultiplier: 2, Delta: 1e-5, Unit: privacy.RecordUnit, Sampling: privacy.Poisson,
	}}
	answer := account(t, PrivacyQuestion{Scales: []int{10, 1000}}, training)
	want := must.Get(privacy.Account(training.Recipe))(t)
	costs := answer.Trainings[0].Scales
	if costs[0].Delta != 1e-5 || costs[0].Epsilon != want.Epsilon || costs[1].Delta != 1e-5 || costs[2].Delta != 1/(1000*600_000.) {
		t.Errorf("deltas %v, %v and %v, want 1e-5, 1e-5 and 1/(1000 x 600000); epsilon %v, want %v", costs[0].Delta, costs[1].Delta, costs[2].Delta, costs[0].Epsilon, want.Epsilon)
	}
	var b strings.Builder
	must.Do(t, answer.WriteTable(&b))
	for _, text := range []string{"600 records", "6000 records", "protected: a record", "1/(scale x its records)"} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the table lacks %q:\n%s", text, b.String())
		}
	}
	if strings.Contains(b.String(), "users") || strings.Contains(b.String(), "WARNING") {
		t.Errorf("the table speaks of users:\n%s", b.String())
	}
}

func TestNotesMentionBalancedUsers(t *testing.T) {
	t.Parallel()
	balanced := words()
	balanced.Recipe.Unit = "balanced user"
	other := balanced
	other.Cell = "c02"
	if a := account(t, PrivacyQuestion{}, balanced, other); !strings.Contains(strings.Join(a.Notes, "\n"), "several balanced users of one model is protected only as a group") {
		t.Errorf("notes %q", a.Notes)
	}
}

func TestUncomposableTrainingsAreReported(t *testing.T) {
	t.Parallel()
	records := words()
	records.Recipe.Unit = privacy.RecordUnit
	a := account(t, PrivacyQuestion{}, words(), records)
	if len(a.Together) != 0 || !strings.Contains(a.NotTogether, "expected trainings that protect the same unit") {
		t.Errorf("together %v, because %q", a.Together, a.NotTogether)
	}
	var b strings.Builder
	if err := a.WriteTable(&b); err != nil || !strings.Contains(b.String(), "not composed: guarantees of a user and of a record") {
		t.Errorf("%v, table:\n%s", err, b.String())
	}
}

func TestMixedRelationsAreAccountedAsReplaceOne(t *testing.T) {
	t.Parallel()
	poisson := words()
	poisson.Recipe.Sampling = privacy.Poisson
	a := account(t, PrivacyQuestion{}, words(), poisson)
	var b strings.Builder
	if err := a.WriteTable(&b); err != nil || len(a.Together) != 1 || a.Together[0].Neighbouring != privacy.ReplaceOne {
		t.Fatalf("together %v, because %q; %v", a.Together, a.NotTogether, err)
	}
	for _, want := range []string{"together all are accounted for replace-one", "together, proved by: PLD; the pair that dominates samples of fixed size"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestBadPrivacyQuestionsAreRejected(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]PrivacyQuestion{
		"scale 1: expected a whole number of at least 2": {Scales: []int{1}},
		"scale -3: expected":                             {Scales: []int{10, -3}},
		"population 9 without a scale":                   {Population: 9},
		"population -9: expected at least 1 user":        {Population: -9, Scales: []int{2}},
		"delta NaN: expected":                            {Delta: math.NaN()},
		"delta 1: expected":                              {Delta: 1},
		"cohort 20 is above the population of 6":         {Scales: []int{2}, Population: 10},
		"9223372036854775807 overflow an integer":        {Scales: []int{math.MaxInt}},
		`conversion "best": expected one of classic`:     {Conversion: "best"},
	} {
		if _, err := Account([]Training{ganTraining(2125)}, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", q, err, want)
		}
	}
}

// A run is one cell with noise, of a selection, and cells without a bound.
func run(t *testing.T) results.Side {
	t.Helper()
	report := new(reports.Report)
	const selected = `{
		"privacy": {"population": 191, "noise_multiplier": 0.01, "epsilon": 1, "epsilon_proved": 1}, "selection": {"users": 191, "of_users": 297},
		"training": {"algorithm": "fedavg", "rounds": 100, "cohort": 10, "partition": "by-user", "whole_users": true, "sampling": "fixed-size",
			"clip": 1, "noise_multiplier": 0.01, "delta": 0.001}}`
	must.Do(t, json.Unmarshal([]byte(selected), report))
	side := results.Side{Spec: &experiment.Spec{}, Results: &results.Results{Run: "r-1/c01", Cells: []results.Cell{
		{Cell: "c01", Label: "gan", Status: results.Done, Report: report},
		{Cell: "c02", Label: "plain", Status: results.Done, Report: new(reports.Report)},
		{Cell: "c03", Label: "clipped", Status: results.Done, Report: &reports.Report{Privacy: new(privacy.Report)}},
		{Cell: "c04", Label: "late", Status: results.Pending},
	}}}
	side.Spec.Cells = make([]experiment.Cell, 4)
	side.Spec.Cells[0].Experiment.Model.Kind = "gan"
	return side
}

func TestTrainingsListsNoisyTrainingsOfRun(t *testing.T) {
	t.Parallel()
	trainings, without := Trainings(run(t))
	want := Training{Run: "r-1", Cell: "c01", Label: "gan", Generator: true, OfUsers: 297, Recipe: privacy.Recipe{
		Population: 191, Cohort: 10, Rounds: 100, NoiseMultiplier: 0.01, Delta: 0.001, Sampling: privacy.FixedSize, Unit: "user", Randomness: privacy.Seeded,
	}}
	if len(trainings) != 1 || trainings[0] != want {
		t.Errorf("trainings %+v, want %+v", trainings, want)
	}
	var why []string
	for _, l := range without {
		why = append(why, l.Cell+": "+l.Why)
	}
	if got := strings.Join(why, "; "); got != "c02: nothing was clipped, and no noise added; c03: no noise was added; c04: it is pending" {
		t.Errorf("left out %s", got)
	}
}
