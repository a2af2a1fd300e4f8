package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
	"coalmine/workflows/results"
)

// The rules of a verdict. A claim of "less" or "more" is reproduced if the 95% interval of the difference
// excludes zero in the claimed direction, and contradicted if it does in the other. A claim of "no" effect is
// reproduced if the interval lies within the margin on both sides, and contradicted if it lies beyond the margin.
// Otherwise it is undecided, and so is a claim
//
//   - from fewer than minSeeds trainings, not counting trainings with a perplexity above diverged;
//   - about two models of different utility, by the rule that matches utility in results;
//   - of no effect, if so little is memorized that the measure could not have fallen by the margin.
//
// Margins of "no" effect are chosen before the runs are evaluated. The margins in claims.csv are a fifth of an
// attack's factor over chance (2 if it is about 10 without a defence, 0.2 if it is a ratio), half of chance for a
// factor that should be 1, and a share of one in ten. A canary is exposed little if its exposure is within 1 bit of
// chance.
//
// A claim with several measures is reproduced if one measure reproduces it and none contradicts it; a claim of no
// effect if all measures reproduce it.
const (
	minSeeds       = 3
	minMemorized   = 0.1 // of the canaries of one of the rows
	chanceExposure = 1 / math.Ln2
	diverged       = 1e5 // worse than a random guess among the words of any of these vocabularies
)

const (
	reproduced   = "reproduced"
	contradicted = "contradicted"
	cannotTell   = "cannot tell"
	notMeasured  = "not measured"
)

// claim is a line of claims.csv.
type claim struct {
	// Text of the claim, and the Section of the paper that makes it.
	Text, Section string
	// Results is the experiment that measures the claim; empty if none was run. Experiment is then the file of an
	// experiment that would measure it.
	Results, Experiment string
	// Row and To are compared: rows of replicates with conditions on their canaries, such as
	// "r01 insertions=4". To may be a number.
	Row, To string
	// Measures are columns of the results, "a:b" if the columns of the two rows differ.
	Measures []string
	// Expected is "less", "more" or "no"; Margin is the margin of a "no", 0 for the default of the measure.
	Expected string
	Margin   float64
	// Unmatched reports that the claim holds at any utility, or is about the utility.
	Unmatched bool
	// Seeds is the number of trainings of Experiment that were run, if they are too few for a verdict and their
	// rows are not kept. Another training takes Minutes of a processor, by coalmine plan.
	Seeds, Minutes int
	// Level is the coverage of the intervals, 0 for audits.Confidence. It is higher if seeds were added after a
	// first evaluation.
	Level float64
}

