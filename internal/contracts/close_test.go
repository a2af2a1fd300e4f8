package contracts

import (
	"testing"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/must"
)

// closed closes a shell command line that has a tenth of a second to end after its output.
func closed(t *testing.T, line string, grace time.Duration) error {
	t.Helper()
	c := Contract{Name: "test", Version: 1}
	p := Protocol{Who: "command", Name: line, Patience: 100 * time.Millisecond, EndsWithItsInput: c.Rule("ends")}
	return must.Get(Start(t.Context(), &childprocess.Command{Args: childprocess.Shell(line), Dir: t.TempDir(), Grace: grace}, p))(t).Close()
}

// A program may close its output long before it ends, as interpreters with large libraries do. After its input ends,
// only the grace counts.
func TestGraceCountsFromEndOfInput(t *testing.T) {
	t.Parallel()
	if err := closed(t, "cat > /dev/null; exec >&-; sleep 0.5", time.Minute); err != nil {
		t.Error(err)
	}
}

// Another try may end in time; a wrong exit status is for good.
func TestLateEndIsRetryable(t *testing.T) {
	t.Parallel()
	for line, grace := range map[string]time.Duration{"cat > /dev/null; sleep 600": 100 * time.Millisecond, "cat > /dev/null; exit 3": time.Minute} {
		err, again := closed(t, line, grace), grace < time.Minute
		if err == nil || RuleOf(err).Number == 0 || Retryable(err) != again {
			t.Errorf("%s: %v, retryable %t", line, err, Retryable(err))
		}
	}
}
