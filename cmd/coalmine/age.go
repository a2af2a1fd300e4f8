package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// age is a flag for durations in days, such as 30d, or in the forms of time.ParseDuration.
type age time.Duration

// maxDays keeps an age within the range of time.Duration.
const maxDays = 100 * 365

// Set implements pflag.Value.
func (a *age) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(n) * 24 * time.Hour
		if n > maxDays {
			err = strconv.ErrRange
		}
	}
	if err != nil || d < 0 {
		return fmt.Errorf("expected a time of 0 or more such as 90m, 12h or 30d")
	}
	*a = age(d)
	return nil
}

// String implements pflag.Value.
func (a *age) String() string {
	const day = 24 * time.Hour
	d := time.Duration(*a)
	if d == 0 {
		return "0"
	}
	if d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// Type implements pflag.Value; the help shows it.
func (a *age) Type() string { return "duration" }
