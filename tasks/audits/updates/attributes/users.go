package attributes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"coalmine/tasks"
	"coalmine/tasks/audits/updates/observed"
)

// Value is one of an attribute's, and who has it.
type Value struct {
	// Value is its name.
	Value string `json:"value" required:"true"`
	// Users that have it: names as in the source, or patterns, in which * stands for any
	// text, ? for any character and [0-9] for one of a range. One or a list.
	Users []string `json:"users" required:"true"`
}

// checkValues reports everything that is wrong with the values by themselves.
func checkValues(values []Value) (problems []string) {
	names := map[string]bool{}
	for _, v := range values {
		if names[v.Value] {
			problems = append(problems, fmt.Sprintf("has the value %q twice", v.Value))
		}
		names[v.Value] = true
		if len(v.Users) == 0 {
			problems = append(problems, fmt.Sprintf("gives the value %q to nobody; expected names of users, or patterns", v.Value))
		}
		problems = append(problems, observed.Patterns(v.Users).Check()...)
	}
	if len(values) < 2 {
		problems = append(problems, fmt.Sprintf("has %d values; expected at least 2 to tell apart", len(values)))
	}
	return problems
}

// unknown is the value of users of whom none is given.
const unknown = -1

// valueOf numbers the value of a user's name; unknown without one. Two are an error.
func valueOf(values []Value, name string) (number int, err error) {
	number = unknown
	for i, v := range values {
		if !observed.Patterns(v.Users).Fit(name) {
			continue
		}
		if number != unknown {
			return unknown, fmt.Errorf("user %q has two values, %q and %q; expected one at most", name, values[number].Value, v.Value)
		}
		number = i
	}
	return number, nil
}

// readValues are the values of the users that were divided into devices.
func readValues(ctx context.Context, t *tasks.Task, values []Value) ([]int, error) {
	names, err := observed.ReadNames(ctx, t)
	if err != nil {
		return nil, err
	}
	ofName := map[string]int{"": unknown}
	for _, name := range names.Source {
		if ofName[name], err = valueOf(values, name); err != nil {
			return nil, err
		}
	}
	if err := everyoneFound(values, ofName, names.Source); err != nil {
		return nil, err
	}
	all := make([]int, len(names.Users))
	for u, name := range names.Users {
		all[u] = ofName[name]
	}
	return all, nil
}

// everyoneFound refuses values that no user has: a name is wrong.
func everyoneFound(values []Value, ofName map[string]int, names []string) error {
	for i, v := range values {
		if !slices.Contains(slices.Collect(maps.Values(ofName)), i) {
			return fmt.Errorf("no user of the source has the value %q (%s); the source's users are %s", v.Value, strings.Join(v.Users, ", "), observed.ListOf(names))
		}
	}
	return nil
}
