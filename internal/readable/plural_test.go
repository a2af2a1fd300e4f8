package readable_test

import (
	"testing"

	"coalmine/internal/readable"
)

func TestANumberHasItsNoun(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 user": readable.Count(1, "user"), "0 users": readable.Count(0, "user"), "21 balanced users": readable.Count(21, "balanced user"),
		"2 canaries": readable.Count(int64(2), "canary"), "1 canary": readable.Count(1, "canary"), "2 days": readable.Count(2, "day"), "2 keys": readable.Count(2, "key"),
		"3 losses": readable.Count(3, "loss"), "2 batches": readable.Count(2, "batch"), "2 boxes": readable.Count(2, "box"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
