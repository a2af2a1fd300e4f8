package datasets

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/taskstest"
)

// Every user, held out or not, trains exactly half of the models, and a pair of models has all
// users between them.
func TestEveryUserTrainsHalfOfTheReferenceModels(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 7, 100} {
		trained := make([]int, n)
		halves := map[string]bool{}
		for model := range 8 {
			var users strings.Builder
			for u, drawn := range (population.ReferenceParams{Seed: 3, Model: model}).Members(n) {
				if drawn {
					trained[u]++
					users.WriteString(" ")
				} else {
					users.WriteString("-")
				}
			}
			halves[users.String()] = true
		}
		if slices.Min(trained) != 4 || slices.Max(trained) != 4 {
			t.Errorf("of %d users, models that each trained: %v", n, trained)
		}
		if n == 100 && len(halves) != 8 {
			t.Errorf("%d different halves of 100 users for 8 models", len(halves))
		}
	}
}

// The users drawn keep their examples, whether they train in the cell or are held out, and can
// be shuffled as the cell's are.
func TestReferenceUsersComeFromBothSides(t *testing.T) {
	t.Parallel()
	recipe := smallRecipe
	recipe.HeldOutUsers = 0.4
	p := runPipeline(t, jsonLines(randomLines(rand.New(rand.NewPCG(3, 0)), 400)), recipe)
	all := slices.Concat(extents(t, p.balanced, population.MembersIndexBlob), extents(t, p.balanced, population.HeldOutIndexBlob))
	var pair []population.Extent
	for model := range 2 {
		params := population.ReferenceParams{Seed: 5, Model: model}
		users := p.Run(population.ReferenceUsers, params, taskstest.In(population.BalancedInput, p.balanced))
		drawn := extents(t, users, population.MembersIndexBlob)
		for u, in := range params.Members(len(all)) {
			if slices.Contains(drawn, all[u]) != in {
				t.Errorf("model %d: user %d is drawn: %v, and in the population: %v", model, u, in, !in)
			}
		}
		shuffled := p.Run(population.Partition, population.PartitionParams{Partition: population.IID, Words: recipe.Words, Seed: 1}, taskstest.In(population.BalancedInput, users), taskstest.In(population.PartsInput, p.parts))
		if n := p.open(t, shuffled, population.IID).Users(); n == 0 || n > len(drawn)+1 {
			t.Errorf("model %d: %d users of %d after a shuffle", model, n, len(drawn))
		}
		pair = append(pair, drawn...)
	}
	for _, users := range [][]population.Extent{pair, all} {
		slices.SortFunc(users, func(a, b population.Extent) int { return cmp.Compare(a.Offset, b.Offset) })
	}
	if len(all) < 10 || !slices.Equal(pair, all) {
		t.Errorf("two models have %d users, of %d", len(pair), len(all))
	}
}

func extents(t *testing.T, node *taskstest.Node, blob string) []population.Extent {
	t.Helper()
	index := must.Get(population.DecodeIndex(node.Blob(blob)))(t)
	return index.Extents
}

func TestAReferenceModelNeedsUsers(t *testing.T) {
	t.Parallel()
	p := runPipeline(t, jsonLines([]line{{"a", "one two"}}), Recipe{Seed: 1, VocabularySize: 2})
	_, err := p.Try(population.ReferenceUsers, population.ReferenceParams{Seed: 1}, taskstest.In(population.BalancedInput, p.balanced))
	must.Say(t, err, "none of 1 users to train on; expected 2 users at least")
}

// Own examples are those that no canary replaced, of held-out users all.
func TestReadOwnExcludesCanaries(t *testing.T) {
	t.Parallel()
	recipe := smallRecipe
	recipe.HeldOutUsers = 0.4
	p := runPipeline(t, jsonLines(randomLines(rand.New(rand.NewPCG(4, 0)), 400)), recipe)
	insertions := p.insert(t, population.Overlay{{User: 0, Example: 1, Canary: 0}, {User: 0, Example: 2, Canary: 1}, {User: 2, Example: 0, Canary: 0}}, 2)
	inputs := []taskstest.Edge{taskstest.In(population.BalancedInput, p.balanced), taskstest.In(population.PartsInput, p.parts)}
	bare, placed := p.Task(inputs...), p.Task(append(inputs, taskstest.In(population.InsertionsInput, insertions))...)
	for _, heldOut := range []bool{false, true} {
		before := openBalanced(t, bare, heldOut)
		after := openBalanced(t, placed, heldOut)
		for u := range before.Users() {
			want := everyExample(t, before, u)
			own, canaries, err := after.ReadOwn(t.Context(), u)
			must.Do(t, err)
			switch {
			case heldOut: // no canary is there
			case u == 0:
				want = slices.Delete(want, 1, 3)
			case u == 2:
				want = want[1:]
			}
			if got := sentencesText(own); !slices.Equal(got, want) || canaries != before.Examples(u)-len(want) {
				t.Errorf("user %d, held out %v: %d canaries and %q, want %q", u, heldOut, canaries, got, want)
			}
		}
	}
}

func openBalanced(t *testing.T, task *tasks.Task, heldOut bool) *population.Population {
	t.Helper()
	return must.Get(population.OpenBalanced(t.Context(), task, population.BalancedInput, population.PartsInput, heldOut))(t)
}

func everyExample(t *testing.T, p *population.Population, user int) []string {
	t.Helper()
	sentences := must.Get(p.ReadUser(t.Context(), user))(t)
	return sentencesText(sentences)
}
