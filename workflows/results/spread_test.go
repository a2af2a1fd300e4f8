package results

import (
	"slices"
	"testing"
)

func TestSpreadKeepsBothEndsAndEvenDistances(t *testing.T) {
	t.Parallel()
	for length := range 60 {
		items := make([]int, length)
		for i := range items {
			items[i] = i
		}
		for n := 2; n < 40; n++ {
			got := spread(items, n)
			if len(got) != min(length, n) || length > 0 && (got[0] != 0 || got[len(got)-1] != length-1) {
				t.Fatalf("%d of %d items are %v", n, length, got)
			}
			least, most := length, 0
			for i := 1; i < len(got); i++ {
				least, most = min(least, got[i]-got[i-1]), max(most, got[i]-got[i-1])
			}
			if len(got) > 1 && (least < 1 || most > least+1) || !slices.IsSorted(got) {
				t.Fatalf("%d of %d items have distances %d to %d: %v", n, length, least, most, got)
			}
		}
	}
}
