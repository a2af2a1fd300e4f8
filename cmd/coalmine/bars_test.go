package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"

	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// watched is a grid of 30 cells: one is done, one has failed, and the others work.
func watched() *status.Run {
	s := &status.Run{Run: "grid-1", Phase: runs.Running, Failures: []status.Failure{{
		Failure: runs.Failure{Label: "round 2, part 1 of 2", Error: "training diverged", Cells: []string{"c02"}},
	}}}
	for i := 1; i <= 30; i++ {
		s.Cells = append(s.Cells, status.Cell{
			Cell: fmt.Sprintf("c%02d", i), Label: "by-user, training.client.learning_rate=0.5, training.server.optimizer=adam",
			Phase: runs.Running, Step: 3, Steps: 40, StepRounds: 1, Now: "round 4, part 1 of 2",
		})
	}
	s.Cells[0].Phase, s.Cells[1].Phase = runs.Done, runs.Failed
	left := 90.0
	s.SecondsLeft, s.TokensPerSecond = &left, 1000
	return s
}

func TestBarsFitTheTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newBarDisplay(&out, 12, mpb.WithWidth(80), mpb.WithAutoRefresh())
	d.show(watched())
	d.show(watched())
	d.end()

	text := out.String()
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "/40") && runewidth.StringWidth(line) > 80 {
			t.Errorf("%d columns: %s", runewidth.StringWidth(line), line)
		}
	}
	for _, want := range []string{
		"c03 by-user", "c10 by-user", "[>-------------] 3/40",
		"cells 1/30, 1 failed, about 1m30s left, 1000 tokens/s, 20 more to come",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "c11 by-user") {
		t.Errorf("more bars than the terminal has rows for:\n%s", text)
	}
	for _, once := range []string{"c01 done: by-user", "c02 failed: by-user", "; round 2, part 1 of 2: training diverged\n"} {
		if n := strings.Count(text, once); n != 1 {
			t.Errorf("%q is said %d times, want once:\n%s", once, n, text)
		}
	}
}

func TestBarShowsLatestMeasurement(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := newBarDisplay(&out, 12, mpb.WithWidth(200), mpb.WithAutoRefresh())
	d.measured = func(string) map[string]results.Latest {
		return map[string]results.Latest{"c03": {At: "round 2 of 40", Numbers: "perplexity 97.0"}}
	}
	d.show(watched())
	d.end()
	if want := "perplexity 97.0 (round 2 of 40)"; !strings.Contains(out.String(), want) {
		t.Errorf("lacks %q:\n%s", want, out.String())
	}
}

func TestLogLinesGoAboveTheBars(t *testing.T) {
	t.Parallel()
	var bars, stderr bytes.Buffer
	g := &global{stderr: &stderr}
	log := g.logger()
	d := newBarDisplay(&bars, 12, mpb.WithWidth(80), mpb.WithAutoRefresh())
	g.bars.Store(d.progress)
	d.show(watched())
	log.Warn("a worker is late", slog.String("worker", "w1"))
	d.end()
	if !strings.Contains(bars.String(), "a worker is late") || stderr.Len() > 0 {
		t.Errorf("with bars: %q above them, %q beside them", bars.String(), stderr.String())
	}
	g.bars.Store(nil)
	log.Warn("the run has ended")
	if !strings.Contains(stderr.String(), "the run has ended") {
		t.Errorf("without bars: %q on standard error", stderr.String())
	}
}
