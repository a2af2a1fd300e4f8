package membership

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// User holds the losses of a user under all models of an audit.
type User struct {
	UserLoss
	// Text is empty for images.
	Text       UserText
	References []ReferenceLoss
}

// ReferenceLoss is the loss of a user under a reference model, over the same targets.
type ReferenceLoss struct {
	Loss   float64
	Member bool
}

// EachUser calls do for every user, in the order of LossesBlob. The task has the inputs of Kind. Each call
// overwrites the references of the previous user.
func (p *Params) EachUser(ctx context.Context, t *tasks.Task, do func(User) error) error {
	losses, err := readLosses(ctx, t, p.Shares, tasks.PartInput)
	if err != nil {
		return err
	}
	texts := make([]UserText, len(losses))
	if p.Texts {
		if texts, err = readTexts(ctx, t, len(losses)); err != nil {
			return err
		}
	}
	drawn := make([][]bool, p.References)
	for model := range drawn {
		drawn[model] = datasets.ReferenceParams{Seed: p.Seed, Model: model}.Drawn(len(losses))
	}
	references := make([]ReferenceLoss, p.References)
	for share := range p.Shares {
		first, end := share*len(losses)/p.Shares, (share+1)*len(losses)/p.Shares
		models, err := p.readShare(ctx, t, share, end-first)
		if err != nil {
			return err
		}
		for user := first; user < end; user++ {
			for model := range references {
				references[model] = ReferenceLoss{models[model][user-first].Loss, drawn[model][user]}
			}
			if err := do(User{losses[user], texts[user], references}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Params) readShare(ctx context.Context, t *tasks.Task, share, users int) (models [][]UserLoss, err error) {
	for model := range p.References {
		losses, err := readLosses(ctx, t, 1, func(int) string { return ReferenceInput(model, share) })
		if err != nil {
			return nil, err
		}
		if len(losses) != users {
			return nil, fmt.Errorf("%s has losses of %d users; expected %d: %w", ReferenceInput(model, share), len(losses), users, storage.ErrCorrupt)
		}
		models = append(models, losses)
	}
	return models, nil
}
