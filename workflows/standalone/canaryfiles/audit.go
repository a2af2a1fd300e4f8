package canaryfiles

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/onerun"
)

// Options of an audit by scores.
type Options struct {
	// Initial are the scores of the same lines by the untrained model, or nil.
	Initial Scores
	// PlainLoss has the coins guessed from the trained model's scores alone. It must have been
	// decided before the training.
	PlainLoss bool
}

// Basis names the references that canaries are ranked among.
type Basis string

// References that canaries are ranked among.
const (
	References Basis = "references"
	Controls   Basis = "held_back"
	Nothing    Basis = "nothing"
)

// Report is the result of an audit by scores alone.
type Report struct {
	Experiment string `json:"experiment"`
	Cell       string `json:"cell"`
	// Basis names the references that canaries are ranked among, and Why gives the
	// reason.
	Basis Basis  `json:"basis"`
	Why   string `json:"why"`
	// Memorized counts the canaries of rank 1, of those to be inserted.
	Memorized int `json:"memorized"`
	Of        int `json:"of"`
	// MannWhitneyP is the two-sided p-value of the test of Mann and Whitney, whether canaries
	// and those held back have log-probabilities of one distribution; null where there are none
	// of either.
	MannWhitneyP *float64   `json:"mann_whitney_p"`
	Canaries     []Measured `json:"canaries"`
	Controls     []Measured `json:"controls"`
	// OneRun is null where there are no coins; NoOneRun then says why if there are.
	OneRun   *onerun.Outcome `json:"one_run"`
	NoOneRun string          `json:"no_one_run,omitempty"`
}

// Measured is a canary's outcome by its scores.
type Measured struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	randomsampling.CanaryOutcome
	// Among is how many the rank is among.
	Among int `json:"among"`
	// LogProbability is that of the continuation; Queries is how many samples at temperature 1
	// have it with probability 1/2, absent above 1.8e308.
	LogProbability float64  `json:"probabilistic_log_probability"`
	Queries        *float64 `json:"probabilistic_queries,omitempty"`
	// Greedy says that greedy decoding gives the continuation; absent where it is not known.
	Greedy *bool `json:"greedy_extractable,omitempty"`
}

// Audit measures by scores alone. Every line but references that were not scored at all must
// have a score.
func Audit(f *File, scores Scores, o Options) (*Report, error) {
	r := &Report{Experiment: f.Header.Experiment, Cell: f.Header.Cell}
	a := auditor{file: f, scores: scores, options: o, report: r}
	if err := a.complete(); err != nil {
		return nil, err
	}
	a.choose()
	for _, l := range f.of(Canary) {
		m := a.measure(l)
		r.Of++
		if m.Memorized != nil && *m.Memorized {
			r.Memorized++
		}
		r.Canaries = append(r.Canaries, m)
	}
	for _, l := range f.of(HeldBack) {
		r.Controls = append(r.Controls, a.measure(l))
	}
	if err := a.compare(); err != nil {
		return nil, err
	}
	return r, a.guess()
}

type auditor struct {
	file    *File
	scores  Scores
	options Options
	report  *Report
	// costs are the log-perplexities of references, by group, ascending.
	costs map[string][]float64
}

// maxMissing is how many missing scores are named.
const maxMissing = 3

// complete finds lines without a score, and scores without a line.
func (a *auditor) complete() error {
	known, missing := map[string]bool{}, []string{}
	scored := a.scoredReferences()
	for i := range a.file.Lines {
		l := &a.file.Lines[i]
		known[l.ID] = true
		if l.Kind == Reference && !scored {
			continue
		}
		if _, ok := a.scores[l.ID]; !ok {
			missing = append(missing, l.ID)
		}
	}
	if n := len(missing); n > 0 {
		return fmt.Errorf("%d lines have no score: %s; expected one for each, or none at all of the references", n, strings.Join(missing[:min(n, maxMissing)], ", "))
	}
	for id := range a.scores {
		if !known[id] {
			return fmt.Errorf("a score is of %q, which is no line of the canaries; are both of one export?", id)
		}
	}
	return nil
}

func (a *auditor) scoredReferences() bool {
	return slices.ContainsFunc(a.file.of(Reference), func(l *Line) bool { _, ok := a.scores[l.ID]; return ok })
}

