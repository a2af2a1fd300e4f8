package source

import (
	"bytes"
	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/population"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func TestDatabaseSplits(t *testing.T) {
	t.Parallel()
	example := func(text string) []byte { return message(1, texts("tokens", text)) }
	database := tffDatabase(t, t.TempDir(), "train", "a", example("one"), "test", "b", example("two"), "heldout", "c", []byte("not read"), "train", "a", example("three"))
	got, err := readAs(t, Reading{Origin: Origin{TestSplit: "test"}}, database)
	if err != nil || !slices.Equal(lines(got), []string{"a: one", "b: two", "a: three"}) || got[1].Part != population.Test || got[2].Part != population.Train {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEveryTableHasSplitsInAColumn(t *testing.T) {
	t.Parallel()
	type row struct {
		User   string `parquet:"user"`
		Text   string `parquet:"text"`
		Subset string `parquet:"subset"`
	}
	want := []string{"ann: one", "bob: two"}
	for form, data := range map[forms.Form][]byte{
		forms.CSV:       []byte("user,text,subset\nann,one,train\nbob,two,test\ncid,,extra\n"),
		forms.TSV:       []byte("subset\tuser\ttext\ntrain\tann\tone\ntest\tbob\ttwo\n"),
		forms.JSONLines: []byte(`{"user":"ann","text":"one","subset":"train"}` + "\n" + `{"user":"bob","text":"two","subset":"test"}`),
		forms.Parquet:   inParquetRows(t, []row{{"ann", "one", "train"}, {"bob", "two", "test"}}),
	} {
		r := subset("test", "")
		r.Form = form
		got, err := readAs(t, r, data)
		if err != nil || !slices.Equal(lines(got), want) || got[0].Part != population.Train || got[1].Part != population.Test {
			t.Errorf("%s: got %+v, %v", form, got, err)
		}
	}
}

func TestMissingSplitsAreReported(t *testing.T) {
	t.Parallel()
	plain := []byte(twoLines)
	database := tffDatabase(t, t.TempDir(), "train", "a", message(1, texts("tokens", "one")), "test", "b", []byte("not read"))
	for name, c := range map[string]struct {
		Reading
		data []byte
		says string
	}{
		"no such split":         {subset("valid", ""), subsets, `data: there is no split "valid"; expected one of "extra", "heldout", "test", "train"`},
		"of a database":         {Reading{Origin: Origin{TestSplit: "valid"}}, database, `data: there is no split "valid"; expected one of "test", "train"`},
		"a line without":        {subset("test", ""), plain, `data, line 1: "subset" is missing`},
		"JSON lines without":    {Reading{Origin: Origin{TestSplit: "test"}}, plain, "data: the file is JSON lines, which has no splits of its own; name the column"},
		"a split of JSON lines": {Reading{Origin: Origin{Split: "test"}}, plain, "data: the file is JSON lines, which has no splits of its own"},
		"a dump without":        {Reading{Origin: Origin{TestSplit: "test"}}, []byte(postsXML), "data: the file is Posts or Comments of a Stack Exchange dump"},
	} {
		var err error
		for _, err = range c.Records(t.Context(), []File{inMemory("data", c.data)}, Limits{}) {
			if err != nil {
				break
			}
		}
		if _, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	same := Origin{Split: "test", TestSplit: "test"}
	must.Say(t, same.Check(false), `the split "test" is used for two parts`)
}

func inParquetRows[T any](t *testing.T, rows []T) []byte {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, parquet.Write(&out, rows))
	return out.Bytes()
}

func subset(test, validation string) Reading {
	return Reading{Origin: Origin{Columns: forms.Columns{Split: "subset"}, TestSplit: test, ValidationSplit: validation}}
}

// subsets are lines of four splits.
var subsets = []byte(`{"user":"a","text":"one","subset":"train"}
{"user":"b","text":"two","subset":"test"}
{"user":"a","text":"three","subset":"heldout"}
{"user":"c","text":"four","subset":"extra"}
`)