// measures are the measures of claims: means of columns, unless a measure has a function.
var measures = map[string]struct {
	name   string
	unit   float64 // that results are printed in
	digits int
	suffix string
	margin float64 // of "no effect"
	memory bool    // falls to a known value if nothing is memorized
	of     func(rows table) (x float64, ok bool)
}{
	"memorized":                          {name: "memorized", unit: 100, digits: 1, suffix: "%", margin: 0.1, memory: true},
	"beam_found":                         {name: "beam search", unit: 100, digits: 1, suffix: "%", margin: 0.1, memory: true},
	"random_sampling_memorized":          {name: "by random sampling", unit: 1, digits: 1, suffix: " a model", margin: 1, memory: true},
	"beam_search_memorized":              {name: "by beam search", unit: 1, digits: 1, suffix: " a model", margin: 1, memory: true},
	"exposure":                           {name: "exposure", unit: 1, digits: 2, margin: 1, memory: true},
	"fitted_exposure":                    {name: "fitted exposure", unit: 1, digits: 2, margin: 1, memory: true},
	"enumerated_exposure":                {name: "exact exposure", unit: 1, digits: 2, margin: 1, memory: true},
	"perplexity":                         {name: "perplexity", unit: 1, digits: 2},
	"recall_at_1":                        {name: "recall@1", unit: 100, digits: 1},
	"samples_first_unknown":              {name: "first words unknown", unit: 100, digits: 1},
	"samples_top_with_space":             {name: "words with a space of the 20 most probable", unit: 1, digits: 1},
	"samples_unknown":                    {name: "all words unknown", unit: 100, digits: 1},
	"fitted_ks_p":                        {name: "p of the fit", unit: 1, digits: 3},
	"search_extracted":                   {name: "extracted", unit: 100, digits: 1, suffix: "%"},
	"search_expanded":                    {name: "nodes expanded", unit: 1, digits: 0},
	"speedup":                            {name: "nodes a second, times", unit: 1, digits: 2},
	"deanonymization_mlp_ap":             {name: "AP of the MLP", unit: 100, digits: 1},
	"deanonymization_knn_ap":             {name: "that of kNN", unit: 100, digits: 1},
	"deanonymization_mlp_factor":         {name: "MLP", unit: 1, digits: 1, suffix: "x"},
	"deanonymization_knn_factor":         {name: "kNN", unit: 1, digits: 1, suffix: "x"},
	"deanonymization_cosine_factor":      {name: "cosine", unit: 1, digits: 1, suffix: "x"},
	"profiles_ap":                        {name: "AP of the best attack", unit: 100, digits: 1},
	"profiles_chance":                    {name: "chance"},
	"kept_at_other_stages":               {name: "factor at another stage, of that at the same", unit: 1, digits: 2, of: keptAtOtherStages},
	"federated_recall_at_1":              {name: "accuracy, of that of SGD", unit: 100, digits: 1, suffix: "%", of: federatedShare("recall_at_1")},
	"federated_recall_at_5":              {name: "top-5 accuracy, of that of SGD", unit: 100, digits: 1, suffix: "%", of: federatedShare("recall_at_5")},
	"attributes_accuracy":                {name: "attribute alone", unit: 100, digits: 1},
	"attributes_joint_accuracy":          {name: "attribute, joint network", unit: 100, digits: 1},
	"attributes_identity_accuracy":       {name: "identity alone", unit: 100, digits: 1},
	"attributes_joint_identity_accuracy": {name: "identity, joint network", unit: 100, digits: 1},
	"later_share":                        {name: "after 1920", unit: 100, digits: 1, suffix: "%"},
	"later_words":                        {name: "words of after 1920", unit: 100, digits: 1, suffix: "%"},
	"real_images_right":                  {name: "real images right", unit: 100, digits: 1, suffix: "%"},
	"prepared_users_below_half":          {name: "users", unit: 1, digits: 0, of: usersBelowHalf},
	"rarest_memorized":                   {name: "place of the rarest configuration memorized, by random sampling", unit: 1, digits: 1, of: rarest("memorized")},
	"rarest_beam_found":                  {name: "by beam search", unit: 1, digits: 1, of: rarest("beam_found")},
	"perplexity_against_exposure":        {name: "correlation", unit: 1, digits: 2, of: perplexityAgainstExposure},
}

// estimate is a number over seeds. Without a spread it has no interval.
type estimate struct {
	N         int
	Mean      float64
	Low, High *float64
}

// newEstimate returns the estimate of values, at least one, from low to high. Its interval has the coverage
// level; 0 is audits.Confidence.
func newEstimate(values []float64, level, low, high float64) estimate {
	e := audits.NewEstimate(values)
	if e.Low != nil && level > 0 {
		wider := distuv.StudentsT{Sigma: 1, Nu: float64(e.N - 1)}.Quantile((1+level)/2) / audits.StudentT(e.N-1)
		mean, half := float64(e.Mean), (*e.High-*e.Low)/2
		*e.Low, *e.High = mean-float64(wider*half), mean+float64(wider*half)
	}
	e.Clip(low, high)
	return estimate{e.N, float64(e.Mean), e.Low, e.High}
}

// comparison is the difference of two rows.
type comparison struct {
	label, toLabel string
	measures       map[string]estimate
}

// outcome is the result of a claim: the compared rows, the number of seeds, the differences, and the verdict.
type outcome struct {
	rows, text, verdict string
	seeds               int
}

