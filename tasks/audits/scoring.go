package audits

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// Inputs that audits share.
const (
	ModelInput      = "model"      // a checkpoint
	CanariesInput   = "canaries"   // canaries/draw
	PlacementsInput = "placements" // datasets/partition, with the places of every canary
)

// Surprisal returns -log p in nats, clipped at 0: by rounding, p of a certain word may exceed 1.
func Surprisal(logProb float32) float64 { return max(0, -float64(logProb)) }

// PrefixState returns the state after begin and the words.
func PrefixState(scorer *models.Scorer, words []int32) (*models.States, error) {
	state := scorer.Start(1)
	if err := scorer.Feed(state, append([]int32{text.Begin}, words...)); err != nil {
		return nil, err
	}
	return state, nil
}

// ReadTables prepares the checkpoint of ModelInput for tree scorers, once for all tasks of a worker.
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

// LogPerplexity is LogPerplexities for a single sequence.
func LogPerplexity(ctx context.Context, tree *models.TreeScorer, state *models.States, words []int32) (float64, error) {
	costs, err := LogPerplexities(ctx, tree, state, [][]int32{words})
	if err != nil {
		return 0, err
	}
	return costs[0], nil
}

// sequenceBlock is the number of sequences that are scored together. It does not affect results.
const sequenceBlock = 1024

// LogPerplexities returns the sums of -log p over the words of sequences of one length, at least one word, in
// nats, each after the state and the preceding words (Carlini et al. 2019, definition 1; Thakkar et al. 2020,
// section 4.1). They use the kernels of a prefix tree, so that equal costs are equal to the last bit. The
// sequences of a block share the states of common beginnings. A sum that is not finite is a permanent
// models.DivergedError.
func LogPerplexities(ctx context.Context, tree *models.TreeScorer, state *models.States, rows [][]int32) ([]float64, error) {
	order := lists.Make(len(rows), func(i int) int { return i })
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(rows[a], rows[b]) })
	costs := make([]float64, len(rows))
	for block := range slices.Chunk(order, sequenceBlock) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := scoreBlock(tree, state, rows, block, costs); err != nil {
			return nil, err
		}
	}
	if i := slices.IndexFunc(costs, func(cost float64) bool { return !numbers.IsFinite(cost) }); i >= 0 {
		return nil, tasks.Permanent(&models.DivergedError{Name: "log-perplexity of a sequence", Value: costs[i]})
	}
	return costs, nil
}

// scoreBlock sets the costs of the rows of a block, which ascend.
func scoreBlock(tree *models.TreeScorer, state *models.States, rows [][]int32, block []int, costs []float64) error {
	at := make([]int, len(block)) // by row: the current node of the prefix tree
	for depth := range rows[block[0]] {
		var edges []models.Edge
		for i, r := range block {
			edge := models.Edge{Parent: at[i], Token: rows[r][depth]}
			if len(edges) == 0 || edges[len(edges)-1] != edge {
				edges = append(edges, edge)
			}
			at[i] = len(edges) - 1
		}
		logProbs := make([]float32, len(edges))
		if err := tree.LogProbs(state, edges, logProbs); err != nil {
			return err
		}
		for i, r := range block {
			costs[r] += Surprisal(logProbs[at[i]])
		}
		next := new(models.States)
		if err := tree.Advance(next, state, edges); err != nil {
			return err
		}
		state = next
	}
	return nil
}

// Prefixed are canaries with a common beginning, by their ascending numbers.
type Prefixed struct {
	Prefix  []int32
	Numbers []int
}

