package source

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

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
