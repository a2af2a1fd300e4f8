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
func ReadClip(ctx context.Context, t *tasks.Task, initial float64) (float64, error) {
	if t.Step <= 1 {
		return initial, nil
	}
	data, err := t.Blob(ctx, tasks.PreviousInput, ClipBlob)
	if err != nil {
		return 0, err
	}
	var clip float64
	if err := json.Unmarshal(data, &clip); err != nil {
		return 0, tasks.Permanent(fmt.Errorf("clip norm of round %d: %w", t.Step, err))
	}
	return clip, nil
}

// WriteClip stores the clip norm of the next round.
func WriteClip(ctx context.Context, t *tasks.Task, clip float64) error {
	data, err := json.Marshal(clip)
	if err != nil {
		return tasks.Permanent(fmt.Errorf("clip norm after round %d: %w", t.Step, err))
	}
	return t.Put(ctx, ClipBlob, data)
}