// ByPrefix groups canaries by their first words, so that these are scored once, in the order of first
// canaries.
func ByPrefix(list []population.Placement, prefix int) []Prefixed {
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

// SuffixChoices returns the choices after the prefix of a canary. If the space names words, they are read
// from CanariesInput.
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

// ReadSuffixes reads the canaries of CanariesInput and the choices after their prefix under a model.
func ReadSuffixes(ctx context.Context, t *tasks.Task, s canaries.Space, prefix int, model *models.Scorer) (list []population.Placement, choices [][]int32, err error) {
	if list, err = population.ReadPlacements(ctx, t, CanariesInput); err != nil {
		return nil, nil, err
	}
	choices, err = SuffixChoices(ctx, t, s, prefix, model.Model().Config().Vocabulary-text.FirstWord)
	return list, choices, err
}

// Words returns the words of tokens from storage.
func Words(v *text.Vocabulary, tokens []int32) ([]string, error) {
	words := make([]string, 0, len(tokens))
	for _, token := range tokens {
		if token < 0 || int(token) >= len(v.Words) {
			return nil, fmt.Errorf("token %d of a vocabulary of %d: %w", token, len(v.Words), storage.ErrCorrupt)
		}
		words = append(words, v.Words[token])
	}
	return words, nil
}

// Blobs of a summary of all canaries of one checkpoint.
const (
	OutcomeBlob        = "verdict"  // an Outcome, as JSON
	CanaryOutcomesBlob = "outcomes" // a JSON array with a CanaryOutcome for each canary
)

// Finds returns the Run of a kind with parameters P whose blob is an R, as JSON.
func Finds[P, R any](blob string, find func(context.Context, *tasks.Task, *P) (R, error)) func(context.Context, *tasks.Task) error {
	return tasks.WithParams(func(ctx context.Context, t *tasks.Task, p *P) error {
		found, err := find(ctx, t, p)
		if err != nil {
			return err
		}
		return t.PutJSON(ctx, blob, found)
	})
}

// Measuring returns the Run of a kind with parameters P whose metrics are an R.
func Measuring[P, R any](measure func(context.Context, *tasks.Task, *P) (R, error)) func(context.Context, *tasks.Task) error {
	return tasks.WithParams(func(ctx context.Context, t *tasks.Task, p *P) error {
		metrics, err := measure(ctx, t, p)
		if err != nil {
			return err
		}
		return t.SetMetrics(metrics)
	})
}

// SummaryRun returns the Run of a kind with parameters P and the input PlacementsInput. It puts the outcome and
// the outcomes of the canaries into OutcomeBlob and CanaryOutcomesBlob, and sets the metrics of the measures.
func SummaryRun[P, O, C any](measures []Measure, sum func(context.Context, *tasks.Task, *P, []population.Placement) (*O, []C, error)) func(context.Context, *tasks.Task) error {
	return tasks.WithParams(func(ctx context.Context, t *tasks.Task, p *P) error {
		placed, err := population.ReadPlacements(ctx, t, PlacementsInput)
		if err != nil {
			return err
		}
		outcome, canaries, err := sum(ctx, t, p, placed)
		if err != nil {
			return err
		}
		if err := PutOutcome(ctx, t, measures, outcome); err != nil {
			return err
		}
		return t.PutJSON(ctx, CanaryOutcomesBlob, canaries)
	})
}

// PutOutcome puts an outcome into OutcomeBlob, and sets the metrics of its measures with a curve.
func PutOutcome(ctx context.Context, t *tasks.Task, measures []Measure, outcome Outcome) error {
	if err := t.PutJSON(ctx, OutcomeBlob, outcome); err != nil {
		return err
	}
	numbers, err := metrics(measures, outcome)
	if err != nil {
		return tasks.Permanent(err)
	}
	return t.SetMetrics(numbers)
}

// Pairs is the set of models of pairs that an audit measures.
type Pairs int

// No models; models whose canaries have their secret only in the target, after one prefix; or also models
// whose canaries have the secret in both texts, so that sources differ.
const (
	NoPairs Pairs = iota
	TargetSecrets
	EverySecret
)

// pairBlock is the number of pairs that are scored together. It does not affect results.
const pairBlock = 4096

// PairCosts returns the log-perplexities, in nats, of the targets of pairs given their sources (Carlini et
// al. 2019, section 6.4): the sum of -log p over the tokens after the separator. Pairs have one prefix;
// suffixes include the separator. A sum that is not finite is a permanent models.DivergedError.
func PairCosts(ctx context.Context, scorer *models.Scorer, prefix []int32, suffixes [][]int32) ([]float64, error) {
	costs := make([]float64, 0, len(suffixes))
	for block := range slices.Chunk(suffixes, pairBlock) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		losses, err := scorer.Losses(lists.Map(block, func(suffix []int32) []int32 { return slices.Concat([]int32{text.Begin}, prefix, suffix) }))
		if _, diverged := errors.AsType[*models.DivergedError](err); diverged {
			err = tasks.Permanent(err)
		}
		if err != nil {
			return nil, err
		}
		for _, loss := range losses {
			costs = append(costs, loss.Sum)
		}
	}
	return costs, nil
}

// checkPair reports a prefix after which a pair has no secret to find.
func (g *Group) checkPair(audit string, prefix int, fail Fail) {
	paths := []string{audit + ".prefix", "canaries.format", "canaries.target", "canaries.formats"}
	switch most := g.DefaultPrefix(); {
	case g.Echoes() && prefix > most:
		fail(paths, "is %d; expected at most %d, the length before the first random symbol of canaries.format, because the source has the secret too", prefix, most)
	case !g.Echoes() && prefix < g.SourceWords():
		fail(paths, "is %d; expected at least %d, the length of the source and the separator, because only the target is predicted", prefix, g.SourceWords())
	}
}
