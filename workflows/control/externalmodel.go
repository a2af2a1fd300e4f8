package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"coalmine/storage"
	"coalmine/tasks/external"
)

// externalModel is the file that a training which is not ours calls its model, as it stands.
func (l *Local) externalModel(ctx context.Context, x *exporter, round int) ([]byte, error) {
	cell := fmt.Sprintf("run %s, cell %s", x.run.ID, x.cell.Name)
	if last := x.rounds(); round != LastRound && round != NewestRound && round != last {
		return nil, fmt.Errorf("%s: a model after round %d %w: a training that is not ours leaves the last one alone, that after round %d", cell, round, ErrInput, last)
	}
	data, err := l.archive.ReadOutput(ctx, x.cell.Final.Key, external.ResultBlob)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%s: its training has not ended: %w", cell, err)
	}
	if err != nil {
		return nil, err
	}
	var result external.Result
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", cell, err, storage.ErrCorrupt)
	}
	if result.Model == "" {
		return nil, fmt.Errorf("%s: its training has named no file as its model, only the command %q %w: expected model in out/result.json (docs/contracts/train.md)", cell, result.Score, ErrInput)
	}
	return l.archive.ReadOutput(ctx, x.cell.Final.Key, external.FileBlob(strings.TrimPrefix(result.Model, "out/")))
}
