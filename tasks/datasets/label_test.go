package datasets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

var taggedReading = source.Reading{Label: source.TagsLabel, Tags: source.Tags([]string{"r", "machine learning", "time"})}

// labelledCorpus has lines with a score and with tags.
func labelledCorpus(n int) string {
	var lines strings.Builder
	for i := range n {
		tags := []string{"other"}
		if i%2 == 0 {
			tags = append(tags, "r")
		}
		if i%3 == 0 {
			tags = append([]string{"time"}, tags...)
		}
		fmt.Fprintf(&lines, `{"user":"u%d","text":"word%d common and w%d","score":%v,"tags":["%s"]}`+"\n",
			i%7, i%11, i%5, 1+float64(i%9)/2, strings.Join(tags, `","`))
	}
	return lines.String()
}

// encoded imports and encodes a source, and returns the vocabulary and the training texts.
func encoded(t *testing.T, r source.Reading, source string, vocabulary int) (*text.Vocabulary, [][]int32) {
	t.Helper()
	g := taskstest.NewGraph(t)
	corpus := g.Run(Import, ImportParams{Sources: []storage.Digest{g.Import([]byte(source))}, Reading: r})
	parts := g.Run(Encode, EncodeParams{Seed: 1, Level: r.Level, VocabularySize: vocabulary, TestFraction: 0.2}, taskstest.In(CorpusInput, corpus))
	v := must.Get(text.ParseVocabulary(parts.Blob(text.VocabularyBlob)))(t)
	part := must.Get(population.OpenPart(t.Context(), g.Task(taskstest.In("data", parts)), "data", population.Train))(t)
	texts := must.Get(part.ReadRecords(t.Context(), 0, part.Records()))(t)
	return v, texts
}

func TestScoresPrecedeWords(t *testing.T) {
	t.Parallel()
	v, texts := encoded(t, source.Reading{Label: source.ScoreLabel}, labelledCorpus(200), 10)
	if want := []string{"<score 1>", "<score 1.5>", "<score 2>", "<score 2.5>", "<score 3>", "<score 3.5>", "<score 4>", "<score 4.5>", "<score 5>", "and"}; !slices.Equal(v.Words[text.FirstWord:][:10], want) || v.Ordinary() != 19 {
		t.Errorf("vocabulary %q", v.Words)
	}
	seen := map[int32]bool{}
	for _, content := range texts {
		if len(content) != 7 || content[0] != text.Begin || content[1] < text.FirstWord || content[1] >= text.FirstWord+9 || content[6] != text.End {
			t.Fatalf("text %v: want its begin, a score, four words and its end", content)
		}
		seen[content[1]] = true
	}
	if len(seen) != 9 || len(texts) < 100 {
		t.Errorf("%d scores in %d texts, want 9", len(seen), len(texts))
	}
}

func TestListedTagsPrecedeWordsInListOrder(t *testing.T) {
	t.Parallel()
	v, texts := encoded(t, taggedReading, labelledCorpus(200), 10)
	if want := []string{"<tag r>", "<tag machine learning>", "<tag time>", "and"}; !slices.Equal(v.Words[text.FirstWord:][:4], want) {
		t.Errorf("vocabulary %q", v.Words)
	}
	found := map[string]int{}
	for _, text := range texts {
		labels := text[1 : len(text)-5]
		found[fmt.Sprint(labels)]++
	}
	for _, want := range []string{"[]", "[4]", "[6]", "[4 6]"} {
		if found[want] == 0 {
			t.Errorf("no text has the labels %s: %v", want, found)
		}
	}
	if len(found) != 4 {
		t.Errorf("labels %v", found)
	}
}

func TestALongTextKeepsItsLabelsAndItsEnd(t *testing.T) {
	t.Parallel()
	long := `{"user":"a","text":"` + strings.Repeat("so ", 50) + `","score":4}` + "\n"
	_, texts := encoded(t, source.Reading{Label: source.ScoreLabel, Sequence: 8}, strings.Repeat(long, 9), 1)
	for _, content := range texts {
		if len(content) != 1+1+8+1 || content[len(content)-1] != text.End {
			t.Fatalf("text %v: want a begin, a score, eight words and an end", content)
		}
	}
}

func TestSurveyMatchesTasksForLabelledTexts(t *testing.T) {
	t.Parallel()
	for _, r := range []source.Reading{{Label: source.ScoreLabel}, taggedReading} {
		src := labelledCorpus(300)
		recipe := Recipe{Seed: 3, Reading: r, VocabularySize: 12, TestFraction: 0.2, ValidationFraction: 0.1, TrainShare: 0.7}
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("x.jsonl", []byte(src))}, source.Limits{}, []Recipe{recipe}))(t)
		g := taskstest.NewGraph(t)
		corpus := g.Run(Import, recipe.Import([]storage.Digest{g.Import([]byte(src))}, source.Limits{}))
		var imported ImportMetrics
		corpus.DecodeMetrics(&imported)
		var parts EncodeMetrics
		g.Run(Encode, recipe.Encode(), taskstest.In(CorpusInput, corpus)).DecodeMetrics(&parts)
		if fmt.Sprint(facts[0].Source) != fmt.Sprint(imported) || facts[0].Parts != parts {
			t.Errorf("%s: the survey says %+v and %+v, the tasks %+v and %+v", r.Label, facts[0].Source, facts[0].Parts, imported, parts)
		}
		if parts.UnknownWords == 0 || imported.DistinctWords != 11+5+2 {
			t.Errorf("%s: %d unknown words, %d distinct ones", r.Label, parts.UnknownWords, imported.DistinctWords)
		}
	}
}

var taggedImages = source.Reading{Level: text.ImageLevel, Image: images.Shape{Width: 2, Height: 1, Channels: 1, Classes: 10}, Label: source.TagsLabel, Tags: source.Tags([]string{"dog", "cat", "tree"})}

func TestImagesHaveANumberForEachTagBeforeTheirPixels(t *testing.T) {
	t.Parallel()
	lines := `{"user":"a","tags":["tree","other","dog"],"pixels":"AAc="}` + "\n" + `{"user":"a","labels":[],"pixels":"//8="}` + "\n"
	_, images := encoded(t, taggedImages, strings.Repeat(lines, 30), 0)
	seen := map[string]int{}
	for _, image := range images {
		seen[fmt.Sprint(image)]++
	}
	if len(seen) != 2 || seen["[2 5 4 5 4 11]"] < 10 || seen["[2 4 4 4 259 259]"] < 10 {
		t.Errorf("images %v: want a begin, 1 for dog and tree, and pixels 0 and 7; and 0 for all tags, and pixels 255", seen)
	}
}
