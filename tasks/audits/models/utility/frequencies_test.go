package utility

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// wordsOf are the words of a part, with the ends of its examples.
func wordsOf(t *testing.T, g *taskstest.Graph, data *taskstest.Node, of population.Part) (words []int32) {
	t.Helper()
	part := must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", data)), "data", of))(t)
	sentences := must.Get(part.ReadRecords(t.Context(), 0, part.Records()))(t)
	for _, s := range sentences {
		words = append(words, s[1:]...)
	}
	return words
}

func TestFrequenciesMatchPlainLoop(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data := parts(t, g)
	var got Outcome
	node := g.Run(Frequencies, Reading{}, taskstest.In(DataInput, data))
	node.DecodeMetrics(&got)
	taskstest.Golden(t, node)

	known, either := map[int32]float64{}, map[int32]bool{}
	train, test := wordsOf(t, g, data, population.Train), wordsOf(t, g, data, population.Test)
	all := 0.0
	for _, w := range train {
		if w >= text.FirstWord {
			known[w]++
			all++
		}
	}
	for _, w := range append(append([]int32{}, train...), test...) {
		if w >= text.FirstWord {
			either[w] = true
		}
	}
	var best int32
	for w, n := range known {
		if n > known[best] || n == known[best] && w < best {
			best = w
		}
	}
	words, hits, loss := 0.0, 0.0, 0.0
	for _, w := range test {
		if w < text.FirstWord {
			continue
		}
		words++
		loss -= math.Log((known[w] + 1) / (all + float64(len(either))))
		if w == best {
			hits++
		}
	}
	if got.Tokens != int64(words) || got.RecallAt1 != hits/words || hits == 0 || math.Abs(float64(got.Perplexity)/math.Exp(loss/words)-1) > 1e-12 {
		t.Errorf("%+v, want %v words, recall %v and perplexity %v", got, words, hits/words, math.Exp(loss/words))
	}
}

func TestFrequenciesAreOfTheTargetsThatAModelPredicts(t *testing.T) {
	t.Parallel()
	sentence := []int32{text.Begin, text.Unknown, 7, text.Separator, 9, text.End}
	for want, p := range map[string]Reading{
		fmt.Sprint(sentence[1:]): {},
		fmt.Sprint(sentence[4:]): {Pairs: true},
		"[]":                     {Level: text.ImageLevel},
	} {
		if got := fmt.Sprint(p.targets(sentence)); got != want {
			t.Errorf("%+v predicts %s, want %s", p, got, want)
		}
	}
	image := []int32{text.Begin, text.FirstWord + 3, text.FirstWord + 255}
	if got := (Reading{Level: text.ImageLevel}).targets(image); fmt.Sprint(got) != fmt.Sprint(image[1:2]) {
		t.Errorf("a classifier predicts %v, want the label", got)
	}
}

func TestScoresAreHeldAgainstTheMedian(t *testing.T) {
	t.Parallel()
	counts := func(scores ...float64) (c Counts) {
		c = make(Counts, text.FirstWord+9)
		for _, s := range scores {
			c[text.FirstWord+int(2*(s-1))]++
		}
		return c
	}
	v := counts(1, 3, 3.5, 5).scores(counts(1, 4)) // the median is 3.25
	if *v.MeanAbsoluteError != (2.25+0.75)/2 || v.Tokens != 2 {
		t.Errorf("%+v, want a mean absolute error of 1.5", v)
	}
}

