package readable_test

import (
	"testing"

	"coalmine/internal/readable"
)

func TestBriefShortensToOneLine(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"no such file":   "no such file",
		"no such file\n": "no such file\n",
		"it ended; its last lines:\n  Traceback:\n    import x\r\n  ModuleNotFoundError: No module named 'x'\n": "it ended; its last lines: ... ModuleNotFoundError: No module named 'x'",
	} {
		if got := readable.Brief(message); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
