package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
)

// scored are the rows of three forms with a score and a time.
func scored(t *testing.T, score, time string) map[Form][]byte {
	t.Helper()
	type row struct {
		User  string `parquet:"user"`
		Text  string `parquet:"text"`
		Score string `parquet:"score"`
		Time  string `parquet:"time"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file)
	must.Get(w.Write([]row{{"ann", "hello", score, time}}))(t)
	must.Do(t, w.Close())
	return map[Form][]byte{
		forms.CSV:     fmt.Appendf(nil, "user,text,score,time\nann,hello,%q,%q\n", score, time),
		forms.TSV:     fmt.Appendf(nil, "user\ttext\tscore\ttime\nann\thello\t%s\t%s\n", score, time),
		forms.Parquet: file.Bytes(),
		forms.StackExchange: fmt.Appendf(nil, "<posts>\n<row OwnerUserId=\"1\" Body=\"Hello.\" Score=\"%s\" CreationDate=\"%s\"/>\n</posts>\n",
			score, time),
	}
}

// Form is that of a file.
type Form = forms.Form

func TestNumbersAreFiniteAndDecimal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"nan", "NaN", "+Inf", "-inf", "Infinity", "1e999", "0x1p1", "0x10", "1_0", "NA", "2,5", " NaN ", "١٢", "--1", "e5"} {
		for form, data := range scored(t, text, text) {
			for _, r := range []Reading{{Label: ScoreLabel}, {Timed: true}} {
				r.Form = form
				if got, err := readAs(t, r, data); err == nil || !strings.Contains(err.Error(), " 1: ") && !strings.Contains(err.Error(), " 2: ") {
					t.Errorf("%s, %q: got %v, %v; want an error with its line", form, text, got, err)
				}
			}
			if _, err := readAs(t, Reading{Origin: Origin{Form: form}}, data); err != nil {
				t.Errorf("%s, %q where no number is needed: %v", form, text, err)
			}
		}
	}
	for _, text := range []string{"2", "+2", "2.5", ".2e1", "25E-1"} {
		for form, data := range scored(t, text, text) {
			for _, r := range []Reading{{Label: ScoreLabel}, {Timed: true}} {
				r.Form = form
				if _, err := readAs(t, r, data); err != nil {
					t.Errorf("%s, %q: %v", form, text, err)
				}
			}
		}
	}
}

// Tables pad numbers: the spaces around a score are none of it.
func TestScoresAreTrimmed(t *testing.T) {
	t.Parallel()
	for form, data := range scored(t, " 3 ", "2") {
		padded, err := readAs(t, Reading{Label: ScoreLabel, Origin: Origin{Form: form}}, data)
		plain, wrong := readAs(t, Reading{Label: ScoreLabel, Origin: Origin{Form: form}}, scored(t, "3", "2")[form])
		if err != nil || wrong != nil || !slices.Equal(lines(padded), lines(plain)) {
			t.Errorf("%s: %v (%v); without spaces %v (%v)", form, lines(padded), err, lines(plain), wrong)
		}
	}
}

func TestJSONFieldsAreReadLiterally(t *testing.T) {
	t.Parallel()
	renamed := Reading{Origin: Origin{Form: forms.JSONLines, Columns: forms.Columns{Text: "body"}}}
	for _, c := range []struct {
		reading    Reading
		line, want string
	}{
		{Reading{}, `{"user": "u0", "text": "right boat", "Text": "wrong lamp", "USER": "everyone"}`, "u0: right boat"},
		{Reading{}, `{"User": "u0", "text": "right boat"}`, `data, line 1: "user" is missing`},
		{Reading{}, `{"user": "u0", "text": "one", "text": "two"}`, `data, line 1: "text" stands twice; expected`},
		{Reading{}, `{"user": "\ud83d", "text": "one sail"}`, `data, line 1: "user" has half of a surrogate pair`},
		{Reading{}, `{"user": "\ufffd", "text": "three sails", "other": "\ud83d"}`, "\ufffd: three sails"},
		{renamed, `{"user": "u0", "body": "right", "Body": "wrong"}`, "u0: right"},
		{Reading{Label: ScoreLabel, Origin: renamed.Origin}, `{"user": "u0", "body": "right", "score": "NaN"}`, `data, line 1: "score" is "NaN"; expected a number; expected an object`},
		{renamed, `{"user": "\udcb2", "body": "right"}`, `data, line 1: "user" has half of a surrogate pair`},
		{Reading{Label: ScoreLabel}, `{"user": "a", "text": "b", "score": 1e999}`, `data, line 1: "score" is a JSON number 1e999, not one of 64 bits`},
		{Reading{Label: ScoreLabel}, `{"user": "a", "text": "b", "score": NaN}`, "data, line 1: not JSON"},
	} {
		records, err := readAs(t, c.reading, []byte(c.line))
		got := strings.Join(lines(records), "\n")
		if err != nil {
			got = strings.Replace(err.Error(), "posts", "data", 1)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.line, got, c.want)
		}
	}
}

// An unclosed quote swallows the text after it, so the number of lost rows is unknown.
func TestUnclosedQuoteIsRejectedDespiteSkipFaults(t *testing.T) {
	t.Parallel()
	rows := strings.Repeat("bob\tthe red boat\n", 5)
	for name, c := range map[string]struct{ data, want string }{
		"closed far below":    {"user\ttext\nann\thi\nann\t\"it begins\n" + rows + "ann\tends\"\n", "posts, line 3: the quote that opens in this line takes 6 lines into \"text\" that look like rows"},
		"never closed":        {"user\ttext\nann\t\"it begins\n" + rows, "posts, line 2: the quote that opens in this line is not closed"},
		"closed within a row": {"user\ttext\nann\t\"it begins\n" + rows + "ann\tsays \"so\" twice\n", "posts, line 2: the quote that opens in this line is not closed"},
		"in a second text":    {"user\ttext\n\"an\nn\"\t\"it begins\n" + rows, "posts, line 3: the quote that opens in this line is not closed"},
		"wrong number":        {"user\ttext\nann\t\"it\nbegins\"\tand more\n", "posts, line 2: 3 values; expected 2, one for each name in the first row; quote values that contain the separator"},
		"a row without end":   {"user\ttext\nann\t\"" + strings.Repeat("bob\tred\n", 1<<18), "posts, line 2: the row that begins in this line is longer than"},
	} {
		for _, skip := range []bool{false, true} {
			r := Reading{Origin: Origin{Form: forms.TSV, SkipFaults: skip}}
			if _, err := readAs(t, r, []byte(c.data)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s (skip %v): got %v, want %q", name, skip, err, c.want)
			}
		}
	}
	for name, data := range map[string]string{
		"a poem":     "user,text\nann,\"roses are red,\nviolets, blue\nsugar, sweet\nso, you\"\n",
		"some code":  "user\ttext\nann\t\"func f() {\n\treturn 1\n\treturn 2\n}\"\n",
		"two quotes": "user\ttext\nann\t\"she \"\"says\"\" so\"\n",
	} {
		r := Reading{Origin: Origin{Form: forms.CSV}}
		if strings.Contains(data, "\t") {
			r.Form = forms.TSV
		}
		if got, err := readAs(t, r, []byte(data)); err != nil || len(got) != 1 {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestColumnsOfSeveralValuesAreRejectedByName(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	type inner struct {
		Lang string `parquet:"lang"`
		Body string `parquet:"body"`
	}
	type row struct {
		User string `parquet:"user"`
		Text inner  `parquet:"text"`
	}
	w := parquet.NewGenericWriter[row](&file)
	must.Get(w.Write([]row{{"ann", inner{"en", "hello"}}}))(t)
	must.Do(t, w.Close())
	list := slices.Concat(message(1, []byte("the")), message(1, []byte("red")), message(1, []byte("boat")))
	database := tffDatabase(t, t.TempDir(), "train", "a", message(1, message(1, slices.Concat(message(1, []byte("tokens")), message(2, message(1, list))))))
	for want, data := range map[string][]byte{
		`posts: the column "text" has 2 fields, "text.lang", "text.body"; expected one value in a row`: file.Bytes(),
		`posts, row 1: the feature "tokens" has 3 values; expected one`:                                database,
	} {
		if _, err := readAs(t, Reading{}, data); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	twice := []byte("user,text,text\nann,hello,there\n")
	_, err := readAs(t, Reading{Origin: Origin{Form: forms.CSV}}, twice)
	must.Say(t, err, `there are several columns "text"`)
}

func TestWideTextIsNamedInEveryFormOfText(t *testing.T) {
	t.Parallel()
	for _, form := range []Form{"", forms.JSONLines, forms.CSV, forms.TSV, forms.StackExchange, forms.LEAF} {
		for mark, data := range [][]byte{inUTF16(`{"user":"ann","text":"hello"}`)[2:], inUTF16(`{"user":"ann","text":"hello"}`)} {
			if _, err := readAs(t, Reading{Origin: Origin{Form: form}}, data); err == nil || !strings.Contains(err.Error(), "UTF-16") {
				t.Errorf("%q, marks %d: got %v", form, mark, err)
			}
		}
	}
}

func TestErrorsHoldNoControlCharactersOfData(t *testing.T) {
	t.Parallel()
	const escape = "us\x1b[31mer\u202e"
	for form, data := range map[Form]string{
		forms.CSV: escape + ",text\na,b\n", forms.TSV: escape + "\ttext\na\tb\n", forms.StackExchange: "<posts>\n<row " + escape + "/>\n</posts>",
		forms.JSONLines: `{"user": ["` + escape + `"]}`, forms.LEAF: `{"user_data": {"` + escape + `": 1}}`,
	} {
		_, err := readAs(t, Reading{Origin: Origin{Form: form}}, []byte(data))
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("%s: got %q", form, err)
		}
	}
}

func TestCarriageReturnLineEndingsAreReported(t *testing.T) {
	t.Parallel()
	for _, form := range []Form{forms.CSV, forms.TSV} {
		for name, data := range map[string]string{
			"plain":  "user,text\rann,hello\rbob,good day\r",
			"quoted": "\"user\",\"text\"\r\"ann\",\"hello\"\r",
			"long":   "user,text\r" + strings.Repeat("ann,hello\r", 1<<18),
		} {
			if form == forms.TSV {
				data = strings.ReplaceAll(data, ",", "\t")
			}
			_, err := readAs(t, Reading{Origin: Origin{Form: form, SkipFaults: true}}, []byte(data))
			if err == nil || !strings.HasPrefix(err.Error(), "posts: lines end in carriage returns alone") {
				t.Errorf("%s, %s: got %v", form, name, err)
			}
		}
	}
	for name, lines := range map[string]int{"JSON lines": 2, "JSON lines, longer than a line may be": 1 << 16} {
		data := strings.Repeat(`{"user": "ann", "text": "hello"}`+"\r", lines)
		_, err := readAs(t, Reading{Origin: Origin{SkipFaults: true}}, []byte(data))
		if err == nil || !strings.HasPrefix(err.Error(), "posts: lines end in carriage returns alone") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// In a text, within an object, and before a line feed, a carriage return ends no line.
	object := "{\"user\": \"ann\",\r\"text\": \"x\"}\r\n{\"user\": \"ann\", \"text\": \"}\\r{\"}\r\n"
	if got, err := readAs(t, Reading{Origin: Origin{Form: forms.JSONLines}}, []byte(object)); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	data := "user,\"te\rxt\",text\r\nann,x,\"he\rllo\"\r\n"
	if got, err := readAs(t, Reading{Origin: Origin{Form: forms.CSV}}, []byte(data)); err != nil || len(got) != 1 || got[0].Text != "he\rllo" {
		t.Errorf("got %v, %v", got, err)
	}
}

func embeddingsOf(t *testing.T, text string) (*Embeddings, error) {
	open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
	return ReadEmbeddings(t.Context(), []File{{Name: "vectors.jsonl", Open: open}}, Limits{})
}

func TestAUserHasTheMeanOfItsEmbeddings(t *testing.T) {
	t.Parallel()
	e := must.Get(embeddingsOf(t, `{"user": "b", "embedding": [1, -2], "text": "other fields may be there"}
{"user": "a", "embedding": [0.5, 1e-3]}
{"user": "b", "embedding": [4, 1]}
`))(t)
	if !slices.Equal(e.Users, []string{"b", "a"}) || e.Values != 2 || !slices.Equal(e.Row(0), []float32{2.5, -0.5}) || !slices.Equal(e.Row(1), []float32{0.5, 1e-3}) {
		t.Errorf("%+v", e)
	}
}

func TestBadEmbeddingsAreNamed(t *testing.T) {
	t.Parallel()
	const good = `{"user": "a", "embedding": [1, 2]}` + "\n"
	for text, want := range map[string]string{
		``:                                       `vectors.jsonl: holds no records`,
		good + `{"user": "a"}`:                   `vectors.jsonl, line 2: "embedding" is missing; expected`,
		`{"embedding": [1]}`:                     `line 1: "user" is missing`,
		good + `{"user": "a", "embedding": [1]}`: `line 2: "embedding" has 1 numbers, and that of the first line 2`,
		`{"user": "a", "embedding": []}`:         `line 1: "embedding" is empty`,
		`{"user": "a", "embedding": [1, null]}`:  `line 1: number 2 of "embedding" is missing`,
		`{"user": "a", "embedding": [1e39]}`:     `line 1: number 1 of "embedding" is missing or too large`,
		`{"user": "a", "embedding": [1e400]}`:    `line 1: "embedding" is a JSON number 1e400`,
		`{"user": "a", "embedding": "1 2"}`:      `line 1: "embedding" is a JSON string, not a list of numbers`,
		`{"user": "a", "embedding": [` + strings.Repeat("0,", maxEmbedding) + `0]}`: `has 65537 numbers; expected at most 65536`,
	} {
		_, err := embeddingsOf(t, text)
		if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func FuzzEmbeddings(f *testing.F) {
	f.Add(`{"user": "a", "embedding": [1, 2]}` + "\n" + `{"user": "b", "embedding": [1e-300, -0]}`)
	f.Add(`{"user": "a", "embedding": [1e308]}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := embeddingsOf(t, text)
		if err != nil {
			return
		}
		for u := range e.Users {
			for _, x := range e.Row(u) {
				if x-x != 0 {
					t.Errorf("a vector has the value %v", x)
				}
			}
		}
	})
}
