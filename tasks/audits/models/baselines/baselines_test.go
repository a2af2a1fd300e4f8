package baselines

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/devices"
	"coalmine/tasks/taskstest"
)

// parts imports lines and divides them.
func parts(t *testing.T, g *taskstest.Graph, lines string, r source.Reading, vocabulary int) *taskstest.Node {
	t.Helper()
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(lines))}, Reading: r})
	return g.Run(datasets.Encode, datasets.EncodeParams{Seed: 1, Level: r.Level, VocabularySize: vocabulary, TestFraction: 0.3}, taskstest.In(datasets.CorpusInput, corpus))
}

func measure(g *taskstest.Graph, data *taskstest.Node, p Params) Outcome {
	var v Outcome
	g.Run(Kind, p, taskstest.In(utility.DataInput, data)).DecodeMetrics(&v)
	return v
}

// sentences are those of a part.
func sentences(t *testing.T, g *taskstest.Graph, data *taskstest.Node, part population.Part) [][]int32 {
	t.Helper()
	p := must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", data)), "data", part))(t)
	return must.Get(p.ReadRecords(t.Context(), 0, p.Records()))(t)
}

var texts = func() string {
	var lines strings.Builder
	for i := range 400 {
		tags := []string{}
		if i%4 == 0 {
			tags = append(tags, `"even"`)
		}
		if i%7 == 0 {
			tags = append(tags, `"seven"`)
		}
		fmt.Fprintf(&lines, `{"user":"u%d","text":"w%d w%d and w%d","score":%d,"tags":[%s]}`+"\n",
			i%9, i%4, 10+i%7, 20+i*i%11, 1+i%4, strings.Join(tags, ","))
	}
	return lines.String()
}()

func TestWordsAreGuessedByTheirFrequencyInTheTrainingPart(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data := parts(t, g, texts, source.Reading{}, 12)
	v := measure(g, data, Params{Choices: 12})
	counts, all := map[int32]float64{}, 0.0
	for _, s := range sentences(t, g, data, population.Test) {
		for _, w := range s[1:] {
			if w >= text.FirstWord {
				counts[w]++
				all++
			}
		}
	}
	// Numbers of words go by their frequency in the training part.
	first, five := counts[4]/all, (counts[4]+counts[5]+counts[6]+counts[7]+counts[8])/all
	if v.Examples != int64(all) || *v.Constant.RecallAt1 != first || math.Abs(*v.Constant.RecallAt5-five) > 1e-15 || first == 0 || five == 1 {
		t.Errorf("%+v of %v words, want %v and %v", v.Constant, all, first, five)
	}
	if *v.Chance.RecallAt1 != 1./12 || *v.Chance.RecallAt5 != 5./12 || v.Neighbours != nil {
		t.Errorf("chance %+v, neighbours %+v", v.Chance, v.Neighbours)
	}
}

func TestPairTargetsArePredicted(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	lines := strings.Repeat(`{"user":"a","text":"source words","target":"goal"}`+"\n", 60)
	v := measure(g, parts(t, g, lines, source.Reading{Pairs: true}, 3), Params{Reading: utility.Reading{Pairs: true}, Choices: 3})
	if *v.Constant.RecallAt1 != 1 || v.Examples > 30 || v.Examples < 5 {
		t.Errorf("%+v of %d", v.Constant, v.Examples)
	}
}

// image lines have a bright square, whose place tells the class of most of them.
func imageLines(shape images.Shape, n int) string {
	rng := rand.New(rand.NewPCG(1, 0))
	var lines strings.Builder
	for i := range n {
		class, pixels := rng.IntN(shape.Classes-1), make([]byte, shape.Pixels())
		for j := range pixels {
			pixels[j] = byte(rng.IntN(120))
		}
		pixels[class] += 135
		if i%9 == 0 {
			class = shape.Classes - 1
		}
		label := fmt.Sprintf(`"label":%d,`, class)
		if i%10 == 0 {
			label = ""
		}
		fmt.Fprintf(&lines, `{"user":"u%d",%s"pixels":%q}`+"\n", i%9, label, base64.StdEncoding.EncodeToString(pixels))
	}
	return lines.String()
}

// farness is the square of a distance, in whole numbers.
func farness(a, b []int32) (square int) {
	for i := range a {
		d := int(a[i] - b[i])
		square += d * d
	}
	return square
}

