package main

import (
	"testing"
	"time"
)

func TestAgesAreReadInDaysToo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "0d": 0, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "0s": 0, "36500d": 36500 * 24 * time.Hour,
	} {
		var got age
		if err := got.Set(text); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v: want %v", text, time.Duration(got), err, want)
		}
		var again age
		if err := again.Set(got.String()); err != nil || again != got {
			t.Errorf("%s is printed as %s: %v", text, &got, err)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "-3h", "40000d", "99999999999999999999d", "1w", "30"} {
		if got := age(-1); got.Set(text) == nil || got != -1 {
			t.Errorf("%q is read as %v", text, time.Duration(got))
		}
	}
}
