// Package accuracyperuser measures the accuracy of a model for each user, and its spread, for a
// modeler without access to the data (Augenstein et al. 2020, appendix C.3, figure 5 and table 10):
//
//	audits/accuracy-per-user           hits of a model over one share of the users
//	audits/accuracy-per-user-summary   percentiles and a histogram of the users
package accuracyperuser

import (
	"context"
	"fmt"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/selection"
)

// Part is a part of the users' examples.
type Part string

// Parts of the data.
const (
	Train Part = "train" // the training data of the users, as in the paper
	Test  Part = "test"  // held out
)

func (Part) Choices() []string { return []string{string(Train), string(Test)} }

type Params struct {
	// Part is the part of the users' examples to predict.
	Part Part `json:"part"`
	utility.UserShare
}

// UsersBlob is a []selection.UserAccuracy, as JSON, in the order of users. Examples of a language model are
// its ordinary target words.
const UsersBlob = "users"

// Kind counts the correct predictions of a model for each user of a share. Scored does so for an external
// model of images.
var (
	Kind   = tasks.Kind{Name: "audits/accuracy-per-user", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(run)}
	Scored = tasks.Kind{Name: "audits/accuracy-per-user-by-scores", Version: 1, Class: tasks.Compute, Command: true, Run: tasks.WithParams(run)}
)

func run(ctx context.Context, t *tasks.Task, p *Params) error {
	examples, err := open(ctx, t, p.Part)
	if err != nil {
		return err
	}
	return utility.MeasureUsers(ctx, t, &p.UserShare, UsersBlob, examples.Users(), func(model *utility.UserModel, user int) (u selection.UserAccuracy, err error) {
		sentences, err := examples.ReadUser(ctx, user)
		if err != nil {
			return u, err
		}
		found, err := model.Evaluate(sentences)
		if err != nil {
			return u, fmt.Errorf("user %d: %w", user, err)
		}
		return selection.UserAccuracy{Examples: int(found.Counted.Tokens), Correct: int(found.Counted.Hits)}, nil
	})
}

// open opens the training part, population.Input and population.ShardsInput, or the test part,
// population.PartsInput.
func open(ctx context.Context, t *tasks.Task, part Part) (*population.Population, error) {
	switch part {
	case Train:
		return population.Open(ctx, t, population.Input, population.ShardsInput)
	case Test:
		return population.OpenPart(ctx, t, population.PartsInput, population.Test)
	}
	return nil, tasks.Permanent(fmt.Errorf("part %q of the users' examples; expected one of %v", part, part.Choices()))
}

type SummaryParams struct {
	Part Part `json:"part"`
	// Shares is the number of shares of the users that were measured; 0 if the model predicts nothing.
	Shares int `json:"shares"`
	// Prepared reports whether there are PredictedInput and CleanInput.
	Prepared bool `json:"prepared,omitempty"`
}

// Inputs of audits/accuracy-per-user-summary in addition to its parts: selection/predictions nodes of the
// prepared classifier, for the users' training data before any selection, and without planted faults.
const (
	PredictedInput = "predicted"
	CleanInput     = "predicted-clean"
)

// Summary summarizes users. Its inputs are the parts in their order, and with a prepared classifier
// PredictedInput and CleanInput. Its metrics are an Outcome.
var Summary = tasks.Kind{Name: "audits/accuracy-per-user-summary", Version: 1, Class: tasks.Compute, Run: audits.Measuring(sumUp)}

func sumUp(ctx context.Context, t *tasks.Task, p *SummaryParams) (v Outcome, err error) {
	v.Part = p.Part
	v.Model, err = read(ctx, t, UsersBlob, audits.PartInputs(p.Shares)...)
	if p.Prepared && err == nil {
		v.Prepared, err = read(ctx, t, selection.UsersBlob, PredictedInput)
	}
	if p.Prepared && err == nil {
		v.Clean, err = read(ctx, t, selection.UsersBlob, CleanInput)
	}
	return v, err
}

// read summarizes the users of the inputs; nil without inputs.
func read(ctx context.Context, t *tasks.Task, blob string, inputs ...string) (*Users, error) {
	if len(inputs) == 0 {
		return nil, nil
	}
	users, err := audits.ReadLists[selection.UserAccuracy](ctx, t, blob, inputs...)
	if err != nil {
		return nil, err
	}
	found := usersOf(users)
	if found.Users == 0 {
		return nil, tasks.Permanent(fmt.Errorf("none of the %d users has an example that the model could get right; expected one at least", len(users)))
	}
	return found, nil
}

func usersOf(users []selection.UserAccuracy) *Users {
	found := &Users{Accuracy: *selection.AccuracyOf(users)}
	for _, u := range users {
		found.Mean += u.Share()
	}
	found.Mean /= float64(max(1, found.Users))
	return found
}
