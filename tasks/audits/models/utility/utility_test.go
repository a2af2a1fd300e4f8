package utility

import (
	"context"
	"errors"
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
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/clientprograms/clientprogramstest"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
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

func TestUtilityMatchesPlainLoop(t *testing.T) {
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

func TestRecallAtFiveNeedsWordsOrClasses(t *testing.T) {
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
func TestUnknownWordsAndEmptyTestPartAreReportedApart(t *testing.T) {
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

// A program that predicts as is done here has the same utility.
func TestProgramUtilityMatchesAudit(t *testing.T) {
	t.Parallel()
	g, asked := taskstest.NewGraph(t), new(clientprogramstest.Runner)
	g.Clients = asked
	data, model := parts(t, g), initial(g)
	want := measure(g, model, data, 2)
	params := PartParams{Data: population.Test, Shares: 2, Program: &clientprograms.Program{Command: "p"}, Words: true}
	edges := []taskstest.Edge{taskstest.In(audits.ModelInput, model), taskstest.In(DataInput, data), taskstest.In(external.VocabularyInput, data)}
	first := g.Run(Part, params, edges...)
	params.Share = 1
	second := g.Run(Part, params, edges...)
	var got Outcome
	g.Run(Sum, SumParams{Shares: 2}, taskstest.In(tasks.PartInput(0), first), taskstest.In(tasks.PartInput(1), second)).DecodeMetrics(&got)
	if got.Tokens != want.Tokens || got.RecallAt1 != want.RecallAt1 || math.Abs(float64(got.Perplexity/want.Perplexity)-1) > 1e-12 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got.AllTargets != nil {
		t.Errorf("%+v is said of targets that no program was asked about", got.AllTargets)
	}
	if asked.Lent != 2 || asked.Back != 2 || len(asked.Words) != 20+text.FirstWord {
		t.Errorf("%+v: not borrowed twice, given back, and told of the vocabulary", asked)
	}
	checkOwnTokens(t, g, asked, params, edges, &got)
	asked.Failure = errors.New("busy")
	if _, err := g.Try(Part, params, edges...); !errors.Is(err, asked.Failure) || tasks.IsPermanent(err) {
		t.Errorf("got %v, want that it may be tried again", err)
	}
}

// checkOwnTokens has the program count two tokens of its own for each word: the loss of all of them is that
// of the words, and there is no accuracy.
func checkOwnTokens(t *testing.T, g *taskstest.Graph, asked *clientprogramstest.Runner, params PartParams, edges []taskstest.Edge, words *Outcome) {
	t.Helper()
	asked.TokensPerWord, asked.Input = 2, clientprograms.TextInput
	params.Share, params.Shares, params.Program.Command = 0, 1, "q"
	var got Outcome
	g.Run(Sum, SumParams{Shares: 1}, taskstest.In(tasks.PartInput(0), g.Run(Part, params, edges...))).DecodeMetrics(&got)
	if got.Tokens != words.Tokens || math.Abs(float64(got.Perplexity/words.Perplexity)-1) > 1e-12 || !strings.Contains(got.RecallUnknown, "its perplexity is by words") || got.RecallAt1 != 0 {
		t.Errorf("%+v, want the perplexity of %+v and no accuracy", got, words)
	}
	asked.TokensPerWord = 0
}

// labelledParts has texts whose words say their score and their tags.
func labelledParts(t *testing.T, g *taskstest.Graph, r source.Reading) *taskstest.Node {
	t.Helper()
	var text strings.Builder
	for i := range 300 {
		tags := []string{}
		if i%4 == 0 {
			tags = append(tags, `"even"`)
		}
		if i%7 == 0 {
			tags = append(tags, `"seven"`)
		}
		fmt.Fprintf(&text, `{"user":"u%d","text":"w%d w%d and w%d","score":%d,"tags":[%s]}`+"\n",
			i%9, i%4, 10+i%7, 20+i*i%5, 1+i%5, strings.Join(tags, ","))
	}
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(text.String()))}, Reading: r})
	return g.Run(datasets.Encode, datasets.EncodeParams{Seed: 1, VocabularySize: 12, TestFraction: 0.4}, taskstest.In(datasets.CorpusInput, corpus))
}

