package onerun

import (
	"context"

	"coalmine/internal/score"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/datasets"
	"coalmine/tasks/external"
)

// ScoredParams are the parameters of audits/one-run-scores.
type ScoredParams struct {
	BoundParams
	Model external.ModelParams `json:"model"`
	// Plain scores canaries by the trained model alone.
	Plain bool `json:"plain_loss,omitempty"`
}

// ScorePlainLoss names the score of a unit where there is no untrained model: the negative of its
// canary's log-perplexity under the trained one.
const ScorePlainLoss = "plain-loss"

// Scored bounds epsilon as Bound does, by models that are not ours. Inputs: "model":
// external/train; "units": canaries/one-run; "parts": datasets/encode.
var Scored = tasks.Kind{Name: "audits/one-run-scores", Version: 1, Class: tasks.Compute, Command: true, Run: runScored}

func runScored(ctx context.Context, t *tasks.Task) error {
	var p ScoredParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	if p.Plain {
		p.Score = ScorePlainLoss
	}
	return p.bound(ctx, t, p.scores)
}

// scores are those of canaries under both models, or under the trained one.
func (p *ScoredParams) scores(ctx context.Context, t *tasks.Task, list []datasets.Canary) ([]float64, error) {
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
	if err != nil {
		return nil, err
	}
	pairs := make([]score.Pair, len(list))
	for i, c := range list {
		pairs[i] = external.PairOf(vocabulary, nil, c.Tokens)
	}
	scores, err := p.logProbs(ctx, t, external.Trained, pairs)
	if p.Plain || err != nil {
		return scores, err
	}
	before, err := p.logProbs(ctx, t, external.Initial, pairs)
	if err != nil {
		return nil, err
	}
	for i := range scores {
		scores[i] -= before[i]
	}
	return scores, nil
}

// logProbs are those of texts under a model.
func (p *ScoredParams) logProbs(ctx context.Context, t *tasks.Task, which external.Which, pairs []score.Pair) ([]float64, error) {
	model, err := p.Model.Open(ctx, t, audits.ModelInput, which)
	if err != nil {
		return nil, err
	}
	defer model.Close()
	answers, err := model.Answers(ctx, pairs)
	if err != nil {
		return nil, err
	}
	logProbs := make([]float64, len(answers))
	for i, a := range answers {
		logProbs[i] = a.LogProb
	}
	return logProbs, nil
}

// compileScored is Compile for models that are not ours.
func (f *Fields) compileScored(b audits.Builder, round int, params BoundParams) storage.Key {
	return b.Node(Scored, "one-run audit by scores", ScoredParams{BoundParams: params, Model: *b.Setting().External, Plain: f.OneRun.PlainLoss},
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: UnitsInput, Key: b.Planted(f)}, tasks.Input{Name: datasets.PartsInput, Key: b.Parts()})
}
