package accuracyperuser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/selection"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// bench is a population and a model that has not been trained.
type bench struct {
	*taskstest.Graph
	parts, population, model *taskstest.Node
}

func newBench(t *testing.T, lines string, reading source.Reading, vocabulary int, model models.Config) bench {
	t.Helper()
	b := bench{Graph: taskstest.NewGraph(t)}
	corpus := b.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{b.Import([]byte(lines))}, Reading: reading})
	b.parts = b.Run(datasets.Encode, datasets.EncodeParams{Seed: 1, Level: reading.Level, VocabularySize: vocabulary, TestFraction: 0.4}, taskstest.In(datasets.CorpusInput, corpus))
	balanced := b.Run(population.Balance, population.BalanceParams{}, taskstest.In(population.PartsInput, b.parts))
	b.population = b.Run(population.Partition, population.PartitionParams{Partition: population.ByUser},
		taskstest.In(population.PartsInput, b.parts), taskstest.In(population.BalancedInput, balanced))
	b.model = b.Run(training.Initial, training.InitialParams{Seed: 2, Model: model})
	return b
}

func ofImages(t *testing.T) bench {
	t.Helper()
	shape := images.Shape{Width: 18, Height: 18, Channels: 1, Classes: 3}
	rng := rand.New(rand.NewPCG(1, 0))
	var lines strings.Builder
	for range 120 {
		pixels := make([]byte, shape.Pixels())
		for i := range pixels {
			pixels[i] = byte(rng.Uint32())
		}
		fmt.Fprintf(&lines, `{"user":"u%d","label":%d,"pixels":%q}`+"\n", rng.IntN(9), rng.IntN(3), base64.StdEncoding.EncodeToString(pixels))
	}
	return newBench(t, lines.String(), source.Reading{Level: text.ImageLevel, Image: shape}, 0,
		models.Config{Kind: models.CNN, Image: models.Image{ImageShape: models.ImageShape(shape)}})
}

func texts(t *testing.T) bench {
	t.Helper()
	var lines strings.Builder
	for i := range 200 {
		words := make([]string, 2+i%7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7)%37)
		}
		fmt.Fprintf(&lines, `{"user":"u%d","text":%q}`+"\n", i%9, strings.Join(words, " "))
	}
	return newBench(t, lines.String(), source.Reading{}, 20, models.Config{Kind: models.CIFGLSTM, Vocabulary: 20 + text.FirstWord, Embedding: 5, Units: 7})
}

func (b bench) part(p Params) *taskstest.Node {
	edges := []taskstest.Edge{taskstest.In(audits.ModelInput, b.model)}
	if p.Part == Test {
		edges = append(edges, taskstest.In(population.PartsInput, b.parts))
	} else {
		edges = append(edges, taskstest.In(population.Input, b.population), taskstest.In(population.ShardsInput, b.parts))
	}
	return b.Run(Kind, p, edges...)
}

func (b bench) measure(part Part, shares int) Outcome {
	var edges []taskstest.Edge
	for share := range shares {
		edges = append(edges, taskstest.In(tasks.PartInput(share), b.part(Params{part, utility.UserShare{Share: share, Shares: shares}})))
	}
	var v Outcome
	b.Run(Summary, SummaryParams{Part: part, Shares: shares}, edges...).DecodeMetrics(&v)
	return v
}

// The users' sums equal the utility audit's numbers over all of them.
func TestUsersSumToUtility(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]bench{"images": ofImages(t), "texts": texts(t)} {
		part := b.Run(utility.Part, utility.PartParams{Data: population.Test, Shares: 1}, taskstest.In(audits.ModelInput, b.model), taskstest.In(utility.DataInput, b.parts))
		var want models.Evaluation
		part.DecodeMetrics(&want)
		v := b.measure(Test, 3)
		if got := v.Model; int64(got.Examples) != want.Counted.Tokens || int64(got.Correct) != want.Counted.Hits || got.Users != 9 || got.Correct == 0 {
			t.Errorf("%s: %+v, want %+v of 9 users", name, got, want.Counted)
		}
	}
}