func TestClassesArePredictedByTenNeighbours(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	shape := images.Shape{Width: 4, Height: 3, Channels: 1, Classes: 7}
	r := source.Reading{Level: text.ImageLevel, Image: shape, Unlabelled: true}
	data := parts(t, g, imageLines(shape, 500), r, 0)
	v := measure(g, data, Params{Reading: utility.Reading{Level: text.ImageLevel}, Choices: shape.Classes})

	labelled := func(part population.Part) [][]int32 {
		return slices.DeleteFunc(sentences(t, g, data, part), func(s []int32) bool { return s[1] == text.Unknown })
	}
	train, test := labelled(population.Train), labelled(population.Test)
	hits, counts := 0, make([]int, shape.Classes)
	for _, s := range train {
		counts[s[1]-text.FirstWord]++
	}
	frequent, common := slices.Index(counts, slices.Max(counts)), 0
	for _, s := range test {
		slices.SortStableFunc(train, func(a, b []int32) int { return farness(a[2:], s[2:]) - farness(b[2:], s[2:]) })
		votes := make([]int, shape.Classes)
		for _, near := range train[:Neighbours] {
			votes[near[1]-text.FirstWord]++
		}
		truth := int(s[1] - text.FirstWord)
		if slices.Index(votes, slices.Max(votes)) == truth {
			hits++
		}
		if truth == frequent {
			common++
		}
	}
	n := float64(len(test))
	if got := *v.Neighbours.RecallAt1; got != float64(hits)/n || v.Neighbours.Asked != len(test) || v.Neighbours.Among != len(train) || got < 0.3 {
		t.Errorf("neighbours %+v %v, want %d hits of %d", v.Neighbours, got, hits, len(test))
	}
	if *v.Constant.RecallAt1 != float64(common)/n || *v.Chance.RecallAt1 != 1./7 || v.Examples != int64(len(test)) {
		t.Errorf("%+v, want the most frequent class %d times", v, common)
	}
}

// neighboursOf are the training texts by their distance to a text, by features that the test
// makes itself of their words after the labels.
func neighboursOf(t *testing.T, g *taskstest.Graph, data *taskstest.Node, labels int) (train, test [][]int32, near func(i int) [][]int32) {
	t.Helper()
	train, test = sentences(t, g, data, population.Train), sentences(t, g, data, population.Test)
	p := must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", data)), "data", population.Train))(t)
	layout := devices.FeatureLayout{Labels: labels}
	set := must.Get(devices.NewFeatures(t.Context(), layout, p))(t)
	vector := func(s []int32) []float32 {
		x := make([]float32, set.Dimension())
		_, content := layout.Divide(devices.FeatureWords(s))
		set.Fill(x, content)
		return x
	}
	rows := make([][]float32, len(train))
	for i, s := range train {
		rows[i] = vector(s)
	}
	return train, test, func(i int) [][]int32 {
		query, order := vector(test[i]), make([]int, len(train))
		far := make([]float64, len(train))
		for j := range train {
			order[j] = j
			for k, x := range query {
				far[j] += float64(x-rows[j][k]) * float64(x-rows[j][k])
			}
			far[j] = math.Round(1e4 * far[j]) // equal texts are at one distance
		}
		slices.SortStableFunc(order, func(a, b int) int { return int(far[a] - far[b]) })
		var nearest [][]int32
		for _, j := range order[:Neighbours] {
			nearest = append(nearest, train[j])
		}
		return nearest
	}
}

func scoreOf(s []int32) float64 { return 1 + 0.5*float64(s[1]-text.FirstWord) }

func TestScoresAreGuessedByTheMedianAndByTheMeanOfNeighbours(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	data := parts(t, g, texts, source.Reading{Label: source.ScoreLabel}, 16)
	v := measure(g, data, Params{Reading: utility.Reading{Label: source.ScoreLabel}, Choices: models.Scores})
	train, test, near := neighboursOf(t, g, data, models.Scores)
	var scores []float64
	for _, s := range train {
		scores = append(scores, scoreOf(s))
	}
	slices.Sort(scores)
	middle := (scores[(len(scores)-1)/2] + scores[len(scores)/2]) / 2
	var chance, constant, neighbours float64
	for i, s := range test {
		constant += math.Abs(scoreOf(s) - middle)
		for guess := 1.; guess <= 4; guess++ { // the scores that there are
			chance += math.Abs(scoreOf(s)-guess) / 4
		}
		mean := 0.0
		for _, other := range near(i) {
			mean += scoreOf(other) / Neighbours
		}
		neighbours += math.Abs(scoreOf(s) - mean)
	}
	n := float64(len(test))
	for _, c := range []struct {
		what string
		got  *float64
		want float64
	}{{"chance", v.Chance.MeanAbsoluteError, chance / n}, {"constant", v.Constant.MeanAbsoluteError, constant / n}, {"neighbours", v.Neighbours.MeanAbsoluteError, neighbours / n}} {
		if math.Abs(*c.got-c.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", c.what, *c.got, c.want)
		}
	}
	if neighbours > 0.9*constant {
		t.Errorf("neighbours err by %v, a constant by %v: the words tell the score", neighbours/n, constant/n)
	}
}

