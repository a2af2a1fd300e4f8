// Package samples draws sequences from a trained model and describes them, for a modeler without
// access to the training data (Augenstein et al. 2020, section 5):
//
//	audits/samples          some samples of one checkpoint
//	audits/samples-search   its most likely sequences, by a shortest-path search
//	audits/samples-summary  the statistics of all samples, and the outcome
//
// For a model of words it counts unknown words by position. For a model of bytes it lists the most
// probable words, and counts those with a space.
package samples

import (
	"context"
	"fmt"
	"math/rand/v2"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	Seed uint64 `json:"seed"`
	// First is the number of the task's first sample.
	First int `json:"first"`
	Count int `json:"count"`
	// Length is the number of tokens, including the end, at which a sample is cut.
	Length int `json:"length"`
	models.Sampling
}

// Kind draws samples after Begin. Sample i draws from stream i of seeds.Samples, the same in any task. Its
// input is audits.ModelInput, its blob DrawnBlob.
var Kind = tasks.Kind{Name: "audits/samples", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(run)}

// DrawnBlob is a JSON array of Drawn.
const DrawnBlob = "drawn"

// Drawn is a sample.
type Drawn struct {
	// Tokens are the tokens after Begin, with End unless the sample was cut.
	Tokens []int32 `json:"tokens"`
	// LogProbability is the natural logarithm of their joint probability under the model (Augenstein et al.
	// 2020, equation 1), for any sampling.
	LogProbability float64 `json:"log_probability"`
}

// words returns the tokens before the end, and whether there is an end.
func (d *Drawn) words() (words []int32, ended bool) {
	last := len(d.Tokens) - 1
	if last >= 0 && d.Tokens[last] == text.End {
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
		drawn = append(drawn, lists.Map(samples, func(s models.Sample) Drawn { return Drawn(s) })...)
		t.Progress(tasks.Progress{Done: int64(len(drawn)), Total: int64(p.Count)})
	}
	return t.PutJSON(ctx, DrawnBlob, drawn)
}

// Together is the number of samples that are drawn at once. It does not affect results.
const Together = 1000

func (p *Params) draw(scorer *models.Scorer, first, count int) ([]models.Sample, error) {
	return Draw(scorer, models.Draw{Sampling: p.Sampling, Prefix: []int32{text.Begin}, End: text.End, AtMost: p.Length}, p.Seed, first, count)
}

// Draw draws count samples, starting with number first.
func Draw(scorer *models.Scorer, d models.Draw, seed uint64, first, count int) ([]models.Sample, error) {
	return scorer.Sample(d, lists.Make(count, func(i int) *rand.Rand { return seeds.Stream(seed, seeds.Samples, uint64(first+i)) }))
}

type SearchParams struct {
	// Length bounds the tokens of a sequence, including its end.
	Length int `json:"length"`
	search.Settings
	// Expansions bounds the expanded nodes.
	Expansions int `json:"expansions"`
}

// Search finds and proves the most likely of all sequences that end within the length, of ordinary tokens and
// Unknown, except the empty one. Its input is audits.ModelInput, its blob SearchedBlob.
var Search = tasks.Kind{Name: "audits/samples-search", Version: 1, Class: tasks.Compute, Run: audits.Finds(SearchedBlob, likeliest)}

// SearchedBlob is a search.Searched, as JSON.
const SearchedBlob = "searched"

func likeliest(ctx context.Context, t *tasks.Task, p *SearchParams) (found search.Searched, err error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return found, err
	}
	tree, err := p.tree(scorer)
	if err == nil {
		found, err = search.Likeliest(ctx, tree, p.Settings, p.Expansions, func(expanded int) {
			t.Progress(tasks.Progress{Done: int64(expanded), Total: int64(p.Expansions)})
		})
	}
	return found, tasks.Permanent(err)
}

// tree returns the tree of the sequences of at least one word that end at place Length at the latest.
func (p *SearchParams) tree(scorer *models.Scorer) (*search.Tree, error) {
	words := []int32{text.Unknown}
	for token := int32(text.FirstWord); int(token) < scorer.Model().Config().Vocabulary; token++ {
		words = append(words, token)
	}
	more := append([]int32{text.Unknown, text.End}, words[1:]...)
	choices := [][]int32{words}
	for len(choices)+1 < p.Length {
		choices = append(choices, more)
	}
	return search.NewTree(scorer, nil, append(choices, []int32{text.End}), text.End)
}