func TestUtilityAtTheLevelOfFrequenciesIsNamed(t *testing.T) {
	t.Parallel()
	words := Outcome{RecallAt1: 0.052, Perplexity: 389.1, Tokens: 50000}
	few := Outcome{RecallAt1: 0.1, Perplexity: 10, Tokens: 100}
	often := Outcome{RecallAt1: 0.9, Perplexity: 1.38, Tokens: 10000}
	scores, tags := Outcome{MeanAbsoluteError: new(0.8), Tokens: 50}, Outcome{MeanAveragePrecision: new(0.2), Tokens: 50}
	for _, c := range []struct {
		name       string
		v          Outcome
		atBaseline bool
	}{
		{"uniform", Outcome{RecallAt1: 0, Perplexity: 2004, Tokens: 50000, Baseline: &words}, true},
		{"has learned the frequencies", Outcome{RecallAt1: 0.052, Perplexity: 390, Tokens: 50000, Baseline: &words}, true},
		{"hardly better", Outcome{RecallAt1: 0.055, Perplexity: 370, Tokens: 50000, Baseline: &words}, true},
		{"diverged", Outcome{RecallAt1: 0.01, Perplexity: 1e9, Tokens: 50000, Baseline: &words}, true},
		{"has learned", Outcome{RecallAt1: 0.12, Perplexity: 200, Tokens: 50000, Baseline: &words}, false},
		{"diverged, and is right more often", Outcome{RecallAt1: 0.2, Perplexity: 900, Tokens: 50000, Baseline: &words}, true},
		{"diverged beyond all numbers, and is right more often", Outcome{RecallAt1: 0.2, Perplexity: numbers.Float(math.Inf(1)), Tokens: 50000, Baseline: &words}, true},
		{"always guesses the most frequent word", Outcome{RecallAt1: 0.052, Perplexity: 300, Tokens: 50000, Baseline: &words}, false},
		{"has no known recall", Outcome{RecallUnknown: "by words", Perplexity: 200, Tokens: 50000, Baseline: &words}, false},
		{"has no known recall and diverged", Outcome{RecallUnknown: "by words", Perplexity: 900, Tokens: 50000, Baseline: &words}, true},
		{"classes by luck", Outcome{RecallAt1: 0.15, Perplexity: 11, Tokens: 100, Baseline: &few}, true},
		{"classes", Outcome{RecallAt1: 0.25, Perplexity: 8, Tokens: 100, Baseline: &few}, false},
		{"a class that is nearly all", Outcome{RecallAt1: 0.93, Perplexity: 1.2, Tokens: 10000, Baseline: &often}, false},
		{"scores", Outcome{MeanAbsoluteError: new(0.79), Tokens: 50, Baseline: &scores}, true},
		{"better scores", Outcome{MeanAbsoluteError: new(0.5), Tokens: 50, Baseline: &scores}, false},
		{"tags", Outcome{MeanAveragePrecision: new(0.22), Tokens: 50, Baseline: &tags}, true},
		{"better tags", Outcome{MeanAveragePrecision: new(0.5), Tokens: 50, Baseline: &tags}, false},
		{"of before there were baselines", Outcome{Perplexity: 2004, Tokens: 50000}, false},
	} {
		c.v.AtBaseline = c.v.atBaseline()
		note := c.v.Note(nil)
		if c.v.AtBaseline != c.atBaseline || Audit.Marked(&c.v) != c.atBaseline || strings.Contains(note, "do not show that the training is safe") != c.atBaseline {
			t.Errorf("%s: at the baseline %t, want %t; the note is %q", c.name, c.v.AtBaseline, c.atBaseline, note)
		}
	}
}

func TestNoteNamesMeasuresAtFrequencyBaseline(t *testing.T) {
	t.Parallel()
	words := Outcome{RecallAt1: 0.052, Perplexity: 389.1, Tokens: 50000}
	for want, v := range map[string]Outcome{
		"* perplexity is no better than that of word or class frequencies, 389.1, though accuracy is: the model diverged":                                           {RecallAt1: 0.2, Perplexity: 900},
		"* utility is at the level of word or class frequencies (accuracy 5.2%, perplexity 389.1): the model has learned little, diverged or overfitted, so audits": {RecallAt1: 0.055, Perplexity: 400},
		"* utility is at the level of word or class frequencies (accuracy 5.2%, perplexity 389.1)":                                                                  {RecallUnknown: "by words", Perplexity: 400},
		"* utility is at the level of word or class frequencies (accuracy 5.2%, perplexity 389.1): the model":                                                       {Infinite: true, Perplexity: numbers.Float(math.Inf(1)), MeanLoss: 3068},
	} {
		v.Tokens, v.Baseline = words.Tokens, &words
		v.AtBaseline = v.atBaseline()
		if note := v.Note(nil); !strings.HasPrefix(note, want) {
			t.Errorf("the note of %+v is %q, want it to begin with %q", v, note, want)
		}
	}
}

