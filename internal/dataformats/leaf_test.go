package dataformats

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"coalmine/internal/must"
)

// The decoder of JSON makes two names one by replacing bytes that are not UTF-8, or half a
// character. For any chunks of the file, the reader knows of each name whether that has happened.
func TestNonUTF8NamesAreReported(t *testing.T) {
	t.Parallel()
	// Bytes that are not UTF-8 are written ~ and ^, and their replacement #.
	data := strings.NewReplacer("~", "\xff", "^", "\xe9", "#", "\ufffd").Replace(`{"users": ["x~"], "user_data": {"é#": {"x": [0], "y": [0]}, "a~": {"x": [0], "y": [0]},
		"ok": {"x": ["~"], "y": [1]}, "^": {"y": [0], "x": [0]}, "日本": {"x": [0], "y": [0]}}}`)
	data += ` {"user_data": {"\ud83d": {"x": [0], "y": [0]}, "\ud83d\ude00": {"x": [0], "y": [0]}}}`
	want := []string{"é\ufffd", "a\ufffd misnamed", "ok", "\ufffd misnamed", "日本", "\ufffd misnamed", "\U0001f600"}
	for _, file := range []io.Reader{strings.NewReader(data), iotest.OneByteReader(strings.NewReader(data)), iotest.HalfReader(strings.NewReader(data))} {
		var got []string
		for x, err := range LEAFExamples(file) {
			must.Do(t, err)
			if x.Misnamed != nil {
				x.User += " misnamed"
			}
			got = append(got, x.User)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

func TestAllObjectsOfAFileAreRead(t *testing.T) {
	t.Parallel()
	const one = `{"users": ["a"], "user_data": {"a": {"x": [1], "y": [2], "X": [3, 4]}}}`
	for _, c := range []struct {
		file, want string
		examples   int
	}{
		{one, "", 1},
		{one + one, "", 2},
		{"\ufeff" + one + "\r\n\n" + one + "\n" + one, "", 3},
		{one + ` {"users": []}`, `byte 85: there is no "user_data"`, 1},
		{one + ` {"user_data"`, "is truncated", 1},
		{one + ` x`, "byte 72: invalid character 'x'", 1},
		{one + ` []`, `byte 73: found "["; expected "{"`, 1},
		{"", "the file is empty", 0},
		{`{"user_data": {"a": {"x": [1]}}}`, `user "a" has 1 examples and 0 labels`, 0},
		{`{"user_data": {"a": {"x": [1], "x": [2], "y": [3]}}}`, `user "a": "x" stands twice`, 0},
	} {
		examples, err := 0, error(nil)
		for _, err = range LEAFExamples(strings.NewReader(c.file)) {
			if err == nil {
				examples++
			}
		}
		if examples != c.examples || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q has %d examples (%v), want %d (%s)", c.file, examples, err, c.examples, c.want)
		}
	}
}
