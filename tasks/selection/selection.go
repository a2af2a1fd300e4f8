// Package selection holds the kinds that choose what of a population trains, as a modeler
// would choose examples to look at (Augenstein et al. 2020, section 2.1): by rules that
// tasks follow, so that no person sees the data.
//
//	selection/predictions   what a classifier says of every record of a population
//	selection/examples      the records that it gets wrong, or right
//	selection/users         the users for whom it works badly, or well
//
// A selection is a population as any other: it is trained on, counted and accounted for
// alike.
package selection

import (
	"context"
	"encoding/json"
	"fmt"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Predictions, Examples, Users} }

// ModelInput is the checkpoint of the classifier.
const ModelInput = "model"

// Predictions has a classifier predict the label of every record of a population.
//
// Inputs: ModelInput, datasets.PopulationInput, datasets.ShardsInput. It has no parameters.
// Its metrics are an Accuracy. Blobs:
//
//	predictions   the predicted classes, a byte for each record, in the order of the records
//	users         []UserAccuracy, as JSON, in the order of the users
var Predictions = tasks.Kind{Name: "selection/predictions", Version: 1, Class: tasks.Compute, Run: runPredictions}

// Blobs of Predictions.
const (
	PredictionsBlob = "predictions"
	UsersBlob       = "users"
)

// UserAccuracy says how well a classifier works for a user.
type UserAccuracy struct {
	Examples int `json:"examples"`
	Correct  int `json:"correct"`
}

// Share is that of the correct ones, 0 for a user without examples.
func (u UserAccuracy) Share() float64 {
	if u.Examples == 0 {
		return 0
	}
	return float64(u.Correct) / float64(u.Examples)
}

func (u *UserAccuracy) count(p models.Prediction) {
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
	population, err := datasets.OpenPopulation(ctx, t, datasets.PopulationInput, datasets.ShardsInput)
	if err != nil {
		return err
	}
	classes := make([]byte, 0, population.Records())
	users := make([]UserAccuracy, population.Users())
	for user := range users {
		examples, err := population.ReadUser(ctx, user)
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

// Outcome is how an example fared with the classifier.
type Outcome string

// Outcomes of an example.
const (
	Misclassified Outcome = "misclassified"
	Correct       Outcome = "correct"
)

// Choices lists the outcomes as words of an experiment file.
func (Outcome) Choices() []string { return []string{string(Misclassified), string(Correct)} }

// ExamplesParams are the parameters of Examples.
type ExamplesParams struct {
	// Outcome of the examples that are selected.
	Outcome Outcome `json:"outcome"`
	// AtLeast so many of them a user must have to take part, at least 1.
	AtLeast int `json:"at_least"`
}

// PredictionsInput is the Predictions node of the population that is selected from.
const PredictionsInput = "predictions"

// Examples selects the examples that a classifier got wrong, or right (Augenstein et al.
// 2020, appendix C.4).
//
// Inputs: PredictionsInput, datasets.PopulationInput, datasets.ShardsInput. Blobs and
// metrics are those of datasets.Partition, with shards of its own. And
//
//	selection   Selection, as JSON
var Examples = tasks.Kind{Name: "selection/examples", Version: 1, Class: tasks.Compute, Run: runExamples}

func runExamples(ctx context.Context, t *tasks.Task) error {
	var p ExamplesParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	if p.Outcome != Misclassified && p.Outcome != Correct || p.AtLeast < 1 {
		return tasks.Permanent(fmt.Errorf("examples that are %q, at least %d of a user; expected one of %v, and at least 1", p.Outcome, p.AtLeast, p.Outcome.Choices()))
	}
	classes, err := t.Blob(ctx, PredictionsInput, PredictionsBlob)
	if err != nil {
		return err
	}
	found := Selection{Outcome: p.Outcome, AtLeast: p.AtLeast}
	counting := userCounter{atLeast: p.AtLeast, found: &found, user: -1}
	record := 0
	err = datasets.SelectExamples(ctx, t, p.AtLeast, func(x datasets.PopulationExample) (bool, error) {
		if record >= len(classes) {
			return false, fmt.Errorf("%d predictions, fewer than the population has records: %w", len(classes), storage.ErrCorrupt)
		}
		correct := x.Words[0]-datasets.FirstWord == int32(classes[record])
		record++
		kept := correct == (p.Outcome == Correct)
		counting.count(x.User, kept)
		return kept, nil
	})
	counting.endUser()
	if err != nil {
		return found.explain(err)
	}
	return t.PutJSON(ctx, SelectionBlob, found)
}

// userCounter counts the users that have enough selected examples.
type userCounter struct {
	atLeast    int
	found      *Selection
	user, kept int
}

func (c *userCounter) count(user int, kept bool) {
	if user != c.user {
		c.endUser()
		c.user, c.kept = user, 0
	}
	if kept {
		c.kept++
	}
}

func (c *userCounter) endUser() {
	if c.user < 0 {
		return
	}
	c.found.OfUsers++
	if c.kept >= c.atLeast {
		c.found.Users++
		c.found.Examples += c.kept
	}
}

// SelectionBlob is a Selection, as JSON.
const SelectionBlob = "selection"

// Selection says what was selected.
type Selection struct {
	// Users that were selected, of so many with examples. Their number is what a privacy
	// account counts.
	Users   int `json:"users"`
	OfUsers int `json:"of_users"`
	// Examples of theirs that train.
	Examples int `json:"examples"`
	// Outcome of the selected examples and how many a user must have; none in a selection
	// of users.
	Outcome Outcome `json:"outcome,omitempty"`
	AtLeast int     `json:"at_least,omitempty"`
	// Percentile that was asked for, of the accuracies of the users of the data without
	// planted faults, and the accuracy that it is; none in a selection of examples.
	Percentile float64 `json:"percentile,omitempty"`
	Side       Side    `json:"side,omitempty"`
	Threshold  float64 `json:"threshold,omitempty"`
	// Accuracy of the classifier on the population that was selected from, and on that
	// without planted faults.
	Accuracy *Accuracy `json:"accuracy,omitempty"`
	Clean    *Accuracy `json:"clean_accuracy,omitempty"`
}

// explain adds to an error what there was to select.
func (s *Selection) explain(err error) error {
	return fmt.Errorf("%w (the selection leaves %d of %d users)", err, s.Users, s.OfUsers)
}

// String is a sentence for people.
func (s *Selection) String() string {
	if s.Outcome != "" {
		return fmt.Sprintf("trained on the %s examples alone: %d of %d users have at least %d, %d in all", s.Outcome, s.Users, s.OfUsers, s.AtLeast, s.Examples)
	}
	return fmt.Sprintf("trained on the users %s the %gth percentile of accuracy (%.1f%%) alone: %d of %d users, %d examples",
		s.Side, s.Percentile, 100*s.Threshold, s.Users, s.OfUsers, s.Examples)
}

func readUsers(ctx context.Context, t *tasks.Task, input string) ([]UserAccuracy, error) {
	data, err := t.Blob(ctx, input, UsersBlob)
	if err != nil {
		return nil, err
	}
	var users []UserAccuracy
	if err := json.Unmarshal(data, &users); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("%s: %w", UsersBlob, err))
	}
	return users, nil
}
