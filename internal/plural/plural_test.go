package plural_test

import (
	"testing"

	"coalmine/internal/plural"
)

func TestANumberHasItsNoun(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"1 user": plural.Of(1, "user"), "0 users": plural.Of(0, "user"), "21 balanced users": plural.Of(21, "balanced user"),
		"2 canaries": plural.Of(int64(2), "canary"), "1 canary": plural.Of(1, "canary"), "2 days": plural.Of(2, "day"), "2 keys": plural.Of(2, "key"),
		"3 losses": plural.Of(3, "loss"), "2 batches": plural.Of(2, "batch"), "2 boxes": plural.Of(2, "box"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
