package checkpoints

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/tasks"
)

// ClipBlob travels with the checkpoints of a training with adaptive clipping: the
// clip norm of the next round, as JSON.
const ClipBlob = "clip"

// ReadClip returns the clip norm of the task's round, which the round before has
// chosen; the first has the initial one.
func ReadClip(ctx context.Context, t *tasks.Task, initial float64) (clip float64, err error) {
	if t.Step <= 1 {
		return initial, nil
	}
	err = t.InputJSON(ctx, tasks.PreviousInput, ClipBlob, &clip)
	return clip, err
}

// WriteClip stores the clip norm of the next round.
func WriteClip(ctx context.Context, t *tasks.Task, clip float64) error {
	data, err := json.Marshal(clip)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("clip norm after round %d: %w", t.Step, err))
	}
	return t.Put(ctx, ClipBlob, data)
}
