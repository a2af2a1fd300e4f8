package datasets

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

var taggedReading = Reading{Label: TagsLabel, Tags: Tags([]string{"r", "machine learning", "time"})}

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
func encoded(t *testing.T, r Reading, source string, vocabulary int) (*text.Vocabulary, [][]int32) {
	t.Helper()
	g := taskstest.NewGraph(t)
	corpus := g.Run(Import, ImportParams{Sources: []storage.Digest{g.Import([]byte(source))}, Reading: r})
	parts := g.Run(Encode, EncodeParams{Seed: 1, Level: r.Level, VocabularySize: vocabulary, TestFraction: 0.2}, taskstest.In(CorpusInput, corpus))
	v := must.Get(text.ParseVocabulary(parts.Blob(text.VocabularyBlob)))(t)
	part := must.Get(OpenPart(t.Context(), g.Task(taskstest.In("data", parts)), "data", Train))(t)
	texts := must.Get(part.ReadRecords(t.Context(), 0, part.Records()))(t)
	return v, texts
}

func TestScoresStandBeforeTheWordsOfTheirTexts(t *testing.T) {
	t.Parallel()
	v, texts := encoded(t, Reading{Label: ScoreLabel}, labelledCorpus(200), 10)
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

func TestTagsThatTheListHasStandBeforeTheWordsInItsOrder(t *testing.T) {
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
	_, texts := encoded(t, Reading{Label: ScoreLabel, Sequence: 8}, strings.Repeat(long, 9), 1)
	for _, content := range texts {
		if len(content) != 1+1+8+1 || content[len(content)-1] != text.End {
			t.Fatalf("text %v: want a begin, a score, eight words and an end", content)
		}
	}
}

func TestScoresAreRoundedToHalves(t *testing.T) {
	t.Parallel()
	for score, want := range map[string]byte{"1": 0, "1.2": 0, "1.25": 1, "3": 4, "4.74": 7, "4.75": 8, "5": 8, "5.0": 8} {
		rec := labelledLine(t, Reading{Label: ScoreLabel}, `{"user":"a","text":"good","score":`+score+`}`)
		if rec.Text != string([]byte{want})+"\xffgood" {
			t.Errorf("score %s: text %q, want label %d", score, rec.Text, want)
		}
	}
}

func labelledLine(t *testing.T, r Reading, line string) Record {
	t.Helper()
	form := r.Complete().lines(nil)
	return must.Get(form.record([]byte(line)))(t)
}

func TestLinesWithoutTheirLabelsSayWhichLineAndWhatIsWanted(t *testing.T) {
	t.Parallel()
	scores := Reading{Label: ScoreLabel}
	timed := scores
	timed.Timed = true
	for _, c := range []struct {
		reading    Reading
		line, want string
	}{
		{scores, `{"user":"a","text":"so"}`, `line 2: "score" is missing; expected {"user": "…", "text": "…"} on every line with "score", a number from 1 to 5 (data.label: score)`},
		{scores, `{"user":"a","text":"so","score":null}`, `"score" is missing`},
		{scores, `{"user":"a","text":"so","score":0.9}`, `"score" is 0.9; expected a number from 1 to 5`},
		{scores, `{"user":"a","text":"so","score":5.1}`, `"score" is 5.1; expected a number from 1 to 5`},
		{scores, `{"user":"a","text":"so","score":"4"}`, `"score" is a JSON string, not a number`},
		{timed, `{"user":"a","text":"so","score":4}`, `"time" is missing`},
		{taggedReading, `{"user":"a","text":"so","score":4}`, `"tags" are missing`},
		{taggedReading, `{"user":"a","text":"so","tags":"r"}`, `"tags" is a JSON string, not a list of strings`},
	} {
		good := `{"user":"a","text":"so","score":4,"tags":[],"time":1}` + "\n"
		var err error
		for _, e := range c.reading.Complete().Records(t.Context(), []File{fileOf("x.jsonl", []byte(good+c.line+"\n"))}, Limits{}) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.jsonl, line 2") {
			t.Errorf("%s: error %v, want %s", c.line, err, c.want)
		}
	}
}

