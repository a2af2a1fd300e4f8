package aggregation

import (
	"context"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/updates"
)

// keepUpdates puts the shards of a recorded round's chunks beside the checkpoint. They may
// be lost by a power cut, like those that they are copies of: it takes a replay of the
// round to have them again.
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

// keepNone puts shards without updates: those of a recorded round that is not used.
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
