package utility

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/models/ranking"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

func parts(t *testing.T, g *taskstest.Graph) *taskstest.Node {
	t.Helper()
	var text strings.Builder
	for i := range 400 {
		words := make([]string, 2+i%7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7)%37)
		}
		fmt.Fprintf(&text, `{"user":"u%d","text":%q}`+"\n", i%9, strings.Join(words, " "))
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}})
	return g.Run(datasets.Encode, datasets.EncodeParams{Seed: 1, VocabularySize: 20, TestFraction: 0.4}, taskstest.In(datasets.CorpusInput, corpus))
}

func initial(g *taskstest.Graph) *taskstest.Node {
	return g.Run(training.Initial, training.InitialParams{Seed: 1, Model: models.Config{
		Kind: models.CIFGLSTM, Vocabulary: 20 + text.FirstWord, Embedding: 5, Units: 7,
	}})
}

// measure splits the test part into shares and sums them.
func measure(g *taskstest.Graph, model, data *taskstest.Node, shares int) Outcome {
	return measureTop(g, model, data, shares, false)
}

func measureTop(g *taskstest.Graph, model, data *taskstest.Node, shares int, top bool) Outcome {
	var inputs []taskstest.Edge
	for share := range shares {
		n := g.Run(Part, PartParams{Data: population.Test, Share: share, Shares: shares, Top: top},
			taskstest.In(audits.ModelInput, model), taskstest.In(DataInput, data))
		inputs = append(inputs, taskstest.In(tasks.PartInput(share), n))
	}
	var u Outcome
	g.Run(Sum, SumParams{Shares: shares, Top: top}, inputs...).DecodeMetrics(&u)
	return u
}

func TestUtilityIsThatOfAPlainLoop(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data, model := parts(t, g), initial(g)
	got := measureTop(g, model, data, 3, true)

	m := must.Get(checkpoints.Decode(model.Blob(tasks.ModelBlob)))(t)
	scorer := must.Get(m.NewScorer())(t)
	part := must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", data)), "data", population.Test))(t)
	sentences := must.Get(part.ReadRecords(t.Context(), 0, part.Records()))(t)
	row := make([]float32, m.Network.Config().Vocabulary)
	var words, hits, tops, all, loss float64
	for _, s := range sentences {
		state := scorer.Start(1)
		for i, target := range s[1:] {
			must.Do(t, scorer.Step(state, s[i:i+1]))
			must.Do(t, scorer.LogProbRows(state, row))
			all++
			if target < text.FirstWord {
				continue // <unk> and <end> are no words
			}
			best := 0
			for w := range row {
				if row[w] > row[best] {
					best = w
				}
			}
			words++
			loss -= float64(row[target])
			if best == int(target) {
				hits++
			}
			if ranking.Place(row, int(target)) < models.TopGuesses {
				tops++
			}
		}
	}
	if got.Tokens != int64(words) || got.AllTargets.Tokens != int64(all) || words == all {
		t.Errorf("%d words of %d targets, want %v of %v", got.Tokens, got.AllTargets.Tokens, words, all)
	}
	if got.RecallAt5 == nil || math.Abs(*got.RecallAt5-tops/words) > 1e-12 || tops <= hits {
		t.Errorf("recall@5 %v, want %v", got.RecallAt5, tops/words)
	}
	if math.Abs(got.RecallAt1-hits/words) > 1e-12 || math.Abs(float64(got.Perplexity)/math.Exp(loss/words)-1) > 1e-9 {
		t.Errorf("utility %+v, want recall %v and perplexity %v", got, hits/words, math.Exp(loss/words))
	}
}

