package main

import (
	"bytes"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/status"
)

func TestListDistinguishesUnreadableFromFailed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	list := []*status.Run{{Run: "torn.1", Phase: runs.Failed, Unreadable: true, Error: "the record is damaged"}}
	if err := writeList(&out, list); err != nil || !strings.Contains(out.String(), "torn.1  unreadable  -") || strings.Contains(out.String(), "failed") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// A run whose process has ended is neither stuck nor running. One that no process has taken up is queued.
func TestRunWithoutProcessIsInterruptedOrQueued(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase  runs.Phase
		reason status.WaitReason
		want   string
	}{
		{runs.Running, status.WaitCoordinator, "interrupted"},
		{runs.Queued, status.WaitCoordinator, "queued"},
		{runs.Running, status.WaitStore, "running, stuck"},
	} {
		run := &status.Run{Phase: c.phase, Health: status.Stuck, Waits: []status.Wait{{Reason: c.reason}}}
		if got := stateText(run); got != c.want {
			t.Errorf("%s, waiting for %s: %q, want %q", c.phase, c.reason, got, c.want)
		}
	}
}

func TestStatusNamesGPUs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		device queue.Device
		want   string
	}{
		{queue.Device{ID: "GPU-a", Name: "NVIDIA H100 80GB HBM3", MemoryBytes: 81559 << 20, Driver: "535.104.05"}, "NVIDIA H100 80GB HBM3 (79.6 GiB, driver 535.104.05)"},
		{queue.Device{ID: "1", Driver: "535.104.05"}, "GPU 1 (driver 535.104.05)"},
		{queue.Device{ID: "MIG-a"}, "GPU MIG-a"},
	} {
		if got := deviceText(c.device); got != c.want {
			t.Errorf("%+v: %q, want %q", c.device, got, c.want)
		}
	}
}

func TestStatusOmitsUnknownRounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status status.Cell
		want   string
	}{
		{status.Cell{Phase: runs.Queued, Steps: 285, Unit: plan.Step}, ", step 0 of 285"},
		{status.Cell{Phase: runs.Running, Step: 200, Steps: 285, Unit: plan.Step, Now: "last SGD steps"}, ", step 200 of 285: last SGD steps"},
		{status.Cell{Phase: runs.Failed, Steps: 30}, ""},
		{status.Cell{Phase: runs.Failed, Step: 4, Steps: 30, Unit: plan.Round}, ", round 4 of 30"},
		{status.Cell{Phase: runs.Done, Step: 30, Steps: 30}, ""},
	} {
		if got := cellProgress(c.status); got != c.want {
			t.Errorf("%s, step %d: %q, want %q", c.status.Phase, c.status.Step, got, c.want)
		}
	}
}

// A list fits a terminal: a reason with its remedy stands below it, of the newest run alone.
func TestListShowsFullReasonOfNewestRun(t *testing.T) {
	t.Parallel()
	waiting := func(run string) *status.Run {
		return &status.Run{Run: run, Waits: []status.Wait{{Reason: status.WaitCoordinator, Detail: "no process works on it; start one"}}}
	}
	var out bytes.Buffer
	must.Do(t, writeList(&out, []*status.Run{waiting("b-2"), waiting("a-1")}))
	if lines := strings.Split(out.String(), "\n"); len(lines) != 5 || !strings.HasSuffix(lines[2], " no process works on it") || lines[3] != "b-2 waits: no process works on it; start one" {
		t.Errorf("list:\n%s", &out)
	}
}
