package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"coalmine/internal/readable"
	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

// showProgress follows the statuses of a run until they end: bars on a terminal, lines elsewhere.
// Both show the reason for a cell's failure, and measurements during training.
func (g *global) showProgress(ctx context.Context, api control.API, statuses <-chan *status.Run) error {
	measured := func(run string) map[string]results.Latest { return measuredSoFar(ctx, api, run) }
	var display display = &lineDisplay{note: g.note, measured: measured}
	if f, ok := g.terminal(); ok {
		_, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			rows = 24
		}
		bars := newBarDisplay(f, rows)
		bars.measured = measured
		g.bars.Store(bars.progress)
		defer g.bars.Store(nil)
		display = bars
	}
	var last *status.Run
	for s := range statuses {
		display.show(s)
		last = s
	}
	display.end()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if last == nil || !last.Phase.Finished() {
		if last != nil && removed(ctx, api, last.Run) {
			return removedError(last.Run)
		}
		return fmt.Errorf("lost the connection to the run; see its state with: coalmine status")
	}
	if last.Error != "" {
		g.note("failed: %s", last.Error)
	}
	if last.Phase == runs.Cancelled {
		g.note("%s was cancelled; its results so far are kept, and coalmine resume %[1]s continues it", last.Run)
	}
	return nil
}

// removed reports whether a run no longer exists. Status also finds a run by a prefix of its id, and then
// answers with another id.
func removed(ctx context.Context, api control.API, run string) bool {
	found, err := api.Status(ctx, run)
	return errors.Is(err, control.ErrNoRun) || err == nil && found.Run != run
}

func removedError(run string) error {
	return fmt.Errorf("run %s was removed while this command followed it; submit its experiment again to compute it", run)
}

// measuredSoFar returns the last measurements of a run's cells in training, by cell name; nil if
// they cannot be read.
func measuredSoFar(ctx context.Context, api control.API, run string) map[string]results.Latest {
	r, err := api.Results(ctx, run)
	if err != nil {
		return nil
	}
	latest, err := r.InterimMeasurements()
	if err != nil {
		return nil
	}
	return latest
}

// terminal returns the terminal for progress, if there is one.
func (g *global) terminal() (*os.File, bool) {
	f, ok := g.stderr.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && !g.json
}

// display shows the progress of a run.
type display interface {
	show(*status.Run)
	end()
}

// linesEvery is the maximum interval between lines while cells run.
const linesEvery = 10 * time.Second

// lineDisplay prints a line when a cell changes its state, and periodically.
type lineDisplay struct {
	note    func(format string, args ...any)
	printed time.Time
	phases  map[string]runs.Phase
	reasons []string // reasons already printed
	// measured returns the measurements of a run's cells in training, by cell name; latest is its
	// last result.
	measured func(run string) map[string]results.Latest
	latest   map[string]results.Latest
}

func (d *lineDisplay) show(s *status.Run) {
	if d.phases == nil {
		d.phases, d.printed = map[string]runs.Phase{}, time.Now()
	}
	for _, c := range s.Cells {
		if c.Phase == runs.Queued || c.Phase == runs.Cancelled || d.phases[c.Cell] == c.Phase {
			continue // a running cell is queued again between its tasks
		}
		d.note("%s", cellLine(s, c))
		d.phases[c.Cell] = c.Phase
	}
	for _, reason := range s.Reasons {
		if !slices.Contains(d.reasons, reason) && !s.Phase.Finished() {
			d.note("waiting: %s", readable.Text(readable.Brief(reason)))
		}
	}
	d.reasons = s.Reasons
	if time.Since(d.printed) < linesEvery || s.Phase.Finished() {
		return
	}
	d.printed = time.Now()
	d.note("%s", summary(s))
	d.tell(s)
}

// tell prints new measurements of the running cells.
func (d *lineDisplay) tell(s *status.Run) {
	if !anyRuns(s) {
		return
	}
	now := d.measured(s.Run)
	for _, c := range s.Cells {
		if latest, there := now[c.Cell]; there && latest != d.latest[c.Cell] {
			d.note("%s %s", c.Cell, latest)
		}
	}
	d.latest = now
}

// anyRuns reports whether a cell is running.
func anyRuns(s *status.Run) bool {
	return slices.ContainsFunc(s.Cells, func(c status.Cell) bool { return c.Phase == runs.Running })
}

func (d *lineDisplay) end() {}

// cellLine returns a text such as "c02 done: by-user, FedAvg", with the reason for a failure.
func cellLine(s *status.Run, c status.Cell) string {
	text := fmt.Sprintf("%s %s: %s", c.Cell, c.Phase, c.Label)
	for _, f := range s.Failures {
		if c.Phase == runs.Failed && slices.Contains(f.Cells, c.Cell) {
			text += fmt.Sprintf("; %s: %s", readable.Text(f.Label), readable.Text(readable.Brief(f.Error))) // the results contain the whole message
		}
	}
	return text
}

// summary formats one line: cells, time left, rate, rounds, reasons for waiting.
func summary(s *status.Run) string {
	var b strings.Builder
	b.WriteString(overall(s))
	for _, c := range s.Cells {
		if c.Phase == runs.Running && c.Steps > 0 {
			fmt.Fprintf(&b, ", %s %s %d/%d", c.Cell, c.Unit, c.Step, c.Steps)
		}
	}
	return b.String() + impediments(s)
}

// impediments names the storage that a status was read from, and the reasons for waiting; it may be
// empty.
func impediments(s *status.Run) string {
	text := ""
	if s.FromStorage {
		text = ", " + storageAge(s)
	}
	if waits := waitsFor(s); waits != "-" {
		text += ", waiting: " + waits
	}
	return text
}

// overall formats the state of the run: cells, time left, rate.
func overall(s *status.Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cells %s", cellCounts(s))
	if left := timeLeft(s); left != "-" {
		fmt.Fprintf(&b, ", %s left", left)
	}
	if rate := s.Rate(); rate != "" {
		fmt.Fprintf(&b, ", %s", rate)
	}
	return b.String()
}