func TestTheSurveyOfLabelledTextsCountsWhatTheTasksCount(t *testing.T) {
	t.Parallel()
	for _, r := range []Reading{{Label: ScoreLabel}, taggedReading} {
		source := labelledCorpus(300)
		recipe := Recipe{Seed: 3, Reading: r, VocabularySize: 12, TestFraction: 0.2, ValidationFraction: 0.1, TrainShare: 0.7}
		facts := must.Get(Survey(t.Context(), []File{fileOf("x.jsonl", []byte(source))}, Limits{}, []Recipe{recipe}))(t)
		g := taskstest.NewGraph(t)
		corpus := g.Run(Import, recipe.Import([]storage.Digest{g.Import([]byte(source))}, Limits{}))
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

func TestReadingsOfLabelsAreChecked(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Reading{
		"expected single texts at the word level": {Label: ScoreLabel, Level: text.ByteLevel},
		"or of pairs":                  {Label: ScoreLabel, Pairs: true},
		`label "stars": expected`:      {Label: "stars"},
		"tags without the label":       {Tags: "r"},
		"0 tags; expected a list of 1": {Label: TagsLabel},
		`the tag "r" twice`:            {Label: TagsLabel, Tags: "r\nr"},
		`the tag " r"`:                 {Label: TagsLabel, Tags: " r"},
	} {
		if err := r.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %s", r, err, want)
		}
	}
}

// A line is read or refused; a read line has valid labels.
func FuzzLabelledLines(f *testing.F) {
	f.Add(`{"user":"a","text":"so","score":4.5,"tags":["r","x"]}`)
	f.Add(`{"user":"a","text":"so \u00ff","score":1e0,"labels":["time","r"]}`)
	f.Add(`{"user":"a","text":"so","score":-0,"tags":null}`)
	f.Fuzz(func(t *testing.T, line string) {
		for _, r := range []Reading{{Label: ScoreLabel}, taggedReading} {
			form := r.Complete().lines(nil)
			rec, err := form.record([]byte(line))
			if err != nil {
				continue
			}
			numbers, text, found := strings.Cut(rec.Text, pairMark)
			if !found || text == "" || r.Label == ScoreLabel && len(numbers) != 1 {
				t.Fatalf("%q was read as %q", line, rec.Text)
			}
			for i := range len(numbers) {
				if int(numbers[i]) >= len(r.LabelWords()) || i > 0 && numbers[i] <= numbers[i-1] {
					t.Fatalf("%q has the labels %v", line, []byte(numbers))
				}
			}
		}
	})
}

var taggedImages = Reading{Level: text.ImageLevel, Image: Image{Width: 2, Height: 1, Channels: 1, Classes: 10}, Label: TagsLabel, Tags: Tags([]string{"dog", "cat", "tree"})}

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

func TestFaultsOfTaggedImagesAreNamed(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"user":"a","pixels":"AAc="}`:                          `line 1: "tags" are missing; expected {"user": "…", "tags": ["…"], "pixels": "…"}`,
		`{"user":"a","tags":["dog"]}`:                           `both "pixels" and "image" are missing`,
		`{"user":"a","tags":["dog"],"text":"x"}`:                "the line is a text, and the source is read as images",
		`{"user":"a","tags":["dog"],"pixels":"AA=="}`:           `"pixels" are 1 bytes; expected 2`,
		`{"tags":["dog"],"pixels":"AAc="}`:                      `"user" is missing`,
		`{"user":"a","tags":"dog","pixels":"AAc="}`:             `"tags" is a JSON string`,
		`{"user":"a","tags":[],"pixels":"AAc=","image":"AAc="}`: `"pixels" stand beside "image"`,
	} {
		var err error
		for _, err = range taggedImages.Records(t.Context(), []File{fileOf("x.jsonl", []byte(line+"\n"))}, Limits{}) {
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", line, err, want)
		}
	}
}

func TestLabelsThatImagesDoNotHaveAreRefused(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Reading){
		func(r *Reading) { r.Label, r.Tags = ScoreLabel, "" },
		func(r *Reading) { r.Unlabelled = true },
		func(r *Reading) { r.Tags = "" },
		func(r *Reading) { r.Label = "" },
		func(r *Reading) { r.Sequence = 3 },
	} {
		r := taggedImages
		change(&r)
		if err := r.check(); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	if err := taggedImages.check(); err != nil {
		t.Error(err)
	}
}
