package utility

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

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

func TestScoresAreMeasuredByTheirMeanAbsoluteErrorInSharesAsInOne(t *testing.T) {
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

func TestTagsAreMeasuredByTheMeanAveragePrecisionOfThoseThatTextsHave(t *testing.T) {
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
