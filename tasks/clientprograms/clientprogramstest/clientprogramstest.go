// Package clientprogramstest has a client for tests of tasks that need one: it measures Coalmine
// models, from their checkpoints, as an external program measures its own.
//
//	graph.Clients = new(clientprogramstest.Runner)
package clientprogramstest

import (
	"context"

	"coalmine/internal/score"
	"coalmine/models"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/clientprograms"
	"coalmine/tasks/datasets/text"
)

// Runner is a clientprograms.Runner that lends itself as the client. It does not train: other methods than
// those below panic.
type Runner struct {
	clientprograms.Client
	// Words holds the words of the last setting; Lent and Back count the calls of Borrow and
	// GiveBack.
	Words      []string
	Lent, Back int
	// Failure is the error of every request; nil for none.
	Failure error
	// TokensPerWord and Input describe a program with its own tokenizer; 0 and "" without one.
	TokensPerWord int64
	Input         clientprograms.Input
}

func (r *Runner) Borrow(_ context.Context, s clientprograms.Setting) (clientprograms.Client, error) {
	r.Words = s.Words
	r.Lent++
	return r, nil
}

func (r *Runner) GiveBack() { r.Back++ }

func (r *Runner) Description() *clientprograms.Description {
	return &clientprograms.Description{Input: r.Input}
}

func (r *Runner) scorer(ctx context.Context, m clientprograms.Model) (*models.Scorer, error) {
	if r.Failure != nil {
		return nil, r.Failure
	}
	data, err := m.Read(ctx)
	if err != nil {
		return nil, err
	}
	model, err := checkpoints.Decode(data)
	if err != nil {
		return nil, err
	}
	return model.NewScorer()
}

func (r *Runner) Evaluate(ctx context.Context, w clientprograms.Work) (*clientprograms.Evaluation, error) {
	s, err := r.scorer(ctx, w.Model)
	if err != nil {
		return nil, err
	}
	e, err := s.Evaluate(w.Examples, func(target int32) bool { return target >= text.FirstWord })
	targets := e.Counted.Tokens * max(1, r.TokensPerWord)
	return &clientprograms.Evaluation{Targets: targets, Correct: e.Counted.Hits, Loss: e.Counted.Loss / float64(max(1, targets))}, err
}

func (r *Runner) LogLikelihoods(ctx context.Context, m clientprograms.Model, pairs []clientprograms.Pair) ([]score.Answer, error) {
	s, err := r.scorer(ctx, m)
	if err != nil {
		return nil, err
	}
	found := make([]score.Answer, len(pairs))
	for i, p := range pairs {
		if found[i].LogProb, err = logProb(s, p); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// logProb feeds the tokens of a pair one by one.
func logProb(s *models.Scorer, p clientprograms.Pair) (sum float64, err error) {
	states, one := s.Start(1), make([]float32, 1)
	if err := s.Feed(states, append([]int32{text.Begin}, p.Context...)); err != nil {
		return 0, err
	}
	for _, token := range p.Continuation {
		if err := s.LogProbs(states, []int32{token}, one); err != nil {
			return 0, err
		}
		sum += min(0, float64(one[0]))
		if err := s.Step(states, []int32{token}); err != nil {
			return 0, err
		}
	}
	return sum, nil
}
