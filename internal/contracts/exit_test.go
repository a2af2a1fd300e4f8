package contracts

import (
	"errors"
	"fmt"
	"testing"

	"coalmine/internal/childprocess"
)

// Programs that end alike have equal messages after any number of requests. An end by a signal has no message, nor has
// the exit status by which a shell reports the signal of its child.
func TestExitMessageOmitsRequestCounts(t *testing.T) {
	t.Parallel()
	said := errors.New("it ended with exit status 3")
	after := func(how error, unanswered, asked int64) error {
		return fmt.Errorf("canary 2: %w; it said nothing", &EndedError{how, unanswered, asked})
	}
	first, second := Exit(after(said, 2, 57)), Exit(after(said, 1, 9))
	if want := "canary 2: it ended with exit status 3; it said nothing"; first != want || second != want {
		t.Errorf("messages %q and %q, want %q", first, second, want)
	}
	for _, err := range []error{said, after(&childprocess.ExitError{Status: -1}, 2, 57), after(&childprocess.ExitError{Status: 137}, 2, 57)} {
		if got := Exit(err); got != "" {
			t.Errorf("%v: message %q, want none", err, got)
		}
	}
}
