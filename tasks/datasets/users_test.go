package datasets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// wholeRecipe keeps users as they are.
var wholeRecipe = Recipe{Seed: 7, VocabularySize: 40, TestFraction: 0.3, HeldOutUsers: 0.2}

// sizes are the examples of every user.
func sizes(p *population.Population) []int {
	var all []int
	for u := range p.Users() {
		all = append(all, p.Examples(u))
	}
	return all
}

func TestWholeUsersKeepAllExamples(t *testing.T) {
	t.Parallel()
	lines := append(randomLines(rand.New(rand.NewPCG(3, 3)), 300), line{"only one word", "hello"})
	recipe := wholeRecipe
	recipe.TestFraction, recipe.HeldOutUsers = 0, 0
	p := runPipeline(t, jsonLines(lines), recipe)
	pop := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	of := map[string]int{}
	var names []string
	for _, l := range lines {
		if of[l.User]++; of[l.User] == 1 {
			names = append(names, l.User)
		}
	}
	for u, name := range names {
		if pop.Examples(u) != of[name] {
			t.Errorf("%s has %d examples, wrote %d", name, pop.Examples(u), of[name])
		}
	}
	var m population.BalanceMetrics
	p.balanced.DecodeMetrics(&m)
	if m.Balanced.Users != len(names) || m.Balanced.Examples != len(lines) || m.DroppedUsers+m.DiscardedExamples+m.DiscardedWords != 0 {
		t.Errorf("%+v; want all %d users with all %d examples", m, len(names), len(lines))
	}
	checkWords(t, pop)
}

func TestUsersWithoutTrainingExamplesAreLeftOut(t *testing.T) {
	t.Parallel()
	var lines []line
	for i := range 200 {
		lines = append(lines, line{fmt.Sprint("user ", i), "one sentence each"})
	}
	recipe := Recipe{Seed: 1, VocabularySize: 1, TestFraction: 0.5}
	p := runPipeline(t, jsonLines(lines), recipe)
	var parts EncodeMetrics
	p.parts.DecodeMetrics(&parts)
	population := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}), population.ByUser)
	if population.Users() != parts.Train.Users || population.Users() == 200 || slices.Contains(sizes(population), 0) {
		t.Errorf("a population of %d, with %d users in the training part", population.Users(), parts.Train.Users)
	}
	checkSurvey(t, jsonLines(lines), []Recipe{recipe})
}

func TestSurveyMatchesTasksForWholeUsers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		data := jsonLines(randomLines(rand.New(rand.NewPCG(seed, 9)), 40+90*int(seed)))
		balanced, whole, bytes := smallRecipe, wholeRecipe, wholeRecipe
		bytes.Level, bytes.VocabularySize, bytes.TrainShare = text.ByteLevel, 0, 0.5
		balanced.Words, whole.Seed = 20, seed
		checkSurvey(t, data, []Recipe{balanced, whole, bytes})
	}
}

// An iid shuffle of users as they are keeps their sizes, in their order, and every example.
func TestIIDShuffleKeepsUserSizes(t *testing.T) {
	t.Parallel()
	p := runPipeline(t, jsonLines(randomLines(rand.New(rand.NewPCG(8, 2)), 400)), wholeRecipe)
	o := canaryEvery(t, p.balanced, 10, 3)
	carried := taskstest.In(population.InsertionsInput, p.insert(t, o, 3))
	before := p.open(t, p.partition(population.PartitionParams{Partition: population.ByUser}, carried), population.ByUser)
	node := p.partition(population.PartitionParams{Partition: population.IID, Seed: 3}, carried)
	after := p.open(t, node, population.IID)
	if !slices.Equal(sizes(before), sizes(after)) {
		t.Errorf("sizes %v became %v", sizes(before), sizes(after))
	}
	was, is := everySentence(t, t.Context(), before), everySentence(t, t.Context(), after)
	if slices.Equal(was, is) {
		t.Error("nothing was shuffled")
	}
	slices.Sort(was)
	slices.Sort(is)
	if !slices.Equal(was, is) {
		t.Error("the shuffled examples are others")
	}
	var m population.PartitionMetrics
	node.DecodeMetrics(&m)
	if m.ReplacedExamples != len(o) || m.DiscardedExamples != 0 || m.Users != before.Users() {
		t.Errorf("%+v; want %d users, %d canaries and nothing discarded", m, before.Users(), len(o))
	}
	checkWords(t, after)
}

func TestBalanceRejectsEmptyPopulation(t *testing.T) {
	t.Parallel()
	p := runPipeline(t, jsonLines(randomLines(rand.New(rand.NewPCG(9, 9)), 100)), smallRecipe)
	for want, params := range map[string]population.BalanceParams{
		"no user is left to train: ":                             {HeldOutUsers: 0.99},
		"users.words is -1; expected at least 1, or 0 for users": {Words: -1},
	} {
		_, err := p.Try(population.Balance, params, taskstest.In(population.PartsInput, p.parts))
		if !tasks.IsPermanent(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