func TestPredictionsMatchSelection(t *testing.T) {
	t.Parallel()
	b := ofImages(t)
	predictions := b.Run(selection.Predictions, nil, taskstest.In(selection.ModelInput, b.model), taskstest.In(population.Input, b.population), taskstest.In(population.ShardsInput, b.parts))
	var v Outcome
	b.Run(Summary, SummaryParams{Part: Train, Prepared: true}, taskstest.In(PredictedInput, predictions), taskstest.In(CleanInput, predictions)).DecodeMetrics(&v)
	own := b.measure(Train, 4)
	if v.Model != nil || own.Prepared != nil || *v.Prepared != *own.Model || *v.Clean != *own.Model || v.Prepared.Users != 9 {
		t.Errorf("by the predictions %+v, by the model itself %+v", v.Prepared, own.Model)
	}
	var shares []float64
	var users []selection.UserAccuracy
	must.Do(t, json.Unmarshal(predictions.Blob(selection.UsersBlob), &users))
	mean := 0.0
	for _, u := range users {
		shares = append(shares, u.Share())
		mean += u.Share() / float64(len(users))
	}
	if math.Abs(own.Model.Mean-mean) > 1e-12 {
		t.Errorf("mean %v of %v", own.Model.Mean, shares)
	}
}

func TestSharesCoverAllUsersOnce(t *testing.T) {
	t.Parallel()
	b := texts(t)
	one, many := b.measure(Train, 1), b.measure(Train, 11)
	if *one.Model != *many.Model {
		t.Errorf("in one share %+v, in eleven %+v", one.Model, many.Model)
	}
}

func TestBadParametersAreRejected(t *testing.T) {
	t.Parallel()
	b := texts(t)
	_, err := b.Try(Kind, Params{"odd", utility.UserShare{Shares: 1}}, taskstest.In(audits.ModelInput, b.model))
	if err == nil || !strings.Contains(err.Error(), "expected one of [train test]") {
		t.Errorf("error %v", err)
	}
	nobody := b.Put("nobody", map[string][]byte{UsersBlob: []byte(`[{"examples":0,"correct":0}]`)})
	_, err = b.Try(Summary, SummaryParams{Part: Train, Shares: 1}, taskstest.In(tasks.PartInput(0), nobody))
	if err == nil || !strings.Contains(err.Error(), "none of the 1 users") {
		t.Errorf("error %v", err)
	}
}

// The figure has the selection's threshold, and both histograms where faults move users.
func TestFigureShowsSelectionThreshold(t *testing.T) {
	t.Parallel()
	faulty, clean := usersOf([]selection.UserAccuracy{{Examples: 10, Correct: 10}, {Examples: 10, Correct: 1}}), usersOf([]selection.UserAccuracy{{Examples: 10, Correct: 10}, {Examples: 10, Correct: 9}})
	v := &Outcome{Part: Train, Prepared: faulty, Clean: clean}
	f := v.Figure(&audits.Cell{Selection: &selection.Selection{Side: selection.Below, Threshold: 0.925}})
	if len(f.Bars) != 20 || f.Bars[2] != (audits.Bar{From: 10, To: 15, Y: 1}) || f.Bars[19].Y != 1 || f.Y.Max != 1 {
		t.Errorf("bars %v up to %v", f.Bars, f.Y.Max)
	}
	if len(f.Ranges) != 1 || f.Ranges[0].X != 92.5 || len(f.Line) != 40 || f.Line[36] != (audits.Point{X: 90, Y: 1}) {
		t.Errorf("threshold %v, line %v", f.Ranges, f.Line)
	}
	if f = (&Outcome{Part: Train, Model: clean}).Figure(&audits.Cell{}); f.Ranges != nil || f.Line != nil || !strings.Contains(f.About, "of the model") {
		t.Errorf("of a model alone %+v", f)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	b := texts(t)
	part := b.part(Params{Train, utility.UserShare{Shares: 1}})
	taskstest.Golden(t, part)
	taskstest.Golden(t, b.Run(Summary, SummaryParams{Part: Train, Shares: 1}, taskstest.In(tasks.PartInput(0), part)))
}
