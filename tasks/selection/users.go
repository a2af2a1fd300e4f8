package selection

import (
	"context"
	"fmt"
	"math"
	"slices"

	"coalmine/models/ranking"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
)

// Side names the side of a percentile that is selected; users at the percentile always are.
type Side string

// Sides of a percentile.
const (
	Below Side = "below"
	Above Side = "above"
)

// Choices lists the sides for an experiment file.
func (Side) Choices() []string { return []string{string(Below), string(Above)} }

// UsersParams are the parameters of Users.
type UsersParams struct {
	Side Side `json:"side"`
	// Percentile is a percentile of the accuracies, above 0 and below 100.
	Percentile float64 `json:"percentile"`
}

// CleanInput is the Predictions node of the data without planted faults, for the percentile; it is
// PredictionsInput if there are no faults.
const CleanInput = "clean-predictions"

// Users selects the users for whom a classifier works badly, or well: users with a share of correct
// predictions of at most, or at least, a percentile of the users' shares in the data without
// planted faults (Augenstein et al. 2020, appendix C.3). Users without examples are in no
// percentile and never selected.
//
// Inputs: PredictionsInput, CleanInput, population.Input, population.ShardsInput. Blobs and
// metrics are as for population.Partition, without shards: examples stay in place. In addition:
//
//	selection   Selection, as JSON
var Users = tasks.Kind{Name: "selection/users", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runUsers)}

func runUsers(ctx context.Context, t *tasks.Task, p *UsersParams) error {
	if p.Side != Below && p.Side != Above || !(p.Percentile > 0 && p.Percentile < 100) {
		return tasks.Permanent(fmt.Errorf("users %q the percentile %v; expected one of %v, and above 0, below 100", p.Side, p.Percentile, p.Side.Choices()))
	}
	users, err := readUsers(ctx, t, PredictionsInput)
	if err != nil {
		return err
	}
	clean, err := readUsers(ctx, t, CleanInput)
	if err != nil {
		return err
	}
	found := Selection{
		Percentile: p.Percentile, Side: p.Side, Threshold: Percentile(shares(clean), p.Percentile),
		Accuracy: AccuracyOf(users), Clean: AccuracyOf(clean),
	}
	selected := make([]bool, len(users))
	for i, u := range users {
		selected[i] = found.selects(u)
		found.count(u, selected[i])
	}
	past := false
	err = population.SelectUsers(ctx, t, func(user int) bool {
		past = past || user >= len(selected)
		return !past && selected[user]
	})
	switch {
	case past:
		return fmt.Errorf("accuracies of %d users, fewer than the population has: %w", len(users), storage.ErrCorrupt)
	case err != nil:
		return found.explain(err, CountRemaining(users, clean, *p))
	}
	return t.PutJSON(ctx, SelectionBlob, found)
}

func (s *Selection) selects(u UserAccuracy) bool {
	switch {
	case u.Examples == 0:
		return false
	case s.Side == Below:
		return u.Share() <= s.Threshold
	}
	return u.Share() >= s.Threshold
}

func (s *Selection) count(u UserAccuracy, selected bool) {
	if u.Examples > 0 {
		s.OfUsers++
	}
	if selected {
		s.Users++
		s.Examples += u.Examples
	}
}

// shares returns the shares of the users with examples, ascending.
func shares(users []UserAccuracy) []float64 {
	var list []float64
	for _, u := range users {
		if u.Examples > 0 {
			list = append(list, u.Share())
		}
	}
	slices.Sort(list)
	return list
}

// Percentile returns a percentile, 0 to 100, of ascending values, interpolated linearly between the
// two nearest (Hyndman and Fan 1996, definition 7, as NumPy's default). Without values it is NaN.
func Percentile(sorted []float64, percentile float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return ranking.Quantile(sorted, percentile/100)
}

// Accuracy measures a classifier on the users of a population.
type Accuracy struct {
	// Users counts the users with examples, Examples their examples, Correct the correct predictions.
	Users    int `json:"users" doc:"number of users with examples"`
	Examples int `json:"examples" doc:"number of their examples"`
	Correct  int `json:"correct" doc:"number of right predictions"`
	// Percentiles are those of the users' shares of correct examples: the 5th, 25th, 50th, 75th and 95th.
	Percentiles [5]float64 `json:"percentiles" doc:"5th, 25th, 50th, 75th and 95th percentile of the users' accuracies"`
	// Histogram counts the users by that share, in twenty bins of 5%; the last includes 100%.
	Histogram [histogramBins]int `json:"histogram" doc:"number of users by accuracy, in twenty bins of 5%"`
}

const histogramBins = 20

func AccuracyOf(users []UserAccuracy) *Accuracy {
	a := new(Accuracy)
	for _, u := range users {
		a.Examples += u.Examples
		a.Correct += u.Correct
		if u.Examples > 0 {
			a.Histogram[min(u.Correct*histogramBins/u.Examples, histogramBins-1)]++
		}
	}
	list := shares(users)
	a.Users = len(list)
	if len(list) > 0 {
		a.Percentiles = spread(list)
	}
	return a
}
