package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks/external"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
)

// ToldRounds is the last round that a cell's training program reported.
type ToldRounds struct {
	Round int64 `json:"round"`
	// Of is training.rounds.
	Of int `json:"of"`
}

// readToldRounds returns the last round that the training of a cell reported, nil if it is the last of the
// experiment, or unknown.
func readToldRounds(ctx context.Context, archive *storage.Archive, e *experiment.Experiment, planned *plan.Cell) (*ToldRounds, error) {
	if e.Training.Algorithm != experiment.External {
		return nil, nil
	}
	commit, err := archive.Committed(ctx, planned.Model.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	var m external.Metrics
	if err == nil {
		err = json.Unmarshal(commit.Metrics, &m)
	}
	before := m.Rows > 0 && m.LastRound == 0 // records older than LastRound
	if err != nil || before || m.LastRound >= int64(e.Training.Rounds) {
		return nil, err
	}
	return &ToldRounds{m.LastRound, e.Training.Rounds}, nil
}

// String returns a note for the table.
func (t *ToldRounds) String() string {
	if t.Round == 0 {
		return fmt.Sprintf("the program reported no round in out/metrics.jsonl, of training.rounds: %d", t.Of)
	}
	return fmt.Sprintf("the last round that the program reported in out/metrics.jsonl is %d, of training.rounds: %d", t.Round, t.Of)
}