func TestChanceOfTagsIsTheirMeanShare(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	r := source.Reading{Label: source.TagsLabel, Tags: source.Tags([]string{"even", "seven", "none"})}
	v := measure(g, parts(t, g, texts, r, 16), Params{Reading: utility.Reading{Label: source.TagsLabel}, Choices: 3})
	corpus := sentences(t, g, parts(t, g, texts, r, 16), population.Test)
	shares := [2]float64{}
	for _, s := range corpus {
		for label := range shares {
			if slices.Contains(s[1:3], int32(text.FirstWord+label)) {
				shares[label] += 1 / float64(len(corpus))
			}
		}
	}
	if want := (shares[0] + shares[1]) / 2; math.Abs(*v.Chance.MeanAveragePrecision-want) > 1e-12 || v.Constant != nil {
		t.Errorf("chance %v, constant %v, want %v, the mean share of the tags that are there", *v.Chance.MeanAveragePrecision, v.Constant, want)
	}
	// Texts with one tag share a word that others do not have.
	if got := *v.Neighbours.MeanAveragePrecision; got < 0.8 || got > 1 {
		t.Errorf("neighbours: %v", got)
	}
}

// Each tag is a bright pixel.
func TestImageTagsArePredictedByNeighbours(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	shape := images.Shape{Width: 3, Height: 2, Channels: 1, Classes: 10}
	rng := rand.New(rand.NewPCG(2, 0))
	var lines strings.Builder
	for i := range 400 {
		pixels, tags := make([]byte, shape.Pixels()), []string{}
		for j, tag := range []string{"a", "b", "c"} {
			pixels[j] = byte(rng.IntN(60))
			if rng.IntN(2+j) == 0 {
				pixels[j] += 190
				tags = append(tags, fmt.Sprintf("%q", tag))
			}
		}
		fmt.Fprintf(&lines, `{"user":"u%d","tags":[%s],"pixels":%q}`+"\n", i%9, strings.Join(tags, ","), base64.StdEncoding.EncodeToString(pixels))
	}
	r := source.Reading{Level: text.ImageLevel, Image: shape, Label: source.TagsLabel, Tags: source.Tags([]string{"a", "b", "c"})}
	data := parts(t, g, lines.String(), r, 0)
	v := measure(g, data, Params{Reading: utility.Reading{Level: text.ImageLevel, Label: source.TagsLabel}, Choices: 3})
	shares, test := 0., sentences(t, g, data, population.Test)
	for _, s := range test {
		for _, tag := range s[1:4] {
			shares += float64(tag-text.FirstWord) / 3 / float64(len(test))
		}
	}
	if math.Abs(*v.Chance.MeanAveragePrecision-shares) > 1e-12 || *v.Neighbours.MeanAveragePrecision < 0.97 || v.Examples != int64(len(test)) {
		t.Errorf("chance %v, neighbours %v of %d, want %v and nearly 1", *v.Chance.MeanAveragePrecision, *v.Neighbours.MeanAveragePrecision, v.Examples, shares)
	}
}

func TestBaselinesRejectDataWithoutTargets(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	shape := images.Shape{Width: 2, Height: 1, Channels: 1, Classes: 2}
	line := `{"user":"a","pixels":"AAA="}` + "\n"
	data := parts(t, g, strings.Repeat(line, 50), source.Reading{Level: text.ImageLevel, Image: shape, Unlabelled: true}, 0)
	_, err := g.Try(Kind, Params{Reading: utility.Reading{Level: text.ImageLevel}, Choices: 2}, taskstest.In(utility.DataInput, data))
	if err == nil || !strings.Contains(err.Error(), "no example with a label") {
		t.Errorf("error %v", err)
	}
	if _, err = g.Try(Kind, Params{}, taskstest.In(utility.DataInput, data)); err == nil || !strings.Contains(err.Error(), "0 choices") {
		t.Errorf("error %v", err)
	}
}

func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	g := taskstest.NewGraph(t)
	shape := images.Shape{Width: 4, Height: 3, Channels: 1, Classes: 7}
	data := parts(t, g, imageLines(shape, 200), source.Reading{Level: text.ImageLevel, Image: shape, Unlabelled: true}, 0)
	taskstest.Golden(t, g.Run(Kind, Params{Reading: utility.Reading{Level: text.ImageLevel}, Choices: 7}, taskstest.In(utility.DataInput, data)))
}

func TestTextsOmitMissingMeasures(t *testing.T) {
	t.Parallel()
	tenth, half := 0.1, 0.5
	for want, v := range map[string]Outcome{
		"10.0, top-5 50.0|50.0, top-5 50.0|": {Chance: Utility{RecallAt1: &tenth, RecallAt5: &half}, Constant: &Utility{RecallAt1: &half, RecallAt5: &half}},
		"0.500||0.100":                       {Chance: Utility{MeanAveragePrecision: &half}, Neighbours: &Nearest{Utility: Utility{MeanAveragePrecision: &tenth}}},
		"0.500|0.100|":                       {Chance: Utility{MeanAbsoluteError: &half}, Constant: &Utility{MeanAbsoluteError: &tenth}},
		"0.02|10.0|":                         {Chance: Utility{RecallAt1: new(0.0002)}, Constant: &Utility{RecallAt1: &tenth}},
	} {
		if got := strings.Join(auditstest.Texts(&Audit, &v), "|"); got != want {
			t.Errorf("texts %q, want %q", got, want)
		}
	}
}
