package audits

import (
	"context"
	"fmt"
	"math"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Inputs that audits share.
const (
	ModelInput      = "model"      // a checkpoint
	CanariesInput   = "canaries"   // canaries/draw
	PlacementsInput = "placements" // datasets/partition, which knows where every canary went
)

// Surprisal is -log p in nats. It is never negative, although rounding may put a
// certain word a hair above probability 1: a longer sequence never costs less.
func Surprisal(logProb float32) float64 { return max(0, -float64(logProb)) }

// PrefixState is the state after begin and the words.
func PrefixState(scorer *models.Scorer, words []int32) (*models.States, error) {
	state := scorer.Start(1)
	for _, w := range append([]int32{datasets.Begin}, words...) {
		if err := scorer.Step(state, []int32{w}); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// ReadTables prepares the checkpoint of ModelInput for tree scorers, once for all tasks of
// a worker.
func ReadTables(ctx context.Context, t *tasks.Task) (*models.Tables, error) {
	key, err := t.Input(ModelInput)
	if err != nil {
		return nil, err
	}
	return tasks.Memoize(t, key, "tables", func() (*models.Tables, int64, error) {
		scorer, err := checkpoints.ReadScorer(ctx, t, ModelInput)
		if err != nil {
			return nil, 0, err
		}
		tables := scorer.Tabulate()
		return tables, tables.Bytes(), nil
	})
}

// LogPerplexity is the sum of -log p over the words, in nats, each after the
// ones before it (Carlini et al. 2019, definition 1; Thakkar et al. 2020,
// section 4.1), after the state. It takes the path through the kernels of every
// sequence of a prefix tree, so that equal costs are equal to the last bit. A sum that
// is not finite is a models.DivergedError, permanently.
func LogPerplexity(tree *models.TreeScorer, state *models.States, words []int32) (float64, error) {
	sum, logProb := 0.0, make([]float32, 1)
	for _, w := range words {
		edge := []models.Edge{{Token: w}}
		if err := tree.LogProbs(state, edge, logProb); err != nil {
			return 0, err
		}
		sum += Surprisal(logProb[0])
		next := new(models.States)
		if err := tree.Advance(next, state, edge); err != nil {
			return 0, err
		}
		state = next
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, tasks.Permanent(&models.DivergedError{What: "log-perplexity of a canary", Value: sum})
	}
	return sum, nil
}

// Prefixed are canaries that begin alike.
type Prefixed struct {
	Prefix []int32
	// Numbers are those of the canaries, ascending.
	Numbers []int
}

// ByPrefix groups canaries by their first words, so that what follows these is scored
// once for all of a group. Groups are in the order of their first canaries.
func ByPrefix(list []datasets.Placement, prefix int) []Prefixed {
	var groups []Prefixed
	place := map[string]int{}
	for i, c := range list {
		name := fmt.Sprint(c.Tokens[:prefix])
		at, known := place[name]
		if !known {
			at = len(groups)
			place[name] = at
			groups = append(groups, Prefixed{Prefix: c.Tokens[:prefix]})
		}
		groups[at].Numbers = append(groups[at].Numbers, i)
	}
	return groups
}

// SuffixChoices are the choices for what follows the prefix of a canary, out of so
// many ordinary tokens. They are read from CanariesInput where the space names words.
func SuffixChoices(ctx context.Context, t *tasks.Task, s canaries.Space, prefix, ordinary int) ([][]int32, error) {
	if prefix < 0 || prefix >= s.Words {
		return nil, tasks.Permanent(fmt.Errorf("a prefix of %d leaves nothing of a canary of %d words", prefix, s.Words))
	}
	choices, err := canaries.ReadChoices(ctx, t, CanariesInput, s, ordinary)
	if err != nil {
		return nil, err
	}
	return choices[prefix:], nil
}

// Words are the words of tokens, which come from storage.
func Words(v *datasets.Vocabulary, tokens []int32) ([]string, error) {
	words := make([]string, 0, len(tokens))
	for _, token := range tokens {
		if token < 0 || int(token) >= len(v.Words) {
			return nil, fmt.Errorf("token %d of a vocabulary of %d: %w", token, len(v.Words), storage.ErrCorrupt)
		}
		words = append(words, v.Words[token])
	}
	return words, nil
}

// Blobs of a summary: a node that joins what an audit has found of all canaries of one
// checkpoint.
const (
	OutcomeBlob        = "verdict"  // an Outcome, as JSON
	CanaryOutcomesBlob = "outcomes" // a JSON array with a CanaryOutcome for each canary
)

// PutSummary writes OutcomeBlob and CanaryOutcomesBlob, and sets the metrics that a curve keeps.
func PutSummary(ctx context.Context, t *tasks.Task, outcome, outcomes, metrics any) error {
	if err := t.PutJSON(ctx, OutcomeBlob, outcome); err != nil {
		return err
	}
	if err := t.PutJSON(ctx, CanaryOutcomesBlob, outcomes); err != nil {
		return err
	}
	return t.SetMetrics(metrics)
}