func TestAnUntrainedModelIsAtTheBaseline(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data, model := parts(t, g), initial(g)
	part := g.Run(Part, PartParams{Data: population.Test, Shares: 1}, taskstest.In(audits.ModelInput, model), taskstest.In(DataInput, data))
	frequencies := g.Run(Frequencies, Reading{}, taskstest.In(DataInput, data))
	var u Outcome
	g.Run(Sum, SumParams{Shares: 1}, taskstest.In("part-0", part), taskstest.In(BaselineInput, frequencies)).DecodeMetrics(&u)
	if !u.AtBaseline || u.Baseline == nil || u.Baseline.Perplexity > u.Perplexity {
		t.Errorf("%+v with the baseline %+v", u, u.Baseline)
	}
	if at, recall := auditstest.Value(&Audit, &u, "at_baseline"), auditstest.Value(&Audit, &u, "baseline_recall_at_1"); at != true || recall != u.Baseline.RecallAt1 {
		t.Errorf("the columns have %v and a recall of %v", at, recall)
	}
}

// A regressor has no perplexity: neither 0 nor anything else.
func TestTheJSONOfLabelsHasNoRecall(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]Outcome{
		`{"tokens":9,"mean_absolute_error":0.5,"baseline":{"tokens":9,"mean_absolute_error":1}}`: {MeanAbsoluteError: new(0.5), Tokens: 9, Baseline: &Outcome{MeanAbsoluteError: new(1.0), Tokens: 9}},
		`{"recall_at_1":0,"perplexity":null,"infinite":true,"tokens":9}`:                         {Perplexity: inf(), Infinite: true, Tokens: 9},
	} {
		got, err := json.Marshal(&v)
		if err != nil || string(got) != want {
			t.Errorf("%s (%v), want %s", got, err, want)
		}
		var back Outcome
		if err := json.Unmarshal(got, &back); err != nil || back.Perplexity != v.Perplexity {
			t.Errorf("%s reads as %+v (%v)", got, back, err)
		}
	}
}

func TestLimitsOfUtilityFailBelowAndAbove(t *testing.T) {
	t.Parallel()
	tenth := must.Get(numbers.ParseProbability("10%"))(t)
	for want, v := range map[string]*Outcome{
		"": {Tokens: 9, RecallAt1: 0.1, Perplexity: 300},
		"accuracy is 9.9%, below the limit of 10%":       {Tokens: 9, RecallAt1: 0.099, Perplexity: 300},
		"perplexity is 301.00, above the limit of 300":   {Tokens: 9, RecallAt1: 0.2, Perplexity: 301},
		"perplexity is infinite, above the limit of 300": {Tokens: 9, RecallAt1: 0.2, Perplexity: inf()},
	} {
		cell := &audits.Cell{Outcomes: []audits.Outcome{v}}
		if got := strings.Join(append(limits[0].Breaches(cell, &tenth), limits[1].Breaches(cell, new(300.0))...), "; "); got != want {
			t.Errorf("%+v: %q, want %q", v, got, want)
		}
	}
	mistakes := 0
	s, fail := &audits.Setting{Reading: source.Reading{Label: source.ScoreLabel}}, func([]string, string, ...any) { mistakes++ }
	limits[0].Check(s, &tenth, fail)
	limits[1].Check(s, new(300.0), fail)
	if mistakes != 2 {
		t.Errorf("%d mistakes for a regressor, want 2", mistakes)
	}
}

func inf() numbers.Float { return numbers.Float(math.Inf(1)) }
