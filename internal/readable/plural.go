// This file writes a number with the noun that it counts.

package readable

import (
	"fmt"
	"strings"
)

// Count formats a number with its noun: "1 user", "2 users" or "0 users"; "1 canary", "2 canaries".
func Count[N ~int | ~int64 | ~uint64](n N, noun string) string {
	if n != 1 {
		noun = Plural(noun)
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Range returns "c01 to c12", or "c01" if first equals last.
func Range(first, last string) string {
	if first == last {
		return first
	}
	return first + " to " + last
}

// Plural returns the plural of a noun.
func Plural(noun string) string {
	switch {
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "ay") && !strings.HasSuffix(noun, "ey"):
		return strings.TrimSuffix(noun, "y") + "ies"
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	}
	return noun + "s"
}

// Percent formats a probability in percent, with a digit more near 0 and 1: "34%", "8.7%", "99.8%".
func Percent(p float64) string {
	if p > 0 && p < 0.1 || p > 0.9 && p < 1 {
		return fmt.Sprintf("%.1f%%", 100*p)
	}
	return fmt.Sprintf("%.0f%%", 100*p)
}
