package experiment

import (
	"math"
	"math/big"
	"testing"
)

func TestIntervalsReadAndPrint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"(0,1]":    " above 0, at most 1",
		"[0,1)":    " from 0, below 1",
		"(0,1)":    " above 0, below 1",
		"[1,1e-3]": " from 1 to 0.001",
	} {
		if got := parseInterval(text).String(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	v := parseInterval("(0,1]")
	for x, want := range map[float64]bool{0: false, math.SmallestNonzeroFloat64: true, 1: true, math.Nextafter(1, 2): false} {
		if v.contains(new(big.Rat).SetFloat64(x)) != want {
			t.Errorf("(0,1] and %g", x)
		}
	}
}
