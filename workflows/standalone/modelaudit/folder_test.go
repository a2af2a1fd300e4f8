package modelaudit_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/models/samples"
	space "coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/pretrained"
	"coalmine/tasks/pretrained/pretrainedtest"
	"coalmine/workflows/standalone/modelaudit"
)

// opened is a folder, opened for the audit and for a test.
func opened(t *testing.T, name string) (*modelaudit.Model, *pretrained.Folder, *models.Scorer) {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.CopyFS(dir, pretrainedtest.Folder(t, name, nil)))
	model := must.Get(modelaudit.OpenFolder(dir))(t)
	folder := must.Get(pretrained.Open(os.DirFS(dir), dir))(t)
	defer folder.Close()
	scorer := must.Get(folder.NewScorer())(t)
	return model, folder, scorer
}

// tokensOf returns the tokens of an unchanged text.
func tokensOf(f *pretrained.Folder, content string) []int32 {
	var tokens []int32
	for _, token := range f.Tokenizer.Encoder().Encode(content) {
		tokens = append(tokens, text.FirstWord+int32(token))
	}
	return tokens
}

// Ranks equal those among references whose losses are computed one by one.
func TestCanariesOfAFolderAreRankedByItsModel(t *testing.T) {
	t.Parallel()
	for _, name := range pretrainedtest.Names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, folder, scorer := opened(t, name)
			options := modelaudit.Options{Seed: 3, References: 200, BeamWidth: 5, Exact: true, Format: "and the # #"}
			list := read(t, "and the the you\nand the that you\n")
			report := must.Get(model.Run(t.Context(), list, options))(t)
			cost := func(tokens []int32) float64 {
				losses, err := scorer.LossesAfter(fed(t, scorer, folder.Begin, tokens[0]), [][]int32{tokens[1:]}) // its first token is given
				must.Do(t, err)
				return losses[0].Sum
			}
			var canaries [][]int32
			var placed []population.Placement
			for i, line := range list {
				tokens := tokensOf(folder, folder.AfterSpace(line.Text))
				canaries = append(canaries, tokens)
				placed = append(placed, population.Placement{Canary: population.Canary{Number: i, Tokens: tokens}})
			}
			references := randomsampling.Sequential{
				Params:   &randomsampling.Params{Seed: options.Seed, References: options.References, Space: space.Space{Words: 4, Format: options.Format}, Prefix: 2, Count: 2},
				Canaries: placed, Vocabulary: folder.Vocabulary,
			}
			rows := must.Get(references.FirstSequences(options.References))(t)
			for i, c := range report.Canaries {
				rank := int64(1)
				for _, row := range rows {
					if cost(append(canaries[i][:2:2], row...)) <= cost(canaries[i]) {
						rank++
					}
				}
				words := folder.Names(folder.Tokenizer.Encoder(), folder.AfterSpace(c.Text))
				if *c.Rank != rank || !*c.RankExact || !slices.Equal(c.Words, words) || len(words) != 4 {
					t.Errorf("%q, tokens %q, has rank %d, want %d and tokens %q", c.Text, c.Words, *c.Rank, rank, words)
				}
			}
		})
	}
}

// fed returns the state after tokens.
func fed(t *testing.T, scorer *models.Scorer, tokens ...int32) *models.States {
	t.Helper()
	state := scorer.Start(1)
	must.Do(t, scorer.Feed(state, tokens))
	return state
}

func TestMembersOfAFolderAreComparedByItsLosses(t *testing.T) {
	t.Parallel()
	for _, name := range pretrainedtest.Names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model, folder, scorer := opened(t, name)
			texts := []string{"To be, or not to be", "that is the question", "Whether 'tis nobler", "in the mind to suffer the slings and arrows of outrageous"}
			members := modelaudit.Membership{Sequence: 12}
			var losses []float64
			for i, text := range texts {
				owner := modelaudit.Owner{Texts: []string{text}}
				if i < 2 {
					members.Members = append(members.Members, owner)
				} else {
					members.NonMembers = append(members.NonMembers, owner)
				}
				tokens := tokensOf(folder, text)
				if tokens = tokens[:min(len(tokens), 12)]; len(tokens) < 12 {
					tokens = append(tokens, folder.End)
				}
				found := must.Get(scorer.Losses([][]int32{append([]int32{folder.Begin}, tokens...)}))(t)
				losses = append(losses, found[0].Sum/float64(found[0].Tokens))
			}
			report := must.Get(model.Membership(t.Context(), members))(t)
			above := 0.0 // pairs in which the member has the smaller loss
			for _, member := range losses[:2] {
				for _, other := range losses[2:] {
					if member < other {
						above++
					}
				}
			}
			if got := report.Attacks[0].Members.AUC.Value; got != above/4 {
				t.Errorf("AUC %v, want %v: losses %v", got, above/4, losses)
			}
		})
	}
}

func TestSamplesOfAFolderAreTexts(t *testing.T) {
	t.Parallel()
	model, _, _ := opened(t, "llama")
	drawn := 0
	err := modelaudit.Sample(t.Context(), model, modelaudit.SampleOptions{Count: 5, Length: 6, Sampling: models.Sampling{Temperature: 1}, Prefix: "the king"}, func(text samples.Text) error {
		if drawn++; !strings.HasPrefix(text.Text, "the king") {
			t.Errorf("sample %q does not begin with its prefix", text.Text)
		}
		return nil
	})
	if err != nil || drawn != 5 {
		t.Errorf("%d samples, error %v", drawn, err)
	}
}

func TestTextsBeyondContextAreRejected(t *testing.T) {
	t.Parallel()
	model, _, _ := opened(t, "gpt2")
	_, err := model.Run(t.Context(), read(t, "the you\n"+strings.Repeat("the ", 41)+"\n"), modelaudit.Options{References: 100})
	if want := "list.txt, line 2: a canary of 41 tokens; expected at most 40, the model's context"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	owners := []modelaudit.Owner{{Texts: []string{"a"}}, {Texts: []string{"b"}}}
	_, err = model.Membership(t.Context(), modelaudit.Membership{Members: owners[:1], NonMembers: owners[1:], Sequence: 41})
	if want := "expected a smaller --sequence"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}
