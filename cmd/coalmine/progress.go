package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"coalmine/workflows/coordinator"
	"coalmine/workflows/runs"
)

// showProgress follows the statuses of a run until they end: bars on a
// terminal, lines elsewhere. What went wrong is said at the end in both.
func (g *global) showProgress(ctx context.Context, statuses <-chan *coordinator.Status) error {
	var display display = &lineDisplay{note: g.note}
	if f, ok := g.terminal(); ok {
		display = newBarDisplay(f)
	}
	var last *coordinator.Status
	for s := range statuses {
		display.show(s)
		last = s
	}
	display.end()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if last == nil || !last.Phase.Finished() {
		return fmt.Errorf("the connection to the run was lost; see how it stands with: coalmine status")
	}
	if last.Error != "" {
		g.note("failed: %s", last.Error)
	}
	for _, f := range last.Failures {
		g.note("failed: %s (cells %s): %s", f.Label, strings.Join(f.Cells, ", "), f.Error)
	}
	return nil
}

// terminal is where people watch, if they do.
func (g *global) terminal() (*os.File, bool) {
	f, ok := g.stderr.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && !g.json
}

// display shows how a run goes on.
type display interface {
	show(*coordinator.Status)
	end()
}

// linesEvery is how often a line is printed at least while something goes on.
const linesEvery = 10 * time.Second

// lineDisplay prints a line when a cell changes its state, and now and then.
type lineDisplay struct {
	note    func(format string, args ...any)
	printed time.Time
	phases  map[string]runs.Phase
	reasons string
}

func (d *lineDisplay) show(s *coordinator.Status) {
	if d.phases == nil {
		d.phases, d.printed = map[string]runs.Phase{}, time.Now()
	}
	for _, c := range s.Cells {
		if d.phases[c.Cell] != c.Phase && c.Phase != runs.Queued {
			d.note("%s %s: %s", c.Cell, c.Phase, c.Label)
		}
		d.phases[c.Cell] = c.Phase
	}
	if reasons := strings.Join(s.Reasons, "; "); reasons != d.reasons {
		d.reasons = reasons
		if reasons != "" && !s.Phase.Finished() {
			d.note("waiting: %s", reasons)
		}
	}
	if time.Since(d.printed) < linesEvery || s.Phase.Finished() {
		return
	}
	d.printed = time.Now()
	d.note("%s", summary(s))
}

func (d *lineDisplay) end() {}

// summary is one line: cells, rounds, tokens a second, time left.
func summary(s *coordinator.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cells %s", cellCounts(s))
	for _, c := range s.Cells {
		if c.Phase == runs.Running && c.Steps > 0 {
			each := max(1, c.StepRounds)
			fmt.Fprintf(&b, ", %s round %d/%d", c.Cell, c.Step*each, c.Steps*each)
		}
	}
	if s.TokensPerSecond > 0 {
		fmt.Fprintf(&b, ", %.0f tokens/s", s.TokensPerSecond)
	}
	if left := timeLeft(s); left != "-" {
		fmt.Fprintf(&b, ", %s left", left)
	}
	return b.String()
}

// barDisplay keeps one bar a cell on a terminal.
type barDisplay struct {
	progress *mpb.Progress
	bars     map[string]*mpb.Bar
	now      map[string]*atomic.Value // what runs for a cell
	total    atomic.Value             // the line below the bars
	totalBar *mpb.Bar
}

func newBarDisplay(f *os.File) *barDisplay {
	return &barDisplay{
		progress: mpb.New(mpb.WithOutput(f), mpb.WithWidth(30), mpb.WithRefreshRate(200*time.Millisecond)),
		bars:     map[string]*mpb.Bar{},
		now:      map[string]*atomic.Value{},
	}
}

func (d *barDisplay) show(s *coordinator.Status) {
	if d.totalBar == nil {
		d.begin(s)
	}
	for _, c := range s.Cells {
		if bar := d.bars[c.Cell]; bar != nil {
			d.showCell(bar, c)
		}
	}
	text := summary(s)
	if waits := waitsFor(s); waits != "-" {
		text += ", waiting: " + waits
	}
	d.total.Store(text)
}

// showCell moves a cell's bar, which counts rounds. It is one short of full
// until the cell has been measured too.
func (d *barDisplay) showCell(bar *mpb.Bar, c coordinator.CellStatus) {
	rounds := int64(max(1, c.Steps*max(1, c.StepRounds)))
	now, at := c.Now, min(int64(c.Step*max(1, c.StepRounds)), rounds-1)
	switch c.Phase {
	case runs.Done:
		now, at = "done", rounds
	case runs.Failed:
		now = "failed"
	}
	bar.SetTotal(rounds, false)
	bar.SetCurrent(at)
	d.now[c.Cell].Store(now)
}

func (d *barDisplay) begin(s *coordinator.Status) {
	for _, c := range s.Cells {
		now := new(atomic.Value)
		now.Store("")
		d.now[c.Cell] = now
		d.bars[c.Cell] = d.progress.AddBar(0,
			mpb.PrependDecorators(decor.Name(fmt.Sprintf("%s %s ", c.Cell, c.Label), decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersNoUnit("%d/%d "), decor.Any(text(now))))
	}
	d.totalBar = d.progress.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(text(&d.total))))
}

// text shows a value that another goroutine sets.
func text(v *atomic.Value) decor.DecorFunc {
	return func(decor.Statistics) string {
		s, _ := v.Load().(string)
		return s
	}
}

func (d *barDisplay) end() {
	for _, bar := range d.bars {
		bar.Abort(false)
	}
	if d.totalBar != nil {
		d.totalBar.Abort(false)
	}
	d.progress.Wait()
}
