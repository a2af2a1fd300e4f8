package queue

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestLongSilenceIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var s silence
		slow := errors.New("context deadline exceeded")
		for range 2 { // a machine that is busy for two seconds, twice
			s.note(slow, log)
			time.Sleep(2 * time.Second)
			s.note(slow, log)
			s.note(nil, log)
		}
		if out.Len() > 0 {
			t.Errorf("a short silence is told: %s", &out)
		}
		for range 60 {
			s.note(slow, log)
			time.Sleep(time.Second)
		}
		s.note(nil, log)
		want := []string{"level=WARN", "does not answer", "level=INFO", "answers again", "after=1m0s"}
		for _, w := range want {
			if strings.Count(out.String(), w) != 1 {
				t.Errorf("a minute of silence is told in %d lines with %q, want 1:\n%s", strings.Count(out.String(), w), w, &out)
			}
		}
	})
}
