package source

import (
	"coalmine/internal/must"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/text"
	"strings"
	"testing"
)

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

func TestMissingLabelsNameLineAndExpectedValue(t *testing.T) {
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
		{textsWithTags, `{"user":"a","text":"so","score":4}`, `"tags" are missing`},
		{textsWithTags, `{"user":"a","text":"so","tags":"r"}`, `"tags" is a JSON string, not a list of strings`},
	} {
		good := `{"user":"a","text":"so","score":4,"tags":[],"time":1}` + "\n"
		var err error
		for _, e := range c.reading.Complete().Records(t.Context(), []File{inMemory("x.jsonl", []byte(good+c.line+"\n"))}, Limits{}) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.jsonl, line 2") {
			t.Errorf("%s: error %v, want %s", c.line, err, c.want)
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
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
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
		for _, r := range []Reading{{Label: ScoreLabel}, textsWithTags} {
			form := r.Complete().lines(nil)
			rec, err := form.record([]byte(line))
			if err != nil {
				continue
			}
			numbers, text, found := strings.Cut(rec.Text, PairMark)
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
		for _, err = range imagesWithTags.Records(t.Context(), []File{inMemory("x.jsonl", []byte(line+"\n"))}, Limits{}) {
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", line, err, want)
		}
	}
}

func TestImageReadingRejectsInvalidLabels(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Reading){
		func(r *Reading) { r.Label, r.Tags = ScoreLabel, "" },
		func(r *Reading) { r.Unlabelled = true },
		func(r *Reading) { r.Tags = "" },
		func(r *Reading) { r.Label = "" },
		func(r *Reading) { r.Sequence = 3 },
	} {
		r := imagesWithTags
		change(&r)
		if err := r.Check(); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
	if err := imagesWithTags.Check(); err != nil {
		t.Error(err)
	}
}

func FuzzALineOfAPair(f *testing.F) {
	for _, line := range []string{`{"user":"ann","text":"yes","target":"ja"}`, `{"user":"ann","text":"yes","target":"\ufffd"}`, `{"user":"ann","text":"\u00ff","target":"ÿ"}`, `{"target":`} {
		f.Add([]byte(line))
	}
	lines := pairLines(recordRules{})
	f.Fuzz(func(t *testing.T, line []byte) {
		rec, err := lines.record(line)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("%q: %v is no fault of the source", line, err)
			}
			return
		}
		content, target, both := strings.Cut(rec.Text, PairMark)
		if rec.User == "" || !both || !text.HasWord(content, false) || !text.HasWord(target, false) || strings.Contains(target, PairMark) {
			t.Fatalf("%q is read as %+v", line, rec)
		}
	})
}

var (
	textsWithTags  = Reading{Label: TagsLabel, Tags: Tags([]string{"r", "machine learning", "time"})}
	imagesWithTags = Reading{Level: text.ImageLevel, Image: images.Shape{Width: 2, Height: 1, Channels: 1, Classes: 10}, Label: TagsLabel, Tags: Tags([]string{"dog", "cat", "tree"})}
)