var labelReadings = map[models.Kind]source.Reading{
	models.Regressor: {Label: source.ScoreLabel},
	models.Tagger:    {Label: source.TagsLabel, Tags: source.Tags([]string{"even", "seven", "none"})},
}

func reader(g *taskstest.Graph, kind models.Kind) *taskstest.Node {
	labels := len(labelReadings[kind].LabelWords())
	return g.Run(training.Initial, training.InitialParams{Seed: 1, Model: models.Config{
		Kind: kind, Vocabulary: text.FirstWord + labels + 12, Embedding: 5, Units: 7, Labels: labels,
	}})
}

// predictedTexts are the texts of the test part with the model's predictions.
func predictedTexts(t *testing.T, g *taskstest.Graph, model, data *taskstest.Node) []models.Labelled {
	t.Helper()
	m := must.Get(checkpoints.Decode(model.Blob("model")))(t)
	part := must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", data)), "data", population.Test))(t)
	texts := must.Get(part.ReadRecords(t.Context(), 0, part.Records()))(t)
	return must.Get(m.Network.(models.Labelling).NewLabeller(m.Params).Label(texts))(t)
}

func TestScoresHaveMeanAbsoluteErrorInAnyShares(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data, model := labelledParts(t, g, labelReadings[models.Regressor]), reader(g, models.Regressor)
	texts := predictedTexts(t, g, model, data)
	want := 0.0
	for _, text := range texts {
		want += math.Abs(float64(text.Predicted[0])-float64(text.Truth[0])) / float64(len(texts))
	}
	for _, shares := range []int{1, 7} {
		got := measure(g, model, data, shares)
		if got.MeanAbsoluteError == nil || math.Abs(*got.MeanAbsoluteError-want) > 1e-9 || got.Tokens != int64(len(texts)) || got.MeanAveragePrecision != nil {
			t.Errorf("in %d shares: %+v, want a mean absolute error of %v over %d texts", shares, got, want, len(texts))
		}
	}
	if len(texts) < 90 || want < 0.5 {
		t.Errorf("%d texts, error %v", len(texts), want)
	}
}

// bruteForce is the average precision of one label by its definition: the mean, over the
// texts that have it, of the precision among all that score no less.
func bruteForce(texts []models.Labelled, label int) (mean float64, positives int) {
	for _, a := range texts {
		if a.Truth[label] == 0 {
			continue
		}
		above, found := 0.0, 0.0
		for _, b := range texts {
			if b.Predicted[label] >= a.Predicted[label] {
				above++
				found += float64(b.Truth[label])
			}
		}
		mean, positives = mean+found/above, positives+1
	}
	return mean / float64(positives), positives
}

func TestTagsHaveMeanAveragePrecisionOfUsedTags(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data, model := labelledParts(t, g, labelReadings[models.Tagger]), reader(g, models.Tagger)
	texts := predictedTexts(t, g, model, data)
	even, _ := bruteForce(texts, 0)
	seven, _ := bruteForce(texts, 1)
	if _, none := bruteForce(texts, 2); none != 0 {
		t.Fatalf("%d texts have the tag that none has", none)
	}
	for _, shares := range []int{1, 3} {
		got := measure(g, model, data, shares)
		if got.MeanAveragePrecision == nil || math.Abs(*got.MeanAveragePrecision-(even+seven)/2) > 1e-9 || got.MeanAbsoluteError != nil {
			t.Errorf("in %d shares: %+v, want a mean average precision of %v", shares, got, (even+seven)/2)
		}
	}
}

func TestAnOutcomeOnLabelsOfTextsHasNoAccuracy(t *testing.T) {
	t.Parallel()
	half := 0.5
	for want, v := range map[string]Outcome{
		"[   0.500 ]":       {MeanAbsoluteError: &half},
		"[    0.500]":       {MeanAveragePrecision: &half},
		"[50.0  9.0  ]":     {RecallAt1: 0.5, Perplexity: 9},
		"[50.0 50.0 9.0  ]": {RecallAt1: 0.5, Perplexity: 9, RecallAt5: &half},
	} {
		if got := fmt.Sprint(auditstest.Texts(&Audit, &v)); got != want {
			t.Errorf("texts %q, want %q", got, want)
		}
		if recall := auditstest.Value(&Audit, &v, "recall_at_1"); (recall == nil) != v.ofTexts() {
			t.Errorf("%+v has the recall %v", v, recall)
		}
	}
}
