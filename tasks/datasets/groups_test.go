package datasets

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// groupedSource has n examples of a few users, whose texts say which album they are of.
func groupedSource(rng *rand.Rand, n int) []byte {
	var out strings.Builder
	for range n {
		fmt.Fprintf(&out, `{"user":"u%d","text":"%d","group":"g%[2]d","time":%d}`+"\n", rng.IntN(6), rng.IntN(5), rng.IntN(n))
	}
	return []byte(out.String())
}

func groupedRecipe(seed uint64) Recipe {
	return Recipe{Seed: seed, Reading: source.Reading{Level: text.ByteLevel, Grouped: true}, TestFraction: 0.2, TrainShare: 0.9, HeldOutUsers: 0.3, Members: true}
}

// groupsOf are the groups of a population's examples; the texts of a group are alike, and those
// of different groups of a user are not.
func groupsOf(t *testing.T, s selectable, pop, shards *taskstest.Node) []uint32 {
	t.Helper()
	task := s.Task(taskstest.In("p", pop), taskstest.In("s", shards))
	p := must.Get(population.Open(t.Context(), task, "p", "s"))(t)
	groups, err := population.ReadGroups(t.Context(), task, "p", p)
	if err != nil || groups == nil {
		t.Fatalf("the groups are %v, %v", groups, err)
	}
	type numbered struct {
		user  int
		group uint32
	}
	texts := map[numbered]string{}
	for i, x := range s.examples(t, pop, shards) {
		if x.canary >= 0 {
			continue
		}
		of := numbered{x.user, groups[i]}
		if there, ok := texts[of]; ok && there != x.words {
			t.Errorf("example %d of user %d is of a group with %s, and is %s", i, x.user, there, x.words)
		}
		texts[of] = x.words
	}
	seen := map[string]bool{}
	for of, text := range texts {
		if name := fmt.Sprint(of.user, text); seen[name] {
			t.Errorf("%s of user %d is of two groups", text, of.user)
		} else {
			seen[name] = true
		}
	}
	return groups
}

// newGrouped is a population with groups, and canaries in it.
func newGrouped(t *testing.T, seed uint64, timed bool) (selectable, []byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	source, recipe := groupedSource(rng, 200), groupedRecipe(seed)
	recipe.Timed = timed
	s := selectable{pipeline: runPipeline(t, source, recipe)}
	o := population.Overlay{{User: 0, Example: 1, Canary: 0}, {User: 1, Example: 0, Canary: 1}}
	s.population = s.partition(population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.InsertionsInput, s.insert(t, o, 2)))
	return s, source
}

// Every example keeps its group from the source to the devices.
func TestExamplesKeepTheirGroups(t *testing.T) {
	t.Parallel()
	changes := map[string]func(context.Context, *tasks.Task) error{
		"half of the examples": func(ctx context.Context, t *tasks.Task) error {
			return population.SelectExamples(ctx, t, 9, func(x population.Example) (bool, error) { return (x.User+x.Example)%2 == 0, nil })
		},
		"some removed": func(ctx context.Context, t *tasks.Task) error {
			return population.Rewrite(ctx, t, func(x population.Example) ([]int32, error) { return x.Words[:len(x.Words)*min(1, x.Example%3)], nil })
		},
		"some users": func(ctx context.Context, t *tasks.Task) error {
			return population.SelectUsers(ctx, t, func(user int) bool { return user != 1 })
		},
	}
	for seed := range uint64(4) {
		s, _ := newGrouped(t, seed, seed%2 == 1)
		groupsOf(t, s, s.population, s.parts)
		for name, change := range changes {
			node, err := s.Try(tasks.Kind{Name: name, Version: 1, Class: tasks.Compute, Run: change}, nil,
				taskstest.In(population.Input, s.population), taskstest.In(population.ShardsInput, s.parts))
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			shards := node
			if name == "some users" {
				shards = s.parts
			}
			groupsOf(t, s, node, shards)
		}
	}
}

// The survey counts the groups that the tasks find.
func TestSurveyFindsTheGroups(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		s, src := newGrouped(t, seed, false)
		facts := must.Get(Survey(t.Context(), []source.File{fileOf("s", src)}, source.Limits{}, []Recipe{groupedRecipe(seed)}))(t)
		groups := groupsOf(t, s, s.population, s.parts)
		population := s.open(t, s.population, population.ByUser)
		for user, m := range facts[0].Members {
			counts := make([]int, 5)
			for _, g := range groups[population.Index().First(user):][:population.Examples(user)] {
				counts[g]++
			}
			if want := slices.DeleteFunc(counts, func(n int) bool { return n == 0 }); !slices.Equal(m.Groups, want) {
				t.Errorf("seed %d: user %d has groups of %v, the survey says %v", seed, user, want, m.Groups)
			}
		}
	}
}

// Words that are selected are in the groups of their sentences, also in the survey.
func TestSelectedWordsHaveGroups(t *testing.T) {
	t.Parallel()
	src := []byte(`{"user":"a","text":"x y z x","group":1}` + "\n" + `{"user":"a","text":"x v","group":"two"}` + "\n" + `{"user":"a","text":"x w","group":1}` + "\n")
	recipe := Recipe{Reading: source.Reading{Level: text.ByteLevel, Grouped: true}, Outside: Outside{Size: 1}, Members: true}
	s := selectable{pipeline: runPipeline(t, src, recipe)}
	s.population = s.partition(population.PartitionParams{Partition: population.ByUser})
	task := s.Task(taskstest.In("p", s.population))
	groups, err := population.ReadGroups(t.Context(), task, "p", s.open(t, s.population, population.ByUser))
	if err != nil || !slices.Equal(groups, []uint32{0, 0, 1, 0}) { // y z, v, w
		t.Errorf("the groups are %v, %v", groups, err)
	}
	facts, err := Survey(t.Context(), []source.File{fileOf("s", src)}, source.Limits{}, []Recipe{recipe})
	if err != nil || !reflect.DeepEqual(facts[0].Members, []Member{{"a", 4, []int{3, 1}}}) {
		t.Errorf("the survey has %+v, %v", facts, err)
	}
}

// Groups are those of whole users.
func TestGroupsOfBalancedUsersAreRejected(t *testing.T) {
	t.Parallel()
	recipe := groupedRecipe(1)
	recipe.Words, recipe.HeldOutUsers = 5, 0
	s := selectable{pipeline: runPipeline(t, groupedSource(rand.New(rand.NewPCG(1, 1)), 90), recipe)}
	_, err := s.Try(population.Partition, population.PartitionParams{Partition: population.ByUser}, taskstest.In(population.BalancedInput, s.balanced), taskstest.In(population.PartsInput, s.parts))
	if err == nil || !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "no whole user") {
		t.Errorf("the error is %v", err)
	}
	if _, err := Survey(t.Context(), []source.File{fileOf("s", nil)}, source.Limits{}, []Recipe{recipe}); err == nil || !strings.Contains(err.Error(), "balanced users of 5 words") {
		t.Errorf("the survey says %v", err)
	}
}
