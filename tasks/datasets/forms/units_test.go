package forms

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// splitWhole splits a text that is in memory, in the obvious way.
func splitWhole(text string, unit Unit, longest int) (all []string) {
	var open []string
	first, long := 0, false
	flush := func() {
		if joined := strings.Join(open, " "); long || len(joined) > longest {
			all = append(all, fmt.Sprint(first, " too long"))
		} else if joined != "" {
			all = append(all, fmt.Sprint(first, " ", joined))
		}
		open, long = nil, false
	}
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimSpace(line)
		if unit == Lines || unit == Paragraphs && line == "" {
			flush()
		}
		if line != "" {
			if len(open) == 0 {
				first = i + 1
			}
			open = append(open, line)
		}
	}
	flush()
	return all
}

func TestExamplesMatchInMemorySplit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "bc ", "\n", "\r\n", "\n\n", " ", "\ufeff", "é", "\xff", strings.Repeat("long", 20), strings.Repeat("longer", 1000)}), 0, 30).Draw(t, "pieces"), "")
		unit := rapid.SampledFrom([]Unit{Lines, Paragraphs, WholeFiles}).Draw(t, "unit")
		longest := rapid.SampledFrom([]int{8, 100, 5000, 1 << 20}).Draw(t, "longest")
		var got []string
		for e, err := range Examples(iotest.OneByteReader(strings.NewReader(text)), unit, longest) {
			switch {
			case err != nil:
				t.Fatal(err)
			case e.TooLong:
				got = append(got, fmt.Sprint(e.Line, " too long"))
			default:
				got = append(got, fmt.Sprint(e.Line, " ", string(e.Text)))
			}
		}
		if want := splitWhole(text, unit, longest); !slices.Equal(got, want) {
			t.Errorf("%q by %s of %d bytes: %q, want %q", text, unit, longest, got, want)
		}
	})
}

func TestExamplesReportReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var got error
	for _, err := range Examples(iotest.ErrReader(broken), Lines, 100) {
		got = err
	}
	if !errors.Is(got, broken) {
		t.Errorf("%v", got)
	}
}