func TestSharesCoverTheTestPartOnce(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data, model := parts(t, g), initial(g)
	one, many := measure(g, model, data, 1), measure(g, model, data, 7)
	if one.Tokens != many.Tokens || one.RecallAt1 != many.RecallAt1 || math.Abs(float64(one.Perplexity/many.Perplexity)-1) > 1e-12 {
		t.Errorf("in one share %+v, in seven %+v", one, many)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data, model := parts(t, g), initial(g)
	part := g.Run(Part, PartParams{Data: population.Test, Shares: 1}, taskstest.In(audits.ModelInput, model), taskstest.In(DataInput, data))
	taskstest.Golden(t, part)
	taskstest.Golden(t, g.Run(Sum, SumParams{Shares: 1}, taskstest.In(tasks.PartInput(0), part)))
}

// For every kind of prediction, a better model has the larger utility, and one that is never
// right, or never wrong, has none to compare.
func TestUtilityGrowsWithTheModel(t *testing.T) {
	t.Parallel()
	for name, outcomes := range map[string][2]Outcome{
		"recall":                 {{RecallAt1: 0.1}, {RecallAt1: 0.2}},
		"mean absolute error":    {{MeanAbsoluteError: new(1.5)}, {MeanAbsoluteError: new(0.75)}},
		"mean average precision": {{MeanAveragePrecision: new(0.25)}, {MeanAveragePrecision: new(0.5)}},
	} {
		worse, known := Audit.Utility(&outcomes[0])
		better, alsoKnown := Audit.Utility(&outcomes[1])
		if !known || !alsoKnown || better != 2*worse {
			t.Errorf("%s: %g and twice that is %g", name, worse, better)
		}
	}
	for _, v := range []Outcome{{}, {MeanAbsoluteError: new(0.0)}} {
		if utility, known := Audit.Utility(&v); known {
			t.Errorf("%+v has the utility %g", v, utility)
		}
	}
}

// predictions are a classifier's answers to every question.
type predictions []models.Prediction

func (p predictions) Classify([][]int32) ([]models.Prediction, error) { return p, nil }

func TestLabelsAreCountedAmongTheFiveFirstGuesses(t *testing.T) {
	t.Parallel()
	logits := []float32{3, 9, 3, 8, 7, 3} // the order is 1, 3, 4, 0, 2, 5
	var c predictions
	for _, label := range []int{1, 3, 0, 2, 5, models.NoLabel} {
		c = append(c, models.Prediction{Label: label, Class: 1, Logits: logits})
	}
	for _, top := range []bool{false, true} {
		got, err := classifications(c, top)(nil)
		want := models.Tally{Tokens: 5, Hits: 1}
		if top {
			want.TopHits = 4 // all but 5
		}
		if err != nil || got.Counted != want {
			t.Errorf("first guesses %v: %+v, want %+v (%v)", top, got.Counted, want, err)
		}
	}
}

func TestRecallAtFiveIsOfWordsAndClassesAlone(t *testing.T) {
	t.Parallel()
	tenth := must.Get(numbers.ParseProbability("10%"))(t)
	for label, want := range map[source.Label]int{"": 0, source.TagsLabel: 1} {
		found := 0
		s := &audits.Setting{Reading: source.Reading{Label: label}, TestFraction: tenth}
		(&Fields{Utility: true, RecallAt5: true}).Check(s, func([]string, string, ...any) { found++ })
		if found != want {
			t.Errorf("label %q: %d mistakes, want %d", label, found, want)
		}
	}
}

// The tallies of a training with great noise: exp of the mean loss is beyond float64.
func TestAPerplexityBeyondTheFloatRangeIsAResult(t *testing.T) {
	t.Parallel()
	tally := models.Tally{Tokens: 10, Hits: 1, Loss: 10 * 3068.5}
	part := tasks.Kind{Name: "test/part", Class: tasks.Compute, Run: func(_ context.Context, t *tasks.Task) error {
		return t.SetMetrics(models.Evaluation{Counted: tally, All: tally})
	}}
	g := taskstest.NewGraph(t)
	var u Outcome
	sum := g.Run(Sum, SumParams{Shares: 1}, taskstest.In(tasks.PartInput(0), g.Run(part, nil)))
	sum.DecodeMetrics(&u)
	if !u.Perplexity.Infinite() || !u.Infinite || u.MeanLoss != 3068.5 || u.RecallAt1 != 0.1 || !u.AllTargets.Infinite {
		t.Errorf("%+v, want an infinite perplexity", u)
	}
	if texts := auditstest.Texts(&Audit, &u); texts[0] != "10.0" || texts[2] != "infinite" {
		t.Errorf("the table has %q", texts)
	}
	if note := u.Note(nil); !strings.Contains(note, "diverged") || !strings.Contains(note, "3068") {
		t.Errorf("the note is %q", note)
	}
	if note := (&Outcome{Perplexity: 9}).Note(nil); note != "" {
		t.Errorf("the note of a model that did not diverge is %q", note)
	}
}

// A test part whose words are all unknown has examples; more of them would not help.
func TestATestPartOfUnknownWordsIsToldFromAnEmptyOne(t *testing.T) {
	t.Parallel()
	for want, all := range map[string]int64{"none of them is in the vocabulary": 12, "raise data.test.fraction": 0} {
		part := tasks.Kind{Name: "test/part", Class: tasks.Compute, Run: func(_ context.Context, t *tasks.Task) error {
			return t.SetMetrics(models.Evaluation{All: models.Tally{Tokens: all, Loss: 1}})
		}}
		g := taskstest.NewGraph(t)
		_, err := g.Try(Sum, SumParams{Shares: 1}, taskstest.In(tasks.PartInput(0), g.Run(part, nil)))
		if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%d targets: %v, want %q", all, err, want)
		}
	}
}