// claims returns the table of the claims, with a column for the results on each of these other texts.
func (s *study) claims(others []string) (string, error) {
	rows, err := s.table("claims")
	if err != nil {
		return "", err
	}
	head := "|claim of the paper (section)|seeds|our result|verdict|"
	for _, text := range others {
		head += texts[text] + "result|verdict|"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n|%s\n", head, strings.Repeat("---|", strings.Count(head, "|")-1))
	for _, row := range rows {
		own, err := s.resultOn("", row)
		if err != nil {
			return "", fmt.Errorf("claim %q: %w", row["claim"], err)
		}
		seeds := ""
		if own.seeds > 0 {
			seeds = fmt.Sprint(own.seeds)
		}
		fmt.Fprintf(&b, "|%s (%s)|%s|%s%s|%s|", row["claim"], row["section"], seeds, own.rows, own.text, own.verdict)
		for _, text := range others {
			there, err := s.resultOn(text, row)
			if err == nil && there.seeds > 0 && there.seeds != own.seeds {
				err = fmt.Errorf("%d seeds on %q, and %d on the first text", there.seeds, text, own.seeds)
			}
			if err != nil {
				return "", fmt.Errorf("claim %q: %w", row["claim"], err)
			}
			fmt.Fprintf(&b, "%s|%s|", there.text, there.verdict)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// resultOn is the result of a line of claims.csv on another text; empty if not measured.
func (s *study) resultOn(text string, row map[string]string) (outcome, error) {
	margin, _ := number(row["margin"])
	seeds, _ := number(row["seeds"])
	minutes, _ := number(row["minutes"])
	level, _ := number(row["level"])
	c := claim{row["claim"], row["section"], row["results"], row["experiment"], row["row"], row["to"], strings.Fields(row["measures"]), row["expected"], margin, row["utility"] == "any", int(seeds), int(minutes), level}
	if text == "" {
		return s.result(&c)
	}
	c.Results += "-" + text
	measured, err := s.measured(c.Results)
	if err != nil || !measured {
		return outcome{}, err
	}
	return s.result(&c)
}

// result is the runs' result for a claim.
func (s *study) result(c *claim) (outcome, error) {
	switch {
	case c.Results != "":
	case c.Seeds > 0:
		return outcome{text: fmt.Sprintf("%s, %s of processor time a seed", c.Experiment, readable.Count(c.Minutes, "minute")), verdict: combined(nil, c.Seeds, true), seeds: c.Seeds}, nil
	default:
		return outcome{text: c.Experiment + " would measure it", verdict: notMeasured}, nil
	}
	compared, err := s.compare(c)
	if err != nil {
		return outcome{}, err
	}
	least := math.MaxInt
	var texts, found []string
	for _, name := range c.Measures {
		e := compared.measures[name]
		own, _ := pair(name)
		texts = append(texts, e.text(name))
		found = append(found, s.finding(c, own, e))
		least = min(least, e.N)
	}
	utility, matched := s.utility(c)
	rows := compared.label
	if c.Row != c.To {
		rows = minus(compared.label, compared.toLabel)
	}
	if c.Expected == "no" && slices.ContainsFunc(found, undecided) {
		found = slices.DeleteFunc(found, func(f string) bool { return f == reproduced })
	}
	return outcome{rows + ": ", strings.Join(texts, "; ") + utility, combined(found, least, matched), least}, nil
}

// minus returns "SGD, b=32: by-user minus iid": the common parts of two labels with equally many parts, then the
// differing parts.
func minus(label, other string) string {
	own, others := strings.Split(label, ", "), strings.Split(other, ", ")
	var shared, left, right []string
	for i := range min(len(own), len(others)) {
		if own[i] == others[i] {
			shared = append(shared, own[i])
		} else {
			left, right = append(left, own[i]), append(right, others[i])
		}
	}
	if len(own) != len(others) || len(shared) == 0 || len(left) == 0 {
		return label + " minus " + other
	}
	return strings.Join(shared, ", ") + ": " + strings.Join(left, ", ") + " minus " + strings.Join(right, ", ")
}

// text is "exposure -2.76 (-3.78, -1.73)".
func (e estimate) text(measure string) string {
	own, other := pair(measure)
	m := measures[own]
	name := m.name
	if own != other {
		name += " minus " + measures[other].name
	}
	text := fmt.Sprintf("%s %+.*f%s", name, m.digits, m.unit*e.Mean, m.suffix)
	if e.Low != nil {
		text += fmt.Sprintf(" (%+.*f, %+.*f)", m.digits, m.unit**e.Low, m.digits, m.unit**e.High)
	}
	return text
}

// finding is the result of one measure, regardless of the utility.
func (s *study) finding(c *claim, measure string, e estimate) string {
	margin := measures[measure].margin
	if c.Margin != 0 {
		margin = c.Margin
	}
	found := verdict(c.Expected, e, margin)
	if found == reproduced && c.Expected == "no" && measures[measure].memory && !s.canFall(c, measure, margin) {
		return cannotTell + ": too little is memorized"
	}
	return found
}

// verdict of an interval: see the rules above.
func verdict(expected string, e estimate, margin float64) string {
	if e.Low == nil {
		return cannotTell
	}
	low, high := *e.Low, *e.High
	switch expected {
	case "more":
		low, high = -high, -low
	case "no":
		low, high = max(low, -high)-margin, max(high, -low)-margin // how far beyond
	}
	switch {
	case high < 0:
		return reproduced
	case low > 0:
		return contradicted
	}
	return cannotTell
}

// combined is the verdict of several measures, each over its seeds.
func combined(found []string, seeds int, matched bool) string {
	yes, no := slices.Contains(found, reproduced), slices.Contains(found, contradicted)
	switch {
	case seeds < minSeeds:
		return cannotTell + ": too few seeds"
	case yes && no:
		return cannotTell + ": measures disagree"
	case !yes && !no:
		return slices.MinFunc(found, func(a, b string) int { return len(a) - len(b) }) // a reason only if all have one
	case !matched:
		return cannotTell + ": unequal utility"
	case yes:
		return reproduced
	}
	return contradicted
}

func undecided(found string) bool { return strings.HasPrefix(found, cannotTell) }

// utility describes the utility of the two rows, and whether it is equal. It is empty for a claim that does not
// compare two models, or holds at any utility.
func (s *study) utility(c *claim) (text string, matched bool) {
	row, to := firstWord(c.Row), firstWord(c.To)
	if _, constant := number(c.To); constant || row == to || c.Unmatched {
		return "", true
	}
	recall, perplexities := s.levels(c, "recall_at_1"), s.levels(c, "perplexity")
	points, more := recall[0]-recall[1], perplexities[0]-perplexities[1]
	matched = min(recall[0], recall[1]) > 0 && math.Abs(points) <= results.RecallWithin && math.Abs(more) <= results.PerplexityWithin*perplexities[1]
	sign := "+"
	if more < 0 {
		sign = ""
	}
	return fmt.Sprintf("; recall@1 %+.2f, perplexity %s", 100*points, sign+decimal(more)), matched
}

func firstWord(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// canFall reports whether so much is memorized that a measure can fall by the margin.
func (s *study) canFall(c *claim, measure string, margin float64) bool {
	if to := s.bySeed(c.Results, c.To, measure); len(to) > 0 {
		return mean(to)-chanceExposure >= margin
	}
	counted := "random_sampling_memorized"
	if measure == "beam_found" {
		counted = "beam_search_memorized"
	}
	for _, row := range []string{c.Row, c.To} {
		means := s.tables[c.Results+"-means"].where("measure=" + counted + " row=" + row)
		if share, _ := number(means[0]["pooled_share"]); share >= minMemorized {
			return true
		}
	}
	return false
}

// welch is the difference of two means with Welch's interval, for rows that were not compared seed by seed.
func welch(a, b map[string]string) estimate {
	number := func(row map[string]string, column string) float64 { x, _ := number(row[column]); return x }
	n, m := number(a, "n"), number(b, "n")
	va, vb := math.Pow(number(a, "sd"), 2)/n, math.Pow(number(b, "sd"), 2)/m
	e := estimate{N: int(min(n, m)), Mean: number(a, "mean") - number(b, "mean")}
	if va+vb == 0 {
		return e
	}
	degrees := (va + vb) * (va + vb) / (va*va/(n-1) + vb*vb/(m-1))
	half := distuv.StudentsT{Sigma: 1, Nu: degrees}.Quantile(0.975) * math.Sqrt(va+vb)
	e.Low, e.High = new(e.Mean-half), new(e.Mean+half)
	return e
}
