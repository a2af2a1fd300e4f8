package search_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/auditstest"
	"coalmine/tasks/audits/canaries/search"
)

func scorer(t *testing.T, seed uint64, scale float32) *models.Scorer {
	t.Helper()
	return auditstest.RandomScorer(t, models.Config{Kind: models.LSTM, Vocabulary: 14, Embedding: 7, Units: 9, Layers: 2}, seed, scale)
}

var choices = [][]int32{{4, 5, 9}, {13}, {6, 7}}

func tree(t *testing.T, s *models.Scorer) *search.Tree {
	t.Helper()
	return must.Get(search.NewTree(s, []int32{8, 4}, choices))(t)
}

// The cost of a path is the log-perplexity of its sequence, by the scorer's other way.
func TestPathCostMatchesLogPerplexity(t *testing.T) {
	t.Parallel()
	s := scorer(t, 3, 4)
	tr := tree(t, s)
	if len(tr.Choices) != 3 || tr.Leaves() != 6 {
		t.Errorf("depth %d, %v leaves; want 3 and 6", len(tr.Choices), tr.Leaves())
	}
	tokens := []int32{9, 13, 6}
	state := must.Get(audits.PrefixState(s, []int32{8, 4}))(t)
	want, logProb := 0.0, make([]float32, 1)
	for _, token := range tokens {
		must.Do(t, errors.Join(s.LogProbs(state, []int32{token}, logProb), s.Step(state, []int32{token})))
		want += audits.Surprisal(logProb[0])
	}
	if got, err := tr.Cost(tokens); err != nil || got != want {
		t.Errorf("the path costs %v (%v), its sequence %v", got, err, want)
	}
}

// The cost of a path does not depend on the paths that are walked beside it.
func TestPathCostDoesNotDependOnOtherPaths(t *testing.T) {
	t.Parallel()
	tr := tree(t, scorer(t, 5, 4))
	rows, err := tr.Expand(tr.Root)
	if err != nil {
		t.Fatal(err)
	}
	first := make([]float64, len(choices[0]))
	for i, token := range tr.Choices[0] {
		if first[i], err = rows.Cost(0, token); err != nil {
			t.Fatal(err)
		}
	}
	together := new(models.States)
	must.Do(t, tr.Follow(together, tr.Root, []int{0, 0, 0}, tr.Choices[0]))
	if rows, err = tr.Expand(together); err != nil {
		t.Fatal(err)
	}
	for i, token := range tr.Choices[0] {
		second := must.Get(rows.Cost(i, 13))(t)
		if alone, err := tr.Cost([]int32{token, 13}); err != nil || alone != first[i]+second {
			t.Errorf("token %d: %v alone (%v), %v with the others", token, alone, err, first[i]+second)
		}
	}
}

func TestAModelThatHasDivergedIsAnError(t *testing.T) {
	t.Parallel()
	m := must.Get(models.New(models.Config{Kind: models.LSTM, Vocabulary: 14, Embedding: 7, Units: 9}))(t)
	params := m.Init(rand.New(rand.NewPCG(1, 1)))
	for i := range params {
		params[i] = float32(math.NaN())
	}
	s := must.Get(m.NewScorer(params))(t)
	var diverged *models.DivergedError
	if _, err := tree(t, s).Cost([]int32{4}); !errors.As(err, &diverged) {
		t.Errorf("error %v, want a DivergedError", err)
	}
	if _, err := search.NewTree(s, []int32{4}, nil); err == nil {
		t.Error("a tree without positions is no error")
	}
}
