package devices

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// training opens the training part of some lines.
func training(t *testing.T, lines string, r source.Reading, vocabulary int) *population.Population {
	t.Helper()
	g := taskstest.NewGraph(t)
	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{g.Import([]byte(lines))}, Reading: r})
	parts := g.Run(datasets.Encode, datasets.EncodeParams{Level: r.Level, VocabularySize: vocabulary}, taskstest.In(datasets.CorpusInput, corpus))
	return must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", parts)), "data", population.Train))(t)
}

func TestImageFeaturesArePixels(t *testing.T) {
	t.Parallel()
	shape := images.Shape{Width: 2, Height: 1, Channels: 1, Classes: 10}
	pixels := base64.StdEncoding.EncodeToString([]byte{0, 255})
	for _, c := range []struct {
		layout  FeatureLayout
		reading source.Reading
		said    string
	}{
		{FeatureLayout{Images: true, Labels: 1}, source.Reading{Level: text.ImageLevel, Image: shape}, `"label":7`},
		{FeatureLayout{Images: true, Labels: 3}, source.Reading{Level: text.ImageLevel, Image: shape, Label: source.TagsLabel, Tags: source.Tags([]string{"a", "b", "c"})}, `"tags":["b"]`},
	} {
		p := training(t, fmt.Sprintf(`{"user":"u",%s,"pixels":%q}`+"\n", c.said, pixels), c.reading, 0)
		set := must.Get(NewFeatures(t.Context(), c.layout, p))(t)
		sentence := must.Get(p.ReadRecord(t.Context(), 0))(t)
		labels, content := c.layout.Divide(FeatureWords(sentence))
		x := make([]float32, set.Dimension())
		set.Fill(x, content)
		if !slices.Equal(x, []float32{0, 1}) || len(labels) != c.layout.Labels {
			t.Errorf("%s: features %v after the labels %v, want 0 and 1", c.said, x, labels)
		}
	}
}

// "a" is in all three texts and weighs nothing, "b" in two, "c" and "d" in one; b is there
// twice in the last.
func TestFeaturesOfATextAreHashedWeights(t *testing.T) {
	t.Parallel()
	lines := `{"user":"u","text":"a b c"}` + "\n" + `{"user":"u","text":"a d"}` + "\n" + `{"user":"u","text":"a b b"}` + "\n"
	p := training(t, lines, source.Reading{}, 4) // tokens 4 and 5 are a and b
	set := must.Get(NewFeatures(t.Context(), FeatureLayout{}, p))(t)
	const b, c = text.FirstWord + 1, text.FirstWord + 2
	x, want := make([]float32, set.Dimension()), make([]float64, 512)
	set.Fill(x, []int32{4, b, c, 900}) // nobody has 900
	for word, weight := range map[uint64]float64{b: math.Log(1.5), c: math.Log(3)} {
		hash := word * 0x9e3779b97f4a7c15
		if hash > math.MaxInt64 {
			weight = -weight
		}
		want[hash>>32%512] += weight / math.Hypot(math.Log(1.5), math.Log(3))
	}
	for i := range want {
		if math.Abs(float64(x[i])-want[i]) > 1e-6 {
			t.Errorf("feature %d is %v, want %v", i, x[i], want[i])
		}
	}
	set.Fill(x, []int32{4})
	if slices.ContainsFunc(x, func(v float32) bool { return v != 0 }) {
		t.Error("a text of a word that all have has features that are not 0")
	}
}

func TestDivideSplitsLabelsFromWords(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"[4 6 7 9 1 4]": "[4 6] [7 9 1 4]",
		"[9 4]":         "[] [9 4]",
		"[1 4]":         "[] [1 4]",
		"[5]":           "[5] []",
	} {
		var list []int32
		for _, word := range strings.Fields(strings.Trim(words, "[]")) {
			list = append(list, int32(word[0]-'0'))
		}
		labels, content := FeatureLayout{Labels: 3}.Divide(list)
		if got := fmt.Sprint(labels, content); got != want {
			t.Errorf("%s is divided into %s, want %s", words, got, want)
		}
	}
}
