package onerun

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/kernels"
	"coalmine/internal/must"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
	"coalmine/tasks/training"
)

// learn returns the initial model and the learned canaries for it.
func (b *bench) learn(p LearnedParams) (initial, learned *taskstest.Node, err error) {
	b.t.Helper()
	initial = b.Run(training.Initial, training.InitialParams{Seed: 4, Model: models.Config{Kind: models.CIFGLSTM, Vocabulary: 84, Embedding: 64, Units: 8}})
	learned, err = b.Try(Learned, p, taskstest.In(PopulationInput, b.population), taskstest.In(ShardsInput, b.parts),
		taskstest.In(population.PartsInput, b.parts), taskstest.In(InitialInput, initial))
	return initial, learned, err
}

func fewLearned(n int) LearnedParams {
	return LearnedParams{Seed: 3, Canaries: n, Space: canaries.Space{Words: 4}, Passes: 2}
}

// Whole gradients in place of sketches give the overlap of each list of canaries, up to the error of the
// sketches: each of about 130 cosines has one of 1/64, which adds 0.03. The seed is fixed.
func TestLearnedCanariesOverlapLessThanOwnWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	initial, node, err := b.learn(fewLearned(30))
	must.Do(t, err)
	var metrics LearnedMetrics
	node.DecodeMetrics(&metrics)
	var learned, own [][]int32
	must.Do(t, json.Unmarshal(node.Blob(population.CanariesBlob), &learned))
	for i := range learned {
		own = append(own, slices.Repeat([]int32{int32(text.FirstWord + 79 - i)}, 4))
	}
	before, after := b.overlap(initial, own), b.overlap(initial, learned)
	if math.Abs(before-metrics.Before) > 0.1 || math.Abs(after-metrics.After) > 0.1 {
		t.Errorf("overlaps by sketches %.3f and %.3f; by gradients %.3f and %.3f", metrics.Before, metrics.After, before, after)
	}
	if metrics.Exchanged == 0 || metrics.After >= metrics.Before || after >= before {
		t.Errorf("%d exchanges from %.3f to %.3f (%.3f to %.3f)", metrics.Exchanged, metrics.Before, metrics.After, before, after)
	}
}

// overlap is the mean over canaries of the sum of squared cosines with the gradients of the others and of the
// avoided users.
func (b *bench) overlap(initial *taskstest.Node, list [][]int32) float64 {
	b.t.Helper()
	model := must.Get(checkpoints.Read(b.t.Context(), b.Task(taskstest.In("m", initial)), "m"))(b.t)
	learner := model.Network.NewLearner(nil)
	var units [][]float32
	add := func(sentences [][]int32) {
		g := make([]float32, len(model.Params))
		must.Get(learner.Gradient(model.Params, sentences, g))(b.t)
		units = append(units, g)
	}
	for _, tokens := range list {
		add([][]int32{slices.Concat([]int32{text.Begin}, tokens, []int32{text.End})})
	}
	population := b.open(b.population)
	for _, u := range seeds.Stream(3, seeds.LearnedCanaries, 2).Perm(population.Users())[:learnedUsers] {
		add(b.sentences(population, u))
	}
	sum := 0.0
	for i := range list {
		for j := range units {
			if i != j {
				dot := kernels.Dot(units[i], units[j])
				sum += dot * dot / kernels.SquaredNorm(units[i]) / kernels.SquaredNorm(units[j])
			}
		}
	}
	return sum / float64(len(list))
}

// The coins insert the learned canaries as they are, at the places of other designs.
func TestCoinsInsertLearnedCanaries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, node, err := b.learn(fewLearned(12))
	must.Do(t, err)
	p := replaceUsers(12)
	p.Design = canaries.LearnedWords
	coins := must.Get(b.Try(Coins, p, taskstest.In(PopulationInput, b.population), taskstest.In(ShardsInput, b.parts),
		taskstest.In(population.PartsInput, b.parts), taskstest.In(LearnedInput, node)))(t)
	var learned [][]int32
	must.Do(t, json.Unmarshal(node.Blob(population.CanariesBlob), &learned))
	after, seen := b.open(coins), map[string]bool{}
	for i, u := range b.run(replaceUsers(12)).units {
		seen[fmt.Sprint(learned[i])] = true
		if want := slices.Concat([]int32{text.Begin}, learned[i], []int32{text.End}); u.Included && !slices.Equal(b.sentences(after, u.User)[0], want) {
			t.Errorf("user %d has %v, want %v", u.User, b.sentences(after, u.User)[0], want)
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d different canaries of 12", len(seen))
	}
}

func TestMoreLearnedCanariesThanWordsAreRejected(t *testing.T) {
	t.Parallel()
	if _, _, err := newBench(t).learn(fewLearned(81)); !tasks.IsPermanent(err) || !strings.Contains(err.Error(), "81 learned canaries; expected from 1 to 80") {
		t.Errorf("got %v", err)
	}
}

func TestGoldenLearned(t *testing.T) {
	t.Parallel()
	_, node, err := newBench(t).learn(fewLearned(12))
	must.Do(t, err)
	taskstest.Golden(t, node)
}
