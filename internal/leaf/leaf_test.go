package leaf

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// The decoder of JSON makes two names one by replacing what is not UTF-8. However the file comes
// in, it is known of each name whether that has happened.
func TestNamesThatAreNotUTF8AreKnown(t *testing.T) {
	t.Parallel()
	// Bytes that are not UTF-8 are written ~ and ^, and what replaces them #.
	data := strings.NewReplacer("~", "\xff", "^", "\xe9", "#", "\ufffd").Replace(`{"users": ["x~"], "user_data": {"é#": {"x": [], "y": []}, "a~": {"x": [], "y": []},
		"ok": {"x": ["~"], "y": [1]}, "^": {"y": [], "x": []}, "日本": {"x": [], "y": []}}}`)
	want := []string{"é\ufffd", "a\ufffd misnamed", "ok", "\ufffd misnamed", "日本"}
	for _, file := range []io.Reader{strings.NewReader(data), iotest.OneByteReader(strings.NewReader(data)), iotest.HalfReader(strings.NewReader(data))} {
		var got []string
		err := Each(file, func(user string, data Data) error {
			if data.Misnamed {
				user += " misnamed"
			}
			got = append(got, user)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
