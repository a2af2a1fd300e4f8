package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"coalmine/workflows/results"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

func TestStatusFromStorageReportsAge(t *testing.T) {
	t.Parallel()
	s := &status.Run{Cells: []status.Cell{{Cell: "c01", Phase: runs.Running, Unit: "round", Step: 5, Steps: 9}}, FromStorage: true}
	if got, want := summary(s), "cells 0/1, c01 round 5/9, read from storage, which has no outputs yet"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.LastProgress = time.Now().Add(-3 * time.Hour)
	var detail strings.Builder
	writeStatus(&detail, s)
	for _, got := range []string{summary(s), detail.String()} {
		if !strings.Contains(got, "read from storage, as of "+s.LastProgress.Format(time.DateTime)+": 3h0m") {
			t.Errorf("got %q, want the age of three hours", got)
		}
	}
}

func TestProgressLineNamesWaitReason(t *testing.T) {
	t.Parallel()
	s := &status.Run{
		Cells: []status.Cell{{Cell: "c01", Phase: runs.Running, Unit: "round", Step: 5, Steps: 9}},
		Waits: []status.Wait{{Reason: status.WaitSpace, Detail: "the store is full"}, {Reason: status.WaitRetry, Detail: "c01"}},
	}
	if got, want := summary(s), "cells 0/1, c01 round 5/9, waiting: the store is full (and 1 more)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A measurement is printed once, and none is asked for while no cell trains.
func TestProgressLinesPrintMeasurementsOnce(t *testing.T) {
	t.Parallel()
	var notes []string
	measured, asked := map[string]results.Latest{"c01": {At: "round 3 of 9", Numbers: "perplexity 97.0"}}, 0
	d := &lineDisplay{
		note:     func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) },
		measured: func(string) map[string]results.Latest { asked++; return measured },
	}
	training := &status.Run{Cells: []status.Cell{{Cell: "c01", Phase: runs.Running}, {Cell: "c02", Phase: runs.Queued}}}
	d.tell(&status.Run{Cells: []status.Cell{{Cell: "c01", Phase: runs.Queued}}})
	d.tell(training)
	d.tell(training)
	measured = map[string]results.Latest{"c01": {At: "round 6 of 9", Numbers: "perplexity 94.0"}}
	d.tell(training)
	if want := []string{"c01 so far: round 3 of 9: perplexity 97.0", "c01 so far: round 6 of 9: perplexity 94.0"}; !slices.Equal(notes, want) || asked != 3 {
		t.Errorf("after %d questions the lines are %q, want %q", asked, notes, want)
	}
}

func TestProgressLinesNameRunningCellOnce(t *testing.T) {
	t.Parallel()
	var notes []string
	d := &lineDisplay{note: func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }}
	for _, phase := range []runs.Phase{runs.Queued, runs.Running, runs.Queued, runs.Running, runs.Failed, runs.Running, runs.Done} {
		d.show(&status.Run{Cells: []status.Cell{{Cell: "c01", Phase: phase, Label: "iid"}}})
	}
	if want := []string{"c01 running: iid", "c01 failed: iid", "c01 running: iid", "c01 done: iid"}; !slices.Equal(notes, want) {
		t.Errorf("the lines are %q, want %q", notes, want)
	}
}
