package randomsampling

import (
	"context"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// scoredReferences is how many a canary is ranked against by default where each is a text that
// somebody else's model scores.
const scoredReferences = 1000

// ScoredParams are the parameters of audits/random-sampling-scores.
type ScoredParams struct {
	Params
	Model external.ModelParams `json:"model"`
}

// Scored ranks some canaries as Kind does, under a model that is not ours: every reference is
// scored as a text, up to the pilot from which a large rank is estimated. Inputs: "model":
// external/train; "canaries"; "parts": datasets/encode. Its blob is RanksBlob.
var Scored = tasks.Kind{Name: "audits/random-sampling-scores", Version: 1, Class: tasks.Compute, Command: true, Run: runScored}

func runScored(ctx context.Context, t *tasks.Task) error {
	var p ScoredParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	placed, err := datasets.ReadPlacements(ctx, t, audits.CanariesInput)
	if err != nil {
		return err
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
	if err != nil {
		return err
	}
	model, err := p.Model.Open(ctx, t, audits.ModelInput, external.Trained)
	if err != nil {
		return err
	}
	defer model.Close()
	ranks, err := p.rankScored(ctx, t, model, vocabulary, placed)
	if err != nil {
		return err
	}
	return t.PutJSON(ctx, RanksBlob, ranks)
}

// rankScored ranks the canaries of the task.
func (p *ScoredParams) rankScored(ctx context.Context, t *tasks.Task, model *external.Model, v *datasets.Vocabulary, placed []datasets.Placement) ([]Rank, error) {
	s := &Sequential{Params: &p.Params, Canaries: placed, Vocabulary: v, Score: func(ctx context.Context, prefix []int32, suffixes [][]int32) ([]float64, error) {
		return model.Costs(ctx, v, prefix, suffixes)
	}}
	return s.rankAll(ctx, t)
}

// rankAll ranks the canaries of a task.
func (s *Sequential) rankAll(ctx context.Context, t *tasks.Task) ([]Rank, error) {
	ranks := make([]Rank, s.Count)
	for i := range ranks {
		tokens := s.Canaries[s.First+i].Tokens
		prefix := tokens[:s.Prefix]
		cost, err := s.Score(ctx, prefix, [][]int32{tokens[s.Prefix:]})
		if err != nil {
			return nil, fmt.Errorf("canary %d: %w", s.First+i, err)
		}
		if ranks[i], _, err = s.Rank(ctx, prefix, cost[0], 0); err != nil {
			return nil, fmt.Errorf("canary %d: %w", s.First+i, err)
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(s.Count)})
	}
	return ranks, nil
}

// compileScored is Compile for a model that is not ours: a task for each group of canaries.
func (f *Fields) compileScored(b audits.Builder, round int) storage.Key {
	s, model := b.Setting(), b.Model(round)
	inputs := []tasks.Input{{Name: audits.PlacementsInput, Key: b.Placements()}}
	for i, g := range s.Canaries.Groups {
		part := b.Node(Scored, fmt.Sprintf("random sampling from canary %d by scores", g.First), ScoredParams{
			Params: Params{
				Seed: s.Seed, References: f.RandomSampling.References, Space: g.Space, Prefix: g.Prefix(f.RandomSampling.Prefix),
				Exact: f.RandomSampling.Exact, First: g.First, Count: g.Count,
			},
			Model: *s.External,
		}, tasks.Input{Name: audits.ModelInput, Key: model}, tasks.Input{Name: audits.CanariesInput, Key: b.Canaries()}, tasks.Input{Name: datasets.PartsInput, Key: b.Parts()})
		inputs = append(inputs, tasks.Input{Name: tasks.PartInput(i), Key: part})
	}
	return b.Node(Summary, fmt.Sprintf("random sampling after %d", round),
		SummaryParams{Parts: len(inputs) - 1, References: f.RandomSampling.References}, inputs...)
}
