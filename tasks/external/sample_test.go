package external

import (
	"strings"
	"testing"
)

// A program may rely on the length at which texts are cut, and one that is measured by longer texts fails
// or is called too slow.
func TestMadeUpTextsAreNoLongerThanThoseOfTheData(t *testing.T) {
	t.Parallel()
	words := Sample{Words: []string{"a", "bb", "ccc"}, Length: 95, MaxWords: 150}
	bytes := Sample{Words: []string{"a", "\\x00"}, Length: 95, MaxWords: 150, Symbols: true}
	longest := 0
	for i := range 20 {
		longest = max(longest, len(strings.Fields(words.text(i))), len(bytes.text(i)))
	}
	if longest != 150 {
		t.Errorf("the longest text has %d words or bytes, want 150", longest)
	}
}
