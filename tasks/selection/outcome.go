package selection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
)

// SelectionBlob is a Selection, as JSON.
const SelectionBlob = "selection"

// Selection counts the selected users and examples.
type Selection struct {
	// Users counts the selected users, and the users with examples. A privacy account counts the
	// selected ones.
	Users   int `json:"users"`
	OfUsers int `json:"of_users"`
	// Examples counts the examples of selected users that train.
	Examples int `json:"examples"`
	// Outcome is the criterion of the selected examples, AtLeast the number that a user must have;
	// both empty in a selection of users.
	Outcome Criterion `json:"outcome,omitempty"`
	AtLeast int       `json:"at_least,omitempty"`
	// Percentile is the requested percentile: in a selection of users, of the accuracies of users of the data
	// without planted faults; for unlikely examples, of the surprises of all examples. Threshold is its
	// value: an accuracy, or nats per token.
	Percentile float64 `json:"percentile,omitempty"`
	Side       Side    `json:"side,omitempty"`
	Threshold  float64 `json:"threshold,omitempty"`
	// Accuracy is the accuracy of the classifier on the original population, Clean on the population without
	// planted faults.
	Accuracy *Accuracy `json:"accuracy,omitempty"`
	Clean    *Accuracy `json:"clean_accuracy,omitempty"`
	// Ratio reports whether unlikely examples are likelier under a second model.
	Ratio bool `json:"ratio,omitempty"`
	// Surprises holds percentiles of the surprises of all examples, in nats per token: the 5th,
	// 25th, 50th, 75th and 95th; only for unlikely examples.
	Surprises *[5]float64 `json:"surprises,omitempty"`
	// Left counts the users left by other values of AtLeast; only for examples selected without a
	// classifier.
	Left []Left `json:"left,omitempty"`
}

// explain adds to an error the numbers to select from.
func (s *Selection) explain(err error, left []Left) error {
	return fmt.Errorf("%w (the selection leaves %d of %d users; %s)", err, s.Users, s.OfUsers, Leaves(left))
}

func (s *Selection) String() string {
	switch {
	case s.Outcome == OfLowChance:
		return fmt.Sprintf("trained on the examples alone whose %s is at least %.4g nats a token%s: %d of %d users have at least %d, %d in all",
			s.surprise(), s.Threshold, s.percentile(), s.Users, s.OfUsers, s.AtLeast, s.Examples)
	case s.Outcome != "":
		return fmt.Sprintf("trained on the %s examples alone: %d of %d users have at least %d, %d in all", s.Outcome, s.Users, s.OfUsers, s.AtLeast, s.Examples)
	}
	return fmt.Sprintf("trained on the users %s the %gth percentile of accuracy (%.1f%%) alone: %d of %s, %s",
		s.Side, s.Percentile, 100*s.Threshold, s.Users, readable.Count(s.OfUsers, "user"), readable.Count(s.Examples, "example"))
}

func (s *Selection) surprise() string {
	if s.Ratio {
		return "log-perplexity under the prepared model, less that under the second one,"
	}
	return "log-perplexity under the prepared model"
}

func (s *Selection) percentile() string {
	if s.Percentile == 0 {
		return ""
	}
	return fmt.Sprintf(" (the %gth percentile)", s.Percentile)
}

// Left is the number of users that a threshold leaves.
type Left struct {
	// AtLeast is the required number of a user's selected examples; 0 if the threshold is
	// a percentile.
	AtLeast int `json:"at_least,omitempty"`
	// Side is the side of a Percentile of the users' accuracies.
	Side       Side    `json:"side,omitempty"`
	Percentile float64 `json:"percentile,omitempty"`
	Users      int     `json:"users"`
}

// String returns "at_least 2: 80 users".
func (l Left) String() string {
	if l.AtLeast > 0 {
		return fmt.Sprintf("at_least %d: %s", l.AtLeast, readable.Count(l.Users, "user"))
	}
	return fmt.Sprintf("%s %g%%: %s", l.Side, l.Percentile, readable.Count(l.Users, "user"))
}

// Leaves lists thresholds with the users that they leave, for messages.
func Leaves(list []Left) string {
	return strings.Join(lists.Map(list, Left.String), ", ")
}

// minNumbers are the numbers of examples in a table of thresholds.
var minNumbers = []int{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000}

// leftBy counts the users that have at least n selected examples, for round n up to the first that
// leaves no user, and for asked. counts are the users' selected examples.
func leftBy(counts []int, asked int) []Left {
	numbers := append(slices.Clone(minNumbers), asked)
	slices.Sort(numbers)
	var left []Left
	for _, n := range slices.Compact(numbers) {
		l := Left{AtLeast: n, Users: lists.Count(counts, func(count int) bool { return count >= n })}
		if nobody := len(left) > 0 && left[len(left)-1].Users == 0; !nobody || n == asked {
			left = append(left, l)
		}
	}
	return left
}

// percentiles are the percentiles in a table of thresholds.
var percentiles = []float64{5, 10, 25, 50, 75, 90, 95}

// CountRemaining counts the users on side p.Side of some percentiles and of the requested one. users are
// the users of the population, clean the users of the data without planted faults.
func CountRemaining(users, clean []UserAccuracy, p UsersParams) []Left {
	numbers := append(slices.Clone(percentiles), p.Percentile)
	slices.Sort(numbers)
	values := shares(clean)
	var left []Left
	for _, n := range slices.Compact(numbers) {
		at := Selection{Side: p.Side, Threshold: Percentile(values, n)}
		for _, u := range users {
			at.count(u, at.selects(u))
		}
		left = append(left, Left{Side: p.Side, Percentile: n, Users: at.Users})
	}
	return left
}

// Selecting lists the kinds that select.
func Selecting() []string {
	return []string{Examples.Name, Users.Name, Random.Name, Labels.Name, Unlikely.Name}
}

// Thresholds counts the users left by other thresholds than those in the parameters of Examples or
// Users. clean is only for Users.
func Thresholds(params json.RawMessage, users, clean []UserAccuracy) ([]Left, error) {
	var p struct {
		ExamplesParams
		UsersParams
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	if p.Outcome == "" {
		return CountRemaining(users, clean, p.UsersParams), nil
	}
	counts := lists.Map(users, func(u UserAccuracy) int {
		if p.Outcome == Correct {
			return u.Correct
		}
		return u.Examples - u.Correct
	})
	return leftBy(counts, p.AtLeast), nil
}
