package datasets

import (
	"slices"
	"testing"
)

func TestVocabularyOrdersByFrequencyThenWord(t *testing.T) {
	t.Parallel()
	words := []string{"pear", "fig", "apple", "never", "plum"}
	got := mostFrequent(words, []int64{2, 5, 2, 0, 1}, 4)
	if want := []uint32{1, 2, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
