// Package samples draws sequences from a trained model and says what they are like, as
// someone does who must not look at the data that the model was trained on (Augenstein et
// al. 2020, section 5):
//
//	audits/samples          some of the samples of one checkpoint
//	audits/samples-search   its most likely sequences of all, by a shortest-path search
//	audits/samples-summary  the statistics of all samples, and the outcome
//
// Of a model of words it counts those out of vocabulary, by their position in the sentence;
// of a model of bytes the words that it writes, by their probability, and which of them
// hold a space.
package samples

import (
	"context"
	"math/rand/v2"

	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/prefixtree"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// Params are the parameters of audits/samples.
type Params struct {
	Seed uint64 `json:"seed"`
	// First is the number of the first sample that this task draws, Count how many.
	First int `json:"first"`
	Count int `json:"count"`
	// Length is the number of tokens at which a sample is cut, that of its end among them.
	Length int `json:"length"`
	models.Sampling
}

// Kind draws samples after Begin. Sample i draws from stream i of seeds.Samples, so that it
// is the same in whatever task. Its input is audits.ModelInput, its blob DrawnBlob.
var Kind = tasks.Kind{Name: "audits/samples", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(run)}

// DrawnBlob is a JSON array of Drawn.
const DrawnBlob = "drawn"

// Drawn is a sample.
type Drawn struct {
	// Tokens are those after Begin, End among them where the sample was not cut before.
	Tokens []int32 `json:"tokens"`
	// LogProbability is the natural logarithm of their joint probability under the model
	// (Augenstein et al. 2020, equation 1), whatever the sampling.
	LogProbability float64 `json:"log_probability"`
}

// words are the tokens before the end, and whether there is one.
func (d *Drawn) words() (words []int32, ended bool) {
	last := len(d.Tokens) - 1
	if last >= 0 && d.Tokens[last] == datasets.End {
		return d.Tokens[:last], true
	}
	return d.Tokens, false
}

func run(ctx context.Context, t *tasks.Task, p *Params) error {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	drawn := make([]Drawn, 0, p.Count)
	for _, span := range audits.Split(p.Count, Together) {
		if err := ctx.Err(); err != nil {
			return err
		}
		samples, err := p.draw(scorer, p.First+span.First, span.Count)
		if err != nil {
			return tasks.Permanent(err)
		}
		for _, s := range samples {
			drawn = append(drawn, Drawn(s))
		}
		t.Progress(tasks.Progress{Done: int64(len(drawn)), Total: int64(p.Count)})
	}
	return t.PutJSON(ctx, DrawnBlob, drawn)
}

// Together is how many samples are drawn at once, as a rule. It does not show in any result.
const Together = 1000

func (p *Params) draw(scorer *models.Scorer, first, count int) ([]models.Sample, error) {
	return Draw(scorer, models.Draw{Sampling: p.Sampling, Prefix: []int32{datasets.Begin}, End: datasets.End, AtMost: p.Length}, p.Seed, first, count)
}

// Draw draws the samples of these numbers.
func Draw(scorer *models.Scorer, d models.Draw, seed uint64, first, count int) ([]models.Sample, error) {
	streams := make([]*rand.Rand, count)
	for i := range streams {
		streams[i] = seeds.Stream(seed, seeds.Samples, uint64(first+i))
	}
	return scorer.Sample(d, streams)
}

// SearchParams are the parameters of audits/samples-search.
type SearchParams struct {
	// Length is the most tokens that a sequence may have, its end among them.
	Length int `json:"length"`
	search.Settings
	// Expansions is how many nodes the search may expand.
	Expansions int `json:"expansions"`
}

// Search finds the most likely of all sequences that end within the length, of ordinary
// tokens and Unknown, without the empty one. It needs no sample, and proves what it finds.
// Its input is audits.ModelInput, its blob SearchedBlob.
var Search = tasks.Kind{Name: "audits/samples-search", Version: 1, Class: tasks.Compute, Run: tasks.WithParams(runSearch)}

// SearchedBlob is a search.Searched, as JSON.
const SearchedBlob = "searched"

func runSearch(ctx context.Context, t *tasks.Task, p *SearchParams) error {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	tree, err := p.tree(scorer)
	if err != nil {
		return tasks.Permanent(err)
	}
	found, err := search.Likeliest(ctx, tree, p.Settings, p.Expansions, func(expanded int) {
		t.Progress(tasks.Progress{Done: int64(expanded), Total: int64(p.Expansions)})
	})
	if err != nil {
		return tasks.Permanent(err)
	}
	return t.PutJSON(ctx, SearchedBlob, found)
}

// tree has a word at least, and the end at the last place at the latest.
func (p *SearchParams) tree(scorer *models.Scorer) (*prefixtree.Tree, error) {
	words := []int32{datasets.Unknown}
	for token := int32(datasets.FirstWord); int(token) < scorer.Model().Config().Vocabulary; token++ {
		words = append(words, token)
	}
	more := append([]int32{datasets.Unknown, datasets.End}, words[1:]...)
	choices := [][]int32{words}
	for len(choices)+1 < p.Length {
		choices = append(choices, more)
	}
	return prefixtree.NewEnding(scorer, nil, append(choices, []int32{datasets.End}), datasets.End)
}
