package main

import (
	"fmt"
	"slices"
	"testing"

	"coalmine/workflows/runs"
	"coalmine/workflows/status"
)

// What was measured is said once, and nothing is asked for while no cell trains.
func TestLinesTellWhatWasMeasured(t *testing.T) {
	t.Parallel()
	var notes []string
	measured, asked := map[string]string{"c01": "so far: round 3 of 9: perplexity 97.0"}, 0
	d := &lineDisplay{
		note:     func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) },
		measured: func(string) map[string]string { asked++; return measured },
	}
	training := &status.Run{Cells: []status.Cell{{Cell: "c01", Phase: runs.Running}, {Cell: "c02", Phase: runs.Queued}}}
	d.tell(&status.Run{Cells: []status.Cell{{Cell: "c01", Phase: runs.Queued}}})
	d.tell(training)
	d.tell(training)
	measured = map[string]string{"c01": "so far: round 6 of 9: perplexity 94.0"}
	d.tell(training)
	if want := []string{"c01 so far: round 3 of 9: perplexity 97.0", "c01 so far: round 6 of 9: perplexity 94.0"}; !slices.Equal(notes, want) || asked != 3 {
		t.Errorf("after %d questions the lines are %q, want %q", asked, notes, want)
	}
}
