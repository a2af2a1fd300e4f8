package canaryfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/internal/score"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/membership/onerun"
)

// Options are the options of an audit by scores.
type Options struct {
	// Initial holds the untrained model's scores of the same lines, or is nil.
	Initial Scores
	// PlainLoss makes the audit guess coins from the trained model's scores alone. It must be decided
	// before the training.
	PlainLoss bool
}

// Basis is the kind of references among which canaries are ranked.
type Basis string

// The kinds of references.
const (
	References Basis = "references"
	Controls   Basis = "held_back"
	Nothing    Basis = "nothing"
)

// Report is the result of an audit from scores.
type Report struct {
	Experiment string `json:"experiment"`
	Cell       string `json:"cell"`
	// Basis names the kind of references among which canaries are ranked; Why is the reason for it.
	Basis Basis  `json:"basis"`
	Why   string `json:"why"`
	// Memorized is the number of inserted canaries of rank 1.
	Memorized int `json:"memorized"`
	Of        int `json:"of"`
	// MannWhitneyP is the two-sided p-value of the test of Mann and Whitney that the log-probabilities of
	// inserted and held-back canaries have one distribution. It is null if either kind is missing.
	MannWhitneyP *float64   `json:"mann_whitney_p"`
	Canaries     []Measured `json:"canaries"`
	Controls     []Measured `json:"controls"`
	// OneRun is null if there are no coins or they cannot be used. NoOneRun is then the reason.
	OneRun   *onerun.Outcome `json:"one_run"`
	NoOneRun string          `json:"no_one_run,omitempty"`
}

// Measured is the outcome of a canary from its scores.
type Measured struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	randomsampling.CanaryOutcome
	// Among is the number of references among which the canary is ranked.
	Among int `json:"among"`
	// LogProbability is the natural logarithm of the probability of the continuation. Queries is the number
	// of samples at temperature 1 that contain it with probability 1/2; it is absent above 1.8e308.
	LogProbability float64  `json:"probabilistic_log_probability"`
	Queries        *float64 `json:"probabilistic_queries,omitempty"`
	// Greedy reports whether greedy decoding gives the continuation. It is absent if unknown.
	Greedy *bool `json:"greedy_extractable,omitempty"`
}

// Audit computes a report from scores. Every line must have a score, except that all references may be unscored.
func Audit(f *File, scores Scores, o Options) (*Report, error) {
	r := &Report{Experiment: f.Header.Experiment, Cell: f.Header.Cell}
	a := auditor{file: f, scores: scores, options: o, report: r}
	if err := a.complete(); err != nil {
		return nil, err
	}
	a.choose()
	for _, l := range f.linesOf(Canary) {
		m := a.measure(l)
		r.Of++
		if m.Memorized != nil && *m.Memorized {
			r.Memorized++
		}
		r.Canaries = append(r.Canaries, m)
	}
	for _, l := range f.linesOf(HeldBack) {
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
	// costs holds the log-perplexities of references, by group, ascending.
	costs map[string][]float64
}

// maxMissing is the maximum number of named missing scores.
const maxMissing = 3

// complete returns an error for lines without a score, and for scores without a line.
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
		return fmt.Errorf("%d lines have no score: %s; expected a score for each line (all references may be unscored)", n, strings.Join(missing[:min(n, maxMissing)], ", "))
	}
	for id := range a.scores {
		if !known[id] {
			return fmt.Errorf("the score of %q belongs to no line of the canaries; are both files of the same export?", id)
		}
	}
	return nil
}

func (a *auditor) scoredReferences() bool {
	return slices.ContainsFunc(a.file.linesOf(Reference), func(l *Line) bool { _, ok := a.scores[l.ID]; return ok })
}

// choose chooses the references among which canaries are ranked.
func (a *auditor) choose() {
	r, kind := a.report, Reference
	held := len(a.file.linesOf(HeldBack))
	switch {
	case a.scoredReferences():
		r.Basis, r.Why = References, "the references were scored"
	case held > 0:
		kind, r.Basis, r.Why = HeldBack, Controls, fmt.Sprintf("no reference was scored; exposures above log2 of %d cannot be measured", held)
	default:
		r.Basis, r.Why = Nothing, "no reference was scored and no canary held back, so there are no ranks"
		return
	}
	a.costs = map[string][]float64{}
	for _, l := range a.file.linesOf(kind) {
		group := a.group(l)
		a.costs[group] = append(a.costs[group], -a.scores[l.ID].LogProbability)
	}
	for _, costs := range a.costs {
		slices.Sort(costs)
	}
}

// group returns the group in which a canary is ranked: the references with its prefix, or all held-back
// canaries of its format.
func (a *auditor) group(l *Line) string {
	if a.report.Basis == Controls {
		format, _, _ := strings.Cut(l.Group, ".")
		return format
	}
	return l.Group
}

// measure ranks a line. If controls are the references, a control gets no rank.
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

// compare tests whether inserted canaries differ from held-back ones.
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

