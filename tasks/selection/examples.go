package selection

import (
	"context"
	"fmt"
	"math/rand/v2"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// ExamplesParams are the parameters of Examples.
type ExamplesParams struct {
	// Outcome is that of the selected examples: Misclassified or Correct.
	Outcome Criterion `json:"outcome"`
	// AtLeast is the number of selected examples that a user needs to take part, at least 1.
	AtLeast int `json:"at_least"`
}

// PredictionsInput is the Predictions node of the population.
const PredictionsInput = "predictions"

// Examples selects the examples that a classifier got wrong, or right (Augenstein et al. 2020,
// appendix C.4). Examples without a label are neither.
//
// Inputs: PredictionsInput, population.Input, population.ShardsInput. Blobs and metrics are
// as for population.Partition, with new shards. In addition:
//
//	selection   Selection, as JSON
var Examples = tasks.Kind{Name: "selection/examples", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runExamples)}

func runExamples(ctx context.Context, t *tasks.Task, p *ExamplesParams) error {
	if !p.Outcome.Predicted() || p.AtLeast < 1 {
		return tasks.Permanent(fmt.Errorf("examples that are %q, at least %d of a user; expected one of %v, and at least 1", p.Outcome, p.AtLeast, predicted))
	}
	classes, err := t.Blob(ctx, PredictionsInput, PredictionsBlob)
	if err != nil {
		return err
	}
	record := 0
	found := &Selection{Outcome: p.Outcome, AtLeast: p.AtLeast}
	return selectExamples(ctx, t, found, func(x population.Example) (bool, error) {
		if record >= len(classes) {
			return false, fmt.Errorf("%d predictions, fewer than the population has records: %w", len(classes), storage.ErrCorrupt)
		}
		correct := x.Words[0]-text.FirstWord == int32(classes[record])
		record++
		return labelled(x) && correct == (p.Outcome == Correct), nil
	})
}

// labelled reports whether an image has a label.
func labelled(x population.Example) bool { return x.Words[0] != text.Unknown }

// selectExamples writes the population of the examples that keep selects, and the counts.
func selectExamples(ctx context.Context, t *tasks.Task, found *Selection, keep func(population.Example) (bool, error)) error {
	counting := userCounter{found: found, user: -1}
	err := population.SelectExamples(ctx, t, found.AtLeast, func(x population.Example) (bool, error) {
		kept, err := keep(x)
		counting.count(x.User, kept)
		return kept, err
	})
	counting.endUser()
	if err != nil {
		return found.explain(err, leftBy(counting.all, found.AtLeast))
	}
	if !found.Outcome.Predicted() {
		found.Left = leftBy(counting.all, found.AtLeast)
	}
	return t.PutJSON(ctx, SelectionBlob, found)
}

// userCounter counts the users that have enough selected examples.
type userCounter struct {
	found      *Selection
	user, kept int
	all        []int // selected examples of each user with examples
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
	c.all = append(c.all, c.kept)
	c.found.OfUsers++
	if c.kept >= c.found.AtLeast {
		c.found.Users++
		c.found.Examples += c.kept
	}
}

// RandomParams are the parameters of Random. One of Share and PerUser is given.
type RandomParams struct {
	Seed uint64 `json:"seed"`
	// Share is the probability of each example, independently of others; above 0, below 1.
	Share float64 `json:"share,omitempty"`
	// PerUser is the number of selected examples per user, or all if a user has fewer; at least 1.
	PerUser int `json:"per_user,omitempty"`
	// AtLeast is the number of selected examples that a user needs to take part, at least 1.
	AtLeast int `json:"at_least"`
}

// Random selects examples at random, as a modeler's first look at the data (Augenstein et al. 2020,
// task T1). The draws of a user do not depend on other users.
//
// Inputs: population.Input, population.ShardsInput. Blobs and metrics are as for Examples.
var Random = tasks.Kind{Name: "selection/random", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runRandom)}

func runRandom(ctx context.Context, t *tasks.Task, p *RandomParams) error {
	if !(p.Share > 0 && p.Share < 1) == (p.PerUser < 1) || p.Share != 0 && p.PerUser != 0 || p.AtLeast < 1 {
		return tasks.Permanent(fmt.Errorf("a random share of %g or %d examples of each user, at least %d of a user; expected a share above 0 and below 1 or at least 1 of each user, and at least 1", p.Share, p.PerUser, p.AtLeast))
	}
	pop, err := population.Open(ctx, t, population.Input, population.ShardsInput)
	if err != nil {
		return err
	}
	drawn := lottery{params: p, population: pop, user: -1}
	return selectExamples(ctx, t, &Selection{Outcome: AtRandom, AtLeast: p.AtLeast}, func(x population.Example) (bool, error) {
		return drawn.draw(x), nil
	})
}

// lottery draws examples user after user.
type lottery struct {
	params     *RandomParams
	population *population.Population
	user       int
	stream     *rand.Rand
	wanted     int // number still to draw from the user's remaining examples
}

// draw decides on the next example. A number per user is drawn without replacement: each example
// with the probability wanted / remaining (Knuth, The Art of Computer Programming, volume 2,
// section 3.4.2, algorithm S).
func (l *lottery) draw(x population.Example) bool {
	if x.User != l.user {
		l.user, l.wanted = x.User, l.params.PerUser
		l.stream = seeds.Stream(l.params.Seed, seeds.RandomExamples, uint64(x.User))
	}
	if l.params.Share > 0 {
		return l.stream.Float64() < l.params.Share
	}
	if l.stream.IntN(l.population.Examples(x.User)-x.Example) >= l.wanted {
		return false
	}
	l.wanted--
	return true
}

// LabelsParams are the parameters of Labels.
type LabelsParams struct {
	// Criterion is Unlabelled or Labelled.
	Criterion Criterion `json:"criterion"`
	// AtLeast is the number of selected examples that a user needs to take part, at least 1.
	AtLeast int `json:"at_least"`
}

// Labels selects the images without a label, for people to label (Augenstein et al. 2020, task T5),
// or those with one, for a classifier.
//
// Inputs: population.Input, population.ShardsInput. Blobs and metrics are as for Examples.
var Labels = tasks.Kind{Name: "selection/labels", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runLabels)}

func runLabels(ctx context.Context, t *tasks.Task, p *LabelsParams) error {
	if p.Criterion != Unlabelled && p.Criterion != Labelled || p.AtLeast < 1 {
		return tasks.Permanent(fmt.Errorf("examples that are %q, at least %d of a user; expected one of %v, and at least 1", p.Criterion, p.AtLeast, labels))
	}
	return selectExamples(ctx, t, &Selection{Outcome: p.Criterion, AtLeast: p.AtLeast}, func(x population.Example) (bool, error) {
		return labelled(x) == (p.Criterion == Labelled), nil
	})
}
