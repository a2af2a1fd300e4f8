// Package beamsearch tries to extract canaries from their beginnings (Thakkar et
// al. 2020, section 4.1):
//
//	audits/beam-search          the results of searches for some canaries, under one checkpoint
//	audits/beam-search-summary  the results for all canaries, and the outcome
package beamsearch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	Width int `json:"width"`
	canaries.Space
	Prefix int `json:"prefix"`
	// First and Count select the canaries of this task.
	First int `json:"first"`
	Count int `json:"count"`
}

// Extraction is the outcome of beam search for one canary.
type Extraction struct {
	// Best is the most likely continuation of the prefix that the search found.
	Best []int32 `json:"best"`
	// LogPerplexity is the log-perplexity of Best, CanaryLogPerplexity that of the canary after the same
	// prefix, in nats. If the canary costs less than Best, the search pruned it for a beginning that looked
	// better.
	LogPerplexity       float64 `json:"log_perplexity"`
	CanaryLogPerplexity float64 `json:"canary_log_perplexity"`
	// Found reports whether Best is the canary.
	Found bool `json:"found"`
}

// Kind tries to extract canaries from their prefix and length: it searches the sequences of the symbols that
// canaries have at each position. Probabilities are those of the full output, without length normalisation.
// Ties go to the lower token. Inputs: the checkpoint and the canaries.
var Kind = tasks.Kind{Name: "audits/beam-search", Version: 2, Class: tasks.Compute, Run: audits.Finds(ExtractionsBlob, extractAll)}

// ExtractionsBlob is a JSON array with an Extraction for each canary.
const ExtractionsBlob = "extractions"

func extractAll(ctx context.Context, t *tasks.Task, p *Params) ([]Extraction, error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	all, choices, err := audits.ReadSuffixes(ctx, t, p.Space, p.Prefix, scorer)
	if err != nil {
		return nil, err
	}
	found := make([]Extraction, 0, p.Count)
	for i, c := range all[p.First : p.First+p.Count] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := extract(scorer, c.Tokens, p.Prefix, choices, p.Width)
		if err != nil {
			return nil, tasks.Permanent(fmt.Errorf("canary %d: %w", p.First+i, err))
		}
		found = append(found, e)
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(p.Count)})
	}
	return found, nil
}

func extract(scorer *models.Scorer, canary []int32, prefix int, choices [][]int32, width int) (Extraction, error) {
	tree, err := search.NewTree(scorer, canary[:prefix], choices)
	if err != nil {
		return Extraction{}, err
	}
	best, err := beamSearch(tree, width)
	if err != nil {
		return Extraction{}, err
	}
	own, err := tree.Cost(canary[prefix:])
	return Extraction{
		Best: best.words, LogPerplexity: best.cost, CanaryLogPerplexity: own, Found: slices.Equal(best.words, canary[prefix:]),
	}, err
}

// candidate is a sequence that the beam may keep.
type candidate struct {
	words  []int32
	cost   float64
	parent int // row among the states before its last word
}

func compareCandidates(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), slices.Compare(a.words, b.words))
}

// beamSearch returns the best sequence that a beam of this width finds. Width 1 is greedy decoding.
func beamSearch(tree *search.Tree, width int) (candidate, error) {
	states, next := tree.Root, new(models.States)
	beam := []candidate{{}}
	for i, among := range tree.Choices {
		if i > 0 {
			if err := follow(tree, next, states, beam); err != nil {
				return candidate{}, err
			}
			states, next = next, new(models.States)
		}
		var err error
		if beam, err = extend(tree, states, beam, among, width); err != nil {
			return candidate{}, err
		}
	}
	return beam[0], nil
}

// extend returns the width best sequences that extend the beam by one word, best first.
func extend(tree *search.Tree, states *models.States, beam []candidate, among []int32, width int) ([]candidate, error) {
	rows, err := tree.Expand(states)
	if err != nil {
		return nil, err
	}
	var longer []candidate
	for i, c := range beam {
		for _, word := range cheapestWords(rows.LogProbs(i), among, width) {
			cost, err := rows.Cost(i, word)
			if err != nil {
				return nil, err
			}
			longer = append(longer, candidate{append(slices.Clone(c.words), word), c.cost + cost, i})
		}
	}
	slices.SortFunc(longer, compareCandidates)
	return longer[:min(width, len(longer))], nil
}

// cheapestWords returns the n most probable of the ascending words. No sequence of the next beam ends in
// another word.
func cheapestWords(row []float32, among []int32, n int) []int32 {
	best := make([]int32, 0, n+1)
	for _, word := range among {
		if len(best) == n && row[word] <= row[best[n-1]] {
			continue
		}
		at := len(best)
		for at > 0 && row[word] > row[best[at-1]] {
			at--
		}
		best = slices.Insert(best, at, word)
		best = best[:min(n, len(best))]
	}
	return best
}

func follow(tree *search.Tree, next, states *models.States, beam []candidate) error {
	parents, words := make([]int, len(beam)), make([]int32, len(beam))
	for i, c := range beam {
		parents[i], words[i] = c.parent, c.words[len(c.words)-1]
	}
	return tree.Follow(next, states, parents, words)
}

type SummaryParams struct {
	Parts int `json:"parts"`
	Width int `json:"width"`
}

// Summary joins the extractions of all canaries. population.PartsInput has the vocabulary.
var Summary = tasks.Kind{Name: "audits/beam-search-summary", Version: 1, Class: tasks.Compute, Run: audits.SummaryRun(measures, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *SummaryParams, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	extractions, err := audits.ReadParts[Extraction](ctx, t, ExtractionsBlob, len(placed), audits.PartInputs(p.Parts)...)
	if err != nil {
		return nil, nil, err
	}
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return nil, nil, err
	}
	outcomes := make([]CanaryOutcome, len(extractions))
	for i := range extractions {
		if outcomes[i], err = extractions[i].CanaryOutcome(vocabulary); err != nil {
			return nil, nil, fmt.Errorf("canary %d: %w", i, err)
		}
	}
	found, err := audits.Count(placed, func(canary int) bool { return extractions[canary].Found })
	return &Outcome{Memorized: found.Memorized, Of: found.Of, Width: p.Width, Lowest: found.Lowest}, outcomes, err
}

// CanaryOutcome returns the extraction with the words of a vocabulary.
func (e *Extraction) CanaryOutcome(v *text.Vocabulary) (CanaryOutcome, error) {
	best, err := audits.Words(v, e.Best)
	return CanaryOutcome{Found: &e.Found, Best: best, LogPerplexity: &e.LogPerplexity, CanaryLogPerplexity: &e.CanaryLogPerplexity}, err
}
