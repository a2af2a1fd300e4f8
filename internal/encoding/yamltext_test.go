package encoding_test

import (
	"errors"
	"strings"
	"testing"

	"coalmine/internal/encoding"
)

func TestUnreadableYAMLIsRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"! {0}":                      "1:1: not YAML that can be read",
		"a: 1\nb: [":                 "2:4: not valid YAML: ",
		"a: \xff":                    "1:4: the file is not valid UTF-8",
		strings.Repeat("[", 20_000):  "nested more than 32 deep",
		strings.Repeat("\n", 20_000): "at most 10000",
	} {
		var into []struct{ A, B int }
		err := encoding.UnmarshalYAML([]byte(text), &into)
		var bad *encoding.YAMLError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "runtime") {
			t.Errorf("%.20q: got %v, want %q", text, err, want)
		}
	}
}

func TestByteOrderMarkIsSkipped(t *testing.T) {
	t.Parallel()
	var got struct{ A, B int }
	if err := encoding.UnmarshalYAML([]byte("\ufeffa: 1\r\nb: 2\r\n"), &got); err != nil || got.A != 1 || got.B != 2 {
		t.Errorf("read %v, error %v", got, err)
	}
}

// FuzzUnmarshal reads any text into lists, maps and plain values.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{"! {0}", "- {a: 1, b: [x]}", "&a [*a]", "a: &a {b: 1}\nc: {<<: *a}", "? [x]\n: y", "!!binary x", "a: |\n  b\n", "--- 1\n--- 2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list []struct {
			A int
			B *float64
			C string
		}
		var anything any
		for _, into := range []any{&list, &anything} {
			var bad *encoding.YAMLError
			if err := encoding.UnmarshalYAML([]byte(text), into); err != nil && !errors.As(err, &bad) {
				t.Errorf("%T: %v", err, err)
			}
		}
	})
}
