package main

import (
	"testing"

	"coalmine/workflows/runs"
	"coalmine/workflows/status"
)

func TestAStatusTellsNoRoundOfWhichItKnowsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status status.Cell
		want   string
	}{
		{status.Cell{Phase: runs.Queued, Steps: 30, StepRounds: 10}, ", step 0 of 300"},
		{status.Cell{Phase: runs.Running, Step: 4, Steps: 30, StepRounds: 10, Now: "step 5"}, ", step 40 of 300: step 5"},
		{status.Cell{Phase: runs.Failed, Steps: 30, StepRounds: 10}, ""},
		{status.Cell{Phase: runs.Failed, Step: 4, Steps: 30}, ", round 4 of 30"},
		{status.Cell{Phase: runs.Done, Step: 30, Steps: 30}, ""},
	} {
		if got := cellProgress(c.status); got != c.want {
			t.Errorf("%s, step %d: %q, want %q", c.status.Phase, c.status.Step, got, c.want)
		}
	}
}
