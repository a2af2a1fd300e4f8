// Package selection holds the kinds that choose the part of a population that trains, as
// a modeler would choose examples to look at (Augenstein et al. 2020, section 2.1): by rules that
// tasks apply, so that no person sees the data.
//
//	selection/random        some of the records, by chance
//	selection/labels        the records with a label, or without
//	selection/unlikely      the records that a language model finds unlikely
//	selection/predictions   a classifier's predictions for every record of a population
//	selection/examples      the records that it gets wrong, or right
//	selection/users         the users for whom it works badly, or well
//
// A selection is an ordinary population for training, counting and privacy accounting.
package selection

import (
	"context"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
)

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind {
	return []tasks.Kind{Predictions, Examples, Users, Random, Labels, Unlikely}
}

// ModelInput is the checkpoint of the classifier.
const ModelInput = "model"

// Predictions has a classifier predict the label of every record of a population.
//
// Inputs: ModelInput, population.Input, population.ShardsInput. It has no parameters.
// Its metrics are an Accuracy. Blobs:
//
//	predictions   the predicted classes, one byte per record, in the order of the records
//	users         []UserAccuracy, as JSON, in the order of the users
var Predictions = tasks.Kind{Name: "selection/predictions", Version: 1, Class: tasks.Compute, Run: runPredictions}

// Blobs of Predictions.
const (
	PredictionsBlob = "predictions"
	UsersBlob       = "users"
)

// UserAccuracy measures a classifier on a user's examples.
type UserAccuracy struct {
	Examples int `json:"examples"`
	Correct  int `json:"correct"`
}

// Share returns the share of correct predictions, 0 for a user without examples.
func (u UserAccuracy) Share() float64 {
	if u.Examples == 0 {
		return 0
	}
	return float64(u.Correct) / float64(u.Examples)
}

// count counts a prediction. It ignores examples without a label.
func (u *UserAccuracy) count(p models.Prediction) {
	if p.Label < 0 {
		return
	}
	u.Examples++
	if p.Class == p.Label {
		u.Correct++
	}
}

func runPredictions(ctx context.Context, t *tasks.Task) error {
	classifier, err := readClassifier(ctx, t)
	if err != nil {
		return err
	}
	pop, err := population.Open(ctx, t, population.Input, population.ShardsInput)
	if err != nil {
		return err
	}
	classes := make([]byte, 0, pop.Records())
	users := make([]UserAccuracy, pop.Users())
	for user := range users {
		examples, err := pop.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		predictions, err := classifier.Classify(examples)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("user %d: %w", user, err))
		}
		for _, p := range predictions {
			classes = append(classes, byte(p.Class))
			users[user].count(p)
		}
		t.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(len(users))})
	}
	if err := t.Put(ctx, PredictionsBlob, classes); err != nil {
		return err
	}
	if err := t.PutJSON(ctx, UsersBlob, users); err != nil {
		return err
	}
	return t.SetMetrics(AccuracyOf(users))
}

func readClassifier(ctx context.Context, t *tasks.Task) (models.Classifier, error) {
	model, err := checkpoints.Read(ctx, t, ModelInput)
	if err != nil {
		return nil, err
	}
	network, ok := model.Network.(models.Classifying)
	if !ok {
		return nil, tasks.Permanent(fmt.Errorf("a model of kind %s predicts no labels; expected %s", model.Network.Config().Kind, models.CNN))
	}
	return network.NewClassifier(model.Params), nil
}

// Criterion names a rule for the selection of examples.
type Criterion string

// Criteria.
const (
	Misclassified Criterion = "misclassified"
	Correct       Criterion = "correct"
	AtRandom      Criterion = "random"
	Unlabelled    Criterion = "unlabelled"
	Labelled      Criterion = "labelled"
	OfLowChance   Criterion = "unlikely"
)

// Choices lists the criteria for an experiment file.
func (Criterion) Choices() []string {
	return []string{string(Misclassified), string(Correct), string(AtRandom), string(Unlabelled), string(Labelled), string(OfLowChance)}
}

// Predicted reports whether the criterion uses a classifier's predictions.
func (c Criterion) Predicted() bool { return slices.Contains(predicted, c) }

// Criteria of one kind.
var (
	predicted = []Criterion{Misclassified, Correct}
	labels    = []Criterion{Unlabelled, Labelled}
)

func readUsers(ctx context.Context, t *tasks.Task, input string) (users []UserAccuracy, err error) {
	err = t.InputJSON(ctx, input, UsersBlob, &users)
	return users, err
}
