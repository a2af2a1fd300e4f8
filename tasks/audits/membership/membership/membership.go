// Package membership tells from a model whether a user's data were trained on (membership
// inference, for whole users): users that trained against data.held_out_users, by how well the
// model predicts their text.
//
//	audits/user-losses   the loss of a model on each user of one share of them
//	audits/membership    the outcomes of attacks, with and without reference models
//
// A reference model is a training of the cell's recipe on half of all users, drawn by
// datasets/reference-users. Cells that differ in the audit or in canaries alone share them.
package membership

import (
	"context"
	"fmt"
	"math"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets"
)

// LossesBlob is a JSON array of UserLoss: of the balanced users that train, by index, and then of
// those held out.
const LossesBlob = "losses"

// UserLoss is the loss of a model on the examples that a user trains on and no canary replaced, or on
// all examples of a held-out user.
type UserLoss struct {
	// Targets were predicted: tokens of texts with their ends, or labels of images. An external model
	// predicts words alone.
	Targets int64 `json:"targets"`
	// Loss is the sum over them, in nats.
	Loss float64 `json:"loss"`
	// Member says that the user trained. Replaced counts the examples that are canaries.
	Member   bool `json:"member,omitempty"`
	Replaced int  `json:"replaced,omitempty"`
}

// Losses measures a model on the users of a share; ScoredLosses does by an external model. Inputs:
// audits.ModelInput, datasets.BalancedInput, datasets.PartsInput, and datasets.InsertionsInput if
// there are canaries.
var (
	Losses       = tasks.Kind{Name: "audits/user-losses", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runLosses)}
	ScoredLosses = tasks.Kind{Name: "audits/user-losses-by-scores", Version: 1, Class: tasks.Compute, Command: true, Run: tasks.WithParams(runLosses)}
)

func runLosses(ctx context.Context, t *tasks.Task, p *utility.UserShare) error {
	members, err := datasets.OpenBalanced(ctx, t, datasets.BalancedInput, datasets.PartsInput, false)
	if err != nil {
		return err
	}
	heldOut, err := datasets.OpenBalanced(ctx, t, datasets.BalancedInput, datasets.PartsInput, true)
	if err != nil {
		return err
	}
	n := members.Users()
	return utility.MeasureUsers(ctx, t, p, LossesBlob, n+heldOut.Users(), func(evaluate utility.Evaluator, user int) (UserLoss, error) {
		if user >= n {
			return lossOf(ctx, evaluate, heldOut, user-n)
		}
		loss, err := lossOf(ctx, evaluate, members, user)
		loss.Member = true
		return loss, err
	})
}

func lossOf(ctx context.Context, evaluate utility.Evaluator, users *datasets.Population, user int) (UserLoss, error) {
	examples, replaced, err := users.ReadOwn(ctx, user)
	if err != nil || len(examples) == 0 {
		return UserLoss{Replaced: replaced}, err
	}
	found, err := evaluate(examples)
	if err != nil {
		return UserLoss{}, fmt.Errorf("user %d: %w", user, err)
	}
	tally := found.All
	if tally.Tokens == 0 { // a program counts ordinary words alone
		tally = found.Counted
	}
	return UserLoss{Targets: tally.Tokens, Loss: tally.Loss, Replaced: replaced}, nil
}

type Params struct {
	// Shares of the users, each measured by a task.
	Shares int `json:"shares"`
	// References is the number of reference models, and Seed that of their users and of intervals.
	References int    `json:"references,omitempty"`
	Seed       uint64 `json:"seed,omitempty"`
}

// ReferenceInput names a share of a reference model's losses.
func ReferenceInput(model, share int) string {
	return fmt.Sprintf("reference-%d-%s", model, tasks.PartInput(share))
}

// Kind attacks a model. Its inputs are audits/user-losses of the model, by tasks.PartInput, and of the
// reference models, by ReferenceInput. Its blob is audits.OutcomeBlob.
var Kind = tasks.Kind{Name: "audits/membership", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(run)}

func run(ctx context.Context, t *tasks.Task, p *Params) error {
	if n := p.References; n < 0 || n%2 == 1 || n > 0 && n < leastReferences {
		return tasks.Permanent(fmt.Errorf("%d reference models; expected 0, or an even number from %d", n, leastReferences))
	}
	losses, err := readLosses(ctx, t, p.Shares, tasks.PartInput)
	if err != nil {
		return err
	}
	w := newWorld(losses, p.Seed)
	for model := range p.References {
		name := func(share int) string { return ReferenceInput(model, share) }
		losses, err := readLosses(ctx, t, p.Shares, name)
		if err != nil {
			return err
		}
		if err := w.refer(losses, datasets.ReferenceParams{Seed: p.Seed, Model: model}.Drawn(len(losses))); err != nil {
			return tasks.Permanent(fmt.Errorf("reference model %d: %w", model, err))
		}
	}
	v, err := w.outcome()
	if err != nil {
		return tasks.Permanent(err)
	}
	return t.PutJSON(ctx, audits.OutcomeBlob, v)
}

func readLosses(ctx context.Context, t *tasks.Task, shares int, input func(share int) string) ([]UserLoss, error) {
	var inputs []string
	for share := range shares {
		inputs = append(inputs, input(share))
	}
	losses, err := audits.ReadLists[UserLoss](ctx, t, LossesBlob, inputs...)
	if err != nil {
		return nil, err
	}
	for user, l := range losses {
		if math.IsNaN(l.Loss) || math.IsInf(l.Loss, 0) {
			return nil, tasks.Permanent(fmt.Errorf("user %d has the loss %v by %s; expected a finite number: the model has diverged", user, l.Loss, input(0)))
		}
	}
	return losses, nil
}
