// Package accuracyperuser measures how accurate a model is for each user, and how users
// spread, as a modeler does who must not look at anyone's data (Augenstein et al. 2020,
// appendix C.3, figure 5 and table 10):
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
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
	"coalmine/tasks/selection"
)

// Part says which of the users' examples are looked at.
type Part string

// Parts of the data.
const (
	Train Part = "train" // what the users train on, as in the paper
	Test  Part = "test"  // what nobody trains on
)

// Choices lists the parts as words of an experiment file.
func (Part) Choices() []string { return []string{string(Train), string(Test)} }

// Params are the parameters of audits/accuracy-per-user.
type Params struct {
	// Part of the users' examples.
	Part Part `json:"part"`
	// Share of Shares of the users is what this task looks at; shares count from 0.
	Share  int `json:"share"`
	Shares int `json:"shares"`
	// Program, where there is one, predicts in place of this program. The task then needs
	// external.VocabularyInput.
	Program *clientprograms.Program `json:"program,omitempty"`
}

// Asks implements clientprograms.Asker.
func (p Params) Asks() *clientprograms.Program { return p.Program }

// Inputs of audits/accuracy-per-user beside audits.ModelInput.
const (
	// PopulationInput and ShardsInput are those of the training part.
	PopulationInput = datasets.PopulationInput
	ShardsInput     = datasets.ShardsInput
	// PartsInput is the datasets/encode node with the test part.
	PartsInput = datasets.PartsInput
)

// UsersBlob is a []selection.UserAccuracy, as JSON, in the order of the users. For a language
// model the examples are the ordinary words that were to be predicted.
const UsersBlob = "users"

// Kind counts what a model predicts correctly for each of some users.
var Kind = tasks.Kind{Name: "audits/accuracy-per-user", Version: 1, Class: tasks.Compute, Run: run}

func run(ctx context.Context, t *tasks.Task) error {
	var p Params
	if err := t.Decode(&p); err != nil {
		return err
	}
	return utility.ByModel(ctx, t, p.Program, func(evaluate utility.Evaluator) error { return measure(ctx, t, &p, evaluate) })
}

// ScoredParams are the parameters of audits/accuracy-per-user-by-scores.
type ScoredParams struct {
	Params
	Model external.ModelParams `json:"model"`
}

// Scored does as Kind by a model that is not ours, which classifies images.
var Scored = tasks.Kind{Name: "audits/accuracy-per-user-by-scores", Version: 1, Class: tasks.Compute, Command: true, Run: runScored}

func runScored(ctx context.Context, t *tasks.Task) error {
	var p ScoredParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	return utility.ByScores(ctx, t, &p.Model, PartsInput, func(evaluate utility.Evaluator) error {
		return measure(ctx, t, &p.Params, evaluate)
	})
}

// measure measures the share's users.
func measure(ctx context.Context, t *tasks.Task, p *Params, evaluate utility.Evaluator) error {
	examples, err := open(ctx, t, p.Part)
	if err != nil {
		return err
	}
	n := examples.Users()
	first, end := p.Share*n/p.Shares, (p.Share+1)*n/p.Shares
	users := make([]selection.UserAccuracy, 0, end-first)
	for user := first; user < end; user++ {
		sentences, err := examples.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		found, err := evaluate(sentences)
		if err != nil {
			return fmt.Errorf("user %d: %w", user, err)
		}
		users = append(users, selection.UserAccuracy{Examples: int(found.Counted.Tokens), Correct: int(found.Counted.Hits)})
		t.Progress(tasks.Progress{Done: int64(user - first + 1), Total: int64(end - first)})
	}
	return t.PutJSON(ctx, UsersBlob, users)
}

func open(ctx context.Context, t *tasks.Task, part Part) (*datasets.Population, error) {
	switch part {
	case Train:
		return datasets.OpenPopulation(ctx, t, PopulationInput, ShardsInput)
	case Test:
		return datasets.OpenPart(ctx, t, PartsInput, datasets.Test)
	}
	return nil, tasks.Permanent(fmt.Errorf("part %q of the users' examples; expected one of %v", part, part.Choices()))
}

// SummaryParams are the parameters of audits/accuracy-per-user-summary.
type SummaryParams struct {
	Part Part `json:"part"`
	// Shares of the users that a model was measured on; 0 where the cell's model predicts
	// nothing.
	Shares int `json:"shares"`
	// Prepared says that there are PredictedInput and CleanInput.
	Prepared bool `json:"prepared,omitempty"`
}

// Inputs of audits/accuracy-per-user-summary beside its parts: selection/predictions nodes of
// the prepared classifier.
const (
	// PredictedInput is for the users' training data before anything is selected.
	PredictedInput = "predicted"
	// CleanInput is for those without planted faults.
	CleanInput = "predicted-clean"
)

// Summary sums users up. Its inputs are the parts in their order, PredictedInput and
// CleanInput where there is a prepared classifier. Its metrics are an Outcome.
var Summary = tasks.Kind{Name: "audits/accuracy-per-user-summary", Version: 1, Class: tasks.Compute, Run: runSummary}

func runSummary(ctx context.Context, t *tasks.Task) error {
	var p SummaryParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	v := Outcome{Part: p.Part}
	var err error
	if v.Model, err = read(ctx, t, UsersBlob, audits.PartInputs(p.Shares)...); err != nil {
		return err
	}
	if p.Prepared {
		if v.Prepared, err = read(ctx, t, selection.UsersBlob, PredictedInput); err != nil {
			return err
		}
		if v.Clean, err = read(ctx, t, selection.UsersBlob, CleanInput); err != nil {
			return err
		}
	}
	return t.SetMetrics(v)
}

// read sums up the users of some inputs; nil without any.
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
