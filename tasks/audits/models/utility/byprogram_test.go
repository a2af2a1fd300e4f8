package utility

import (
	"errors"
	"math"
	"strings"
	"testing"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/clientprograms/clientprogramstest"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/external"
	"coalmine/tasks/taskstest"
)

// A program that predicts as is done here has the same utility.
func TestAProgramsUtilityIsThatOfItsPredictions(t *testing.T) {
	t.Parallel()
	g, asked := taskstest.NewGraph(t), new(clientprogramstest.Runner)
	g.Clients = asked
	data, model := parts(t, g), initial(g)
	want := measure(g, model, data, 2)
	params := PartParams{Data: population.Test, Shares: 2, Program: &clientprograms.Program{Command: "p"}, Words: true}
	edges := []taskstest.Edge{taskstest.In(audits.ModelInput, model), taskstest.In(DataInput, data), taskstest.In(external.VocabularyInput, data)}
	first := g.Run(Part, params, edges...)
	params.Share = 1
	second := g.Run(Part, params, edges...)
	var got Outcome
	g.Run(Sum, SumParams{Shares: 2}, taskstest.In(tasks.PartInput(0), first), taskstest.In(tasks.PartInput(1), second)).DecodeMetrics(&got)
	if got.Tokens != want.Tokens || got.RecallAt1 != want.RecallAt1 || math.Abs(float64(got.Perplexity/want.Perplexity)-1) > 1e-12 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got.AllTargets != nil {
		t.Errorf("%+v is said of targets that no program was asked about", got.AllTargets)
	}
	if asked.Lent != 2 || asked.Back != 2 || len(asked.Words) != 20+text.FirstWord {
		t.Errorf("%+v: not borrowed twice, given back, and told of the vocabulary", asked)
	}
	checkOwnTokens(t, g, asked, params, edges, &got)
	asked.Failure = errors.New("busy")
	if _, err := g.Try(Part, params, edges...); !errors.Is(err, asked.Failure) || tasks.IsPermanent(err) {
		t.Errorf("got %v, want that it may be tried again", err)
	}
}

// checkOwnTokens has the program count two tokens of its own for each word: the loss of all of them is that
// of the words, and there is no accuracy.
func checkOwnTokens(t *testing.T, g *taskstest.Graph, asked *clientprogramstest.Runner, params PartParams, edges []taskstest.Edge, words *Outcome) {
	t.Helper()
	asked.TokensPerWord, asked.Input = 2, clientprograms.TextInput
	params.Share, params.Shares, params.Program.Command = 0, 1, "q"
	var got Outcome
	g.Run(Sum, SumParams{Shares: 1}, taskstest.In(tasks.PartInput(0), g.Run(Part, params, edges...))).DecodeMetrics(&got)
	if got.Tokens != words.Tokens || math.Abs(float64(got.Perplexity/words.Perplexity)-1) > 1e-12 || !strings.Contains(got.RecallUnknown, "its perplexity is by words") || got.RecallAt1 != 0 {
		t.Errorf("%+v, want the perplexity of %+v and no accuracy", got, words)
	}
	asked.TokensPerWord = 0
}
