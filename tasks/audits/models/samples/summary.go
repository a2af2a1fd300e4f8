package samples

import (
	"context"
	"fmt"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

// SummaryParams are the parameters of audits/samples-summary.
type SummaryParams struct {
	Seed uint64 `json:"seed"`
	// Parts are the tasks that drew the samples, Count of them in all.
	Parts int `json:"parts"`
	Count int `json:"count"`
	// Length and Sampling are those of the parts.
	Length int `json:"length"`
	models.Sampling
	// Shown is how many samples, and how many of the most probable sequences, are listed.
	Shown int `json:"shown"`
	// Significance of the tests.
	Significance float64 `json:"significance"`
	// Searched says that there is SearchInput.
	Searched bool `json:"searched,omitempty"`
}

// SearchInput of audits/samples-summary is audits/samples-search.
const SearchInput = "search"

// Summary says what the samples of one checkpoint are like. Its inputs are the parts in
// their order, audits.ModelInput, datasets.PartsInput for the words of tokens, and
// SearchInput where there was a search. Its blob is audits.OutcomeBlob, its metrics Metrics.
var Summary = tasks.Kind{Name: "audits/samples-summary", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runSummary)}

// Metrics are the numbers of an outcome that the curve keeps, in percent. Those of words are nil for a
// model of bytes, and the other way round.
type Metrics struct {
	FirstUnknown *float64 `json:"samples_first_unknown_percent,omitempty"`
	Unknown      *float64 `json:"samples_unknown_percent,omitempty"`
	WithSpace    *float64 `json:"samples_with_space_percent,omitempty"`
}

func runSummary(ctx context.Context, t *tasks.Task, p *SummaryParams) error {
	samples, err := audits.ReadParts[Drawn](ctx, t, p.Parts, DrawnBlob, p.Count)
	if err != nil {
		return err
	}
	vocabulary, err := datasets.ReadVocabulary(ctx, t, datasets.PartsInput)
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
	if err := t.PutJSON(ctx, audits.OutcomeBlob, v); err != nil {
		return err
	}
	return t.SetMetrics(v.metrics())
}

// describe lists and counts the samples.
func (p *SummaryParams) describe(r Reader, samples []Drawn) (*Outcome, error) {
	v := &Outcome{Samples: len(samples), Length: p.Length, Sampling: p.Sampling, Significance: p.Significance, MostProbable: []Text{}, Shown: []Text{}}
	for i := range samples {
		if _, ended := samples[i].words(); !ended {
			v.Cut++
		}
	}
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

// judge adds the statistics that the level has.
func (p *SummaryParams) judge(ctx context.Context, t *tasks.Task, level datasets.Level, v *Outcome, samples []Drawn) error {
	if level == datasets.ByteLevel {
		top := v.top()
		v.Spaces = &Spaces{Samples: countSpaces(samples), Of: len(top)}
		for _, text := range top {
			if text.spaced {
				v.Spaces.Top++
			}
		}
		return nil
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return err
	}
	v.Unknown = p.countUnknown(samples)
	if v.Unknown.FirstProbability, err = firstUnknown(scorer); err != nil {
		return tasks.Permanent(err)
	}
	return nil
}

// readSearch takes in what the search has found.
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

// metrics are those of an outcome.
func (v *Outcome) metrics() Metrics {
	var m Metrics
	if u := v.Unknown; u != nil {
		m.Unknown = percent(u.All.Share)
		if len(u.Positions) > 0 {
			m.FirstUnknown = percent(u.Positions[0].Share)
		}
	}
	if v.Spaces != nil {
		m.WithSpace = percent(v.Spaces.Samples.Share)
	}
	return m
}

func percent(share float64) *float64 { return new(100 * share) }