type SummaryParams struct {
	Seed uint64 `json:"seed"`
	// Parts is the number of tasks that drew Count samples, by Length and Sampling.
	Parts  int `json:"parts"`
	Count  int `json:"count"`
	Length int `json:"length"`
	models.Sampling
	// Shown is the number of listed samples, and of most probable sequences.
	Shown        int     `json:"shown"`
	Significance float64 `json:"significance"`
	// Searched reports whether there is SearchInput.
	Searched bool `json:"searched,omitempty"`
}

// SearchInput of audits/samples-summary is audits/samples-search.
const SearchInput = "search"

// Summary describes the samples of one checkpoint. Its inputs are the parts in their order,
// audits.ModelInput, population.PartsInput, and SearchInput if there was a search. Its blob is
// audits.OutcomeBlob, its metrics the numbers of curves.
var Summary = tasks.Kind{Name: "audits/samples-summary", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runSummary)}

func runSummary(ctx context.Context, t *tasks.Task, p *SummaryParams) error {
	samples, err := audits.ReadParts[Drawn](ctx, t, DrawnBlob, p.Count, audits.PartInputs(p.Parts)...)
	if err != nil {
		return err
	}
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return err
	}
	v, err := p.describe(NewReader(vocabulary), samples)
	if err != nil {
		return err
	}
	if p.Searched {
		if err := v.readSearch(ctx, t, NewReader(vocabulary)); err != nil {
			return err
		}
	}
	if err := p.judge(ctx, t, vocabulary.Level(), v, samples); err != nil {
		return err
	}
	return audits.PutOutcome(ctx, t, measures, v)
}

func (p *SummaryParams) describe(r Reader, samples []Drawn) (*Outcome, error) {
	v := &Outcome{Samples: len(samples), Length: p.Length, Sampling: p.Sampling, Significance: p.Significance, MostProbable: []Text{}, Shown: []Text{}}
	v.Cut = lists.Count(samples, func(d Drawn) bool { _, ended := d.words(); return !ended })
	for i := range samples[:min(p.Shown, len(samples))] {
		text, err := r.Text(&samples[i])
		if err != nil {
			return nil, fmt.Errorf("sample %d: %w", i, err)
		}
		v.Shown = append(v.Shown, text)
	}
	all := distinct(samples)
	v.Distinct = len(all)
	for _, c := range all[:min(p.Shown, len(all))] {
		text, err := r.Text(c.Drawn)
		if err != nil {
			return nil, err
		}
		text.Drawn = c.drawn
		v.MostProbable = append(v.MostProbable, text)
	}
	return v, nil
}

// judge adds the statistics of the level.
func (p *SummaryParams) judge(ctx context.Context, t *tasks.Task, level text.Level, v *Outcome, samples []Drawn) error {
	if level == text.ByteLevel {
		top := v.top()
		v.Spaces = &Spaces{Samples: countSpaces(samples), Of: len(top), Top: lists.Count(top, func(text Text) bool { return text.spaced })}
		return nil
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	v.Unknown = p.countUnknown(samples)
	v.Unknown.FirstProbability, err = firstUnknown(scorer)
	return tasks.Permanent(err)
}

// readSearch adds the results of the search.
func (v *Outcome) readSearch(ctx context.Context, t *tasks.Task, r Reader) error {
	var found search.Searched
	if err := t.InputJSON(ctx, SearchInput, SearchedBlob, &found); err != nil {
		return err
	}
	v.Search = &Searched{Certain: found.Certain, Expanded: found.Expanded, Stop: found.Stop, Words: []Text{}}
	for _, s := range found.Best {
		text, err := r.Text(&Drawn{s.Tokens, -s.LogPerplexity})
		if err != nil {
			return err
		}
		v.Search.Words = append(v.Search.Words, text)
		v.Search.Probability += text.Probability
	}
	return nil
}
