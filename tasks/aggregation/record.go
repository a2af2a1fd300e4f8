package aggregation

import (
	"context"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/updates"
)

// keepUpdates stores the shards of a recorded round's chunks with the checkpoint. A power cut may
// lose them, like the originals; a replay of the round restores them.
func (p *ServerParams) keepUpdates(ctx context.Context, t *tasks.Task) error {
	if !p.Record.Has(t.Step) {
		return nil
	}
	for j := range p.Chunks {
		if err := t.KeepRecomputable(ctx, tasks.PartInput(j), updates.ShardBlob(0), updates.ShardBlob(j)); err != nil {
			return err
		}
	}
	return nil
}

// keepNone stores empty shards for a recorded round that is not used.
func (p *ServerParams) keepNone(ctx context.Context, t *tasks.Task, n models.Network) error {
	if !p.Record.Has(t.Step) {
		return nil
	}
	for j := range p.Chunks {
		none, err := p.Record.NewRecorder(n, p.Seed, 0)
		if err != nil {
			return err
		}
		if err := t.PutRecomputable(ctx, updates.ShardBlob(j), none.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
