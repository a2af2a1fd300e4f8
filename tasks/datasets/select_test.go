package datasets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
)

// selectable is a population of some users with canaries in it.
type selectable struct {
	pipeline
	population *taskstest.Node
	all        []selected
}

// selected is an example as it trains.
type selected struct {
	user   int
	canary int // -1 for none
	words  string
}

func newSelectable(t *testing.T, rng *rand.Rand) selectable {
	t.Helper()
	s := selectable{pipeline: runPipeline(t, jsonLines(randomLines(rng, 300)), Recipe{VocabularySize: 9, Words: 80})}
	var overlay population.Overlay
	before := s.open(t, s.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	for user := range before.Users() {
		for example := range before.Examples(user) {
			if rng.IntN(5) == 0 {
				overlay = append(overlay, population.Replacement{User: user, Example: example, Canary: rng.IntN(3)})
			}
		}
	}
	s.population = s.partition(population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.InsertionsInput, s.insert(t, overlay, 3)))
	s.all = s.examples(t, s.population, s.parts)
	return s
}

func (s selectable) examples(t *testing.T, pop, shards *taskstest.Node) (all []selected) {
	t.Helper()
	p := must.Get(population.Open(t.Context(), s.Task(taskstest.In("p", pop), taskstest.In("s", shards)), "p", "s"))(t)
	replaced := p.Replacements()
	for user := range p.Users() {
		sentences := must.Get(p.ReadUser(t.Context(), user))(t)
		for i, sentence := range sentences {
			x := selected{user, -1, fmt.Sprint(sentence)}
			if len(replaced) > 0 && replaced[0].User == user && replaced[0].Example == i {
				x.canary, replaced = replaced[0].Canary, replaced[1:]
			}
			all = append(all, x)
		}
	}
	if len(replaced) > 0 {
		t.Errorf("%d canaries stand beyond the population", len(replaced))
	}
	return all
}

// try runs a selection that a function does.
func (s selectable) try(run func(context.Context, *tasks.Task) error) (*taskstest.Node, error) {
	return s.Try(tasks.Kind{Name: "test/select", Version: 1, Class: tasks.Compute, Run: run}, nil,
		taskstest.In(population.Input, s.population), taskstest.In(population.ShardsInput, s.parts))
}

// expected are the examples that are kept, of users who have enough of them, who are numbered anew.
func (s selectable) expected(atLeast int, keep func(i int, x selected) bool) (kept []selected) {
	perUser := map[int][]selected{}
	for i, x := range s.all {
		if keep(i, x) {
			perUser[x.user] = append(perUser[x.user], x)
		}
	}
	number := 0
	for user := range s.all[len(s.all)-1].user + 1 {
		if len(perUser[user]) < atLeast {
			continue
		}
		for _, x := range perUser[user] {
			x.user = number
			kept = append(kept, x)
		}
		number++
	}
	return kept
}

func TestSelectExamplesKeepsChosenExamples(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := newSelectable(t, rng)
		atLeast := 1 + rng.IntN(4)
		keep := make([]bool, len(s.all))
		for i := range keep {
			keep[i] = rng.IntN(2) == 0
		}
		record := -1
		node := must.Get(s.try(func(ctx context.Context, task *tasks.Task) error {
			return population.SelectExamples(ctx, task, atLeast, func(population.Example) (bool, error) { record++; return keep[record], nil })
		}))(t)
		want := s.expected(atLeast, func(i int, _ selected) bool { return keep[i] })
		if got := s.examples(t, node, node); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("seed %d: selected %v, want %v", seed, got, want)
		}
		checkSelectionCounts(t, node, want)
	}
}

func TestSelectedUsersKeepAllTheirExamples(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newSelectable(t, rng)
		odd := func(user int) bool { return (user+int(seed))%2 == 1 }
		node := must.Get(s.try(func(ctx context.Context, task *tasks.Task) error { return population.SelectUsers(ctx, task, odd) }))(t)
		want := s.expected(1, func(_ int, x selected) bool { return odd(x.user) })
		if got := s.examples(t, node, s.parts); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("seed %d: selected %v, want %v", seed, got, want)
		}
		checkSelectionCounts(t, node, want)
	}
}

// checkSelectionCounts compares the metrics with the population: a privacy account counts
// these users.
func checkSelectionCounts(t *testing.T, node *taskstest.Node, want []selected) {
	t.Helper()
	var m population.PartitionMetrics
	node.DecodeMetrics(&m)
	canaries := 0
	for _, x := range want {
		if x.canary >= 0 {
			canaries++
		}
	}
	if m.Users != want[len(want)-1].user+1 || m.Examples != len(want) || m.ReplacedExamples != canaries {
		t.Errorf("counted %+v, want %d users, %d examples and %d canaries", m, want[len(want)-1].user+1, len(want), canaries)
	}
}

func TestSelectionRejectsEmptyResult(t *testing.T) {
	t.Parallel()
	s := newSelectable(t, rand.New(rand.NewPCG(9, 9)))
	for name, run := range map[string]func(context.Context, *tasks.Task) error{
		"examples": func(ctx context.Context, task *tasks.Task) error {
			return population.SelectExamples(ctx, task, 1, func(population.Example) (bool, error) { return false, nil })
		},
		"users": func(ctx context.Context, task *tasks.Task) error {
			return population.SelectUsers(ctx, task, func(int) bool { return false })
		},
	} {
		if _, err := s.try(run); err == nil || !strings.Contains(err.Error(), "nothing is left to train on") {
			t.Errorf("no %s are selected: error %v", name, err)
		}
	}
}