// choose chooses the references that canaries are ranked among.
func (a *auditor) choose() {
	r, kind := a.report, Reference
	held := len(a.file.of(HeldBack))
	switch {
	case a.scoredReferences():
		r.Basis, r.Why = References, "the references were scored"
	case held > 0:
		kind, r.Basis, r.Why = HeldBack, Controls, fmt.Sprintf("no reference was scored; exposures above log2 of %d are not seen", held)
	default:
		r.Basis, r.Why = Nothing, "no reference was scored, and no canary held back: there are no ranks"
		return
	}
	a.costs = map[string][]float64{}
	for _, l := range a.file.of(kind) {
		group := a.group(l)
		a.costs[group] = append(a.costs[group], -a.scores[l.ID].LogProbability)
	}
	for _, costs := range a.costs {
		slices.Sort(costs)
	}
}

// group is the group within which a canary is ranked: the references of its own beginning, or
// all canaries of its format that were held back.
func (a *auditor) group(l *Line) string {
	if a.report.Basis == Controls {
		format, _, _ := strings.Cut(l.Group, ".")
		return format
	}
	return l.Group
}

// measure ranks a line, itself left out where it is a control.
func (a *auditor) measure(l *Line) Measured {
	s := a.scores[l.ID]
	m := Measured{ID: l.ID, Text: l.Text(), LogProbability: s.LogProbability, Greedy: s.Greedy}
	if n := probabilisticextraction.Queries(s.LogProbability, probabilisticextraction.EvenChance); !math.IsInf(n, 1) {
		m.Queries = &n
	}
	costs := a.costs[a.group(l)]
	if len(costs) == 0 || l.Kind == HeldBack && a.report.Basis == Controls {
		return m
	}
	cost := -s.LogProbability
	below, equal := slices.BinarySearch(costs, cost)
	for equal && below < len(costs) && costs[below] == cost {
		below++
	}
	rank := randomsampling.Rank{LogPerplexity: cost, Rank: int64(1 + below), Exact: true}
	m.CanaryOutcome, m.Among = rank.CanaryOutcome(len(costs)), len(costs)
	return m
}

// compare tests whether canaries can be told from those held back.
func (a *auditor) compare() error {
	costs := func(list []Measured) (all []float64) {
		for _, m := range list {
			all = append(all, m.LogProbability)
		}
		return all
	}
	r := a.report
	if len(r.Canaries) == 0 || len(r.Controls) == 0 {
		return nil
	}
	p, err := audits.MannWhitney(costs(r.Canaries), costs(r.Controls))
	r.MannWhitneyP = &p
	return err
}

// guess bounds epsilon by the coins.
func (a *auditor) guess() error {
	coins := a.file.of(Coin)
	switch o := a.options; {
	case len(coins) == 0:
		return nil
	case a.file.Header.OneRun == nil:
		return errors.New("there are coins, and the first line has no one_run, which says how many guesses are made")
	case o.Initial == nil && !o.PlainLoss:
		a.report.NoOneRun = "the coins need the scores of the untrained model as well, or a plain loss that was declared before the training"
		return nil
	}
	units, scores := make([]audits.Unit, len(coins)), make([]float64, len(coins))
	for i, l := range coins {
		units[i].Included, scores[i] = *l.Included, a.scores[l.ID].LogProbability
		if a.options.PlainLoss {
			continue
		}
		before, ok := a.options.Initial[l.ID]
		if !ok {
			return fmt.Errorf("the untrained model has no score of %s; expected one for each coin", l.ID)
		}
		scores[i] -= before.LogProbability
	}
	return a.bound(coins, units, scores)
}

// PlainLoss names the score of a coin by the trained model alone.
const PlainLoss = "plain-loss"

func (a *auditor) bound(coins []*Line, units []audits.Unit, scores []float64) error {
	h := a.file.Header.OneRun
	p := onerun.BoundParams{KPlus: h.KPlus, KMinus: h.KMinus, Halvings: h.Halvings, Delta: h.Delta, Confidence: h.Confidence, Neighbouring: h.Neighbouring, Unit: h.Unit}
	v, err := p.Judge(units, scores)
	if err != nil {
		return fmt.Errorf("coins: %w", err)
	}
	if a.options.PlainLoss {
		v.Score = PlainLoss
	}
	for i, l := range coins {
		v.Units[i].Words = strings.Fields(l.Text())
	}
	a.report.OneRun = &v
	return nil
}