// guess computes a lower bound on epsilon from guesses of the coins.
func (a *auditor) guess() error {
	coins := a.file.linesOf(Coin)
	switch o := a.options; {
	case len(coins) == 0:
		return nil
	case a.file.Header.OneRun == nil:
		return errors.New("there are coins, but the first line has no one_run with the number of guesses")
	case o.Initial == nil && !o.PlainLoss:
		a.report.NoOneRun = "guesses of the coins also need the scores of the untrained model, or a plain loss declared before the training"
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
			return fmt.Errorf("%s has no score of the untrained model; expected one for each coin", l.ID)
		}
		scores[i] -= before.LogProbability
	}
	return a.bound(coins, units, scores)
}

// PlainLoss is the name of the score from the trained model alone.
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

// Score is a model's score of a line.
type Score struct {
	// LogProbability is the natural logarithm of the probability of the continuation after the context, at most 0.
	LogProbability float64
	// Greedy reports whether greedy decoding gives the continuation. It is nil if unknown.
	Greedy *bool
}

// Scores maps the ids of lines to their scores.
type Scores map[string]Score

// scoredLine is a line of scores, or a sample in a log of lm-evaluation-harness.
type scoredLine struct {
	ID             string          `json:"id"`
	LogProbability json.RawMessage `json:"log_probability"`
	Greedy         *bool           `json:"greedy"`

	Doc struct {
		ID string `json:"id"`
	} `json:"doc"`
	Responses [][]json.RawMessage `json:"filtered_resps"`
}

// ReadScores reads scores: a JSON object per line with id, log_probability and, if known, greedy; or the
// samples of the task of Harness, logged by lm_eval --log_samples. Errors name the file by name.
func ReadScores(name string, r io.Reader) (Scores, error) {
	scores := Scores{}
	err := eachLine(name, r, func(_ int, line []byte) error {
		var l scoredLine
		if err := encoding.UnmarshalJSON(quoteNumbers(line), &l); err != nil {
			return fmt.Errorf("%w; expected a line such as {\"id\": \"canary-0\", \"log_probability\": -12.5}", err)
		}
		id, score, err := l.score()
		if err != nil {
			return err
		}
		if _, twice := scores[id]; twice {
			return fmt.Errorf("%q has a second score; expected one score for each id", id)
		}
		scores[id] = score
		return nil
	})
	if err == nil && len(scores) == 0 {
		err = fmt.Errorf("%s: the file has no scores", name)
	}
	return scores, err
}

func (l *scoredLine) score() (string, Score, error) {
	if l.ID == "" && l.Doc.ID != "" {
		if err := l.takeResponse(); err != nil {
			return "", Score{}, err
		}
	}
	switch {
	case l.ID == "":
		return "", Score{}, errors.New("id is missing; expected the id of a line of the canaries")
	case l.LogProbability == nil:
		return "", Score{}, fmt.Errorf("%q has no log_probability; expected a finite number", l.ID)
	}
	var p score.LogProbability
	if err := unquoted(l.LogProbability, &p); err != nil {
		return "", Score{}, fmt.Errorf("the log-probability of %q: %w", l.ID, err)
	}
	return l.ID, Score{float64(p), l.Greedy}, nil
}

// quoteNumbers quotes Python's numbers that JSON lacks, in a line that is not JSON. -Infinity is the
// logarithm of 0; NaN and Infinity then appear in messages.
func quoteNumbers(line []byte) []byte {
	for _, name := range []string{"-Infinity", "NaN", "Infinity"} {
		if json.Valid(line) {
			break
		}
		line = bytes.ReplaceAll(line, []byte(name), []byte(strconv.Quote(name)))
	}
	return line
}

// takeResponse reads the answer of a sample, a list of two. Some versions of the harness log its members as texts.
func (l *scoredLine) takeResponse() error {
	l.ID = l.Doc.ID
	if len(l.Responses) != 1 || len(l.Responses[0]) != 2 {
		return fmt.Errorf("the sample of %q has %d responses; expected one response to loglikelihood, [log-probability, is-greedy]", l.ID, len(l.Responses))
	}
	l.LogProbability = l.Responses[0][0]
	if err := unquoted(l.Responses[0][1], &l.Greedy); err != nil {
		return fmt.Errorf("is-greedy of %q: %w", l.ID, err)
	}
	return nil
}

// unquoted decodes a value, or the value in a text as Python prints it.
func unquoted(value json.RawMessage, into any) error {
	var text string
	if json.Unmarshal(value, &text) != nil || text == "-inf" || text == "-Infinity" {
		return json.Unmarshal(value, into)
	}
	switch text {
	case "nan", "inf", "NaN", "Infinity":
		return fmt.Errorf("%q is not a log-probability; expected a finite number, or \"-inf\" for the logarithm of 0", text)
	case "True":
		text = "true"
	case "False":
		text = "false"
	}
	return json.Unmarshal([]byte(text), into)
}
