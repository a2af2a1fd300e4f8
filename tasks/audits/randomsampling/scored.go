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

// rankScored ranks the canaries of the task. Those that begin alike share the scores of their
// references.
func (p *ScoredParams) rankScored(ctx context.Context, t *tasks.Task, model *external.Model, v *datasets.Vocabulary, placed []datasets.Placement) ([]Rank, error) {
	ranks, known := make([]Rank, p.Count), map[string]*sharedScores{}
	for i := range ranks {
		words := placed[p.First+i].Tokens
		prefix := words[:p.Prefix]
		cost, err := model.Costs(ctx, v, prefix, [][]int32{words[p.Prefix:]})
		if err != nil {
			return nil, err
		}
		name := fmt.Sprint(prefix)
		if known[name] == nil {
			known[name] = &sharedScores{score: func(ctx context.Context, suffixes [][]int32) ([]float64, error) {
				return model.Costs(ctx, v, prefix, suffixes)
			}}
		}
		ranks[i], _, err = p.RankSequentially(ctx, placed, v, cost[0], 0, known[name].fromTheFirst())
		if err != nil {
			return nil, err
		}
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(p.Count)})
	}
	return ranks, nil
}

// sharedScores are those of references in the order in which they are drawn, as far as they were
// asked for.
type sharedScores struct {
	score Scores
	known []float64
}

// fromTheFirst are the scores for one canary more.
func (s *sharedScores) fromTheFirst() Scores {
	at := 0
	return func(ctx context.Context, suffixes [][]int32) ([]float64, error) {
		end := at + len(suffixes)
		if end > len(s.known) {
			more, err := s.score(ctx, suffixes[len(s.known)-at:])
			if err != nil {
				return nil, err
			}
			s.known = append(s.known, more...)
		}
		defer func() { at = end }()
		return s.known[at:end], nil
	}
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
