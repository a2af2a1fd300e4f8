// Package search finds the sequences that a model holds most likely, by a shortest-path
// search through the tree of all sequences after a prefix (Carlini et al. 2019, section
// 8), and reports whether the canary is the first of them:
//
//	audits/search          a part of a search after the prefix of some canaries, under one checkpoint
//	audits/search-summary  the searches of all canaries, and the outcome
//
// The search pulls the cheapest nodes from a queue, computes their children, and puts
// these into the queue. No edge has a negative cost; so nodes in the queue cannot become
// cheaper, and a whole sequence that costs less than all of them is certain to be the
// best. With one node pulled at a time this is Dijkstra's algorithm. With many it does
// unnecessary work, but in larger matrices.
//
// A long search is a sequence of tasks. Each continues with the nodes and the queue of the
// one before, with the same result as a single task, to the bit.
package search

import (
	"context"
	"fmt"
	"slices"

	"coalmine/models"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

type Params struct {
	canaries.Space
	Prefix int `json:"prefix"`
	// First is the canary whose prefix the search follows. Count is the number of canaries with this prefix:
	// more than one if the format fixes it. GroupFirst is the first canary of the same space. A canary before
	// First may have the same prefix by chance.
	First      int `json:"first"`
	Count      int `json:"count"`
	GroupFirst int `json:"group_first"`
	Settings
	// Part counts the tasks of one search from 0. Each ends when Expansions nodes are expanded in total, and
	// keeps its frontier unless it is the Last.
	Part       int  `json:"part"`
	Expansions int  `json:"expansions"`
	Last       bool `json:"last"`
}

// Kind is a part of a search. Inputs: the checkpoint, the canaries, and from the second part on
// tasks.PreviousInput, the part before. Blobs: FoundBlob and, if the search continues, FrontierBlob.
var Kind = tasks.Kind{Name: "audits/search", Version: 1, Class: tasks.Compute, Run: audits.Finds(FoundBlob, find)}

// FoundBlob is a Found, as JSON.
const FoundBlob = "found"

// Found is the state of a search after a part.
type Found struct {
	// SameAs is an earlier canary with the same prefix; then its search is shared, and Searched is zero.
	SameAs *int `json:"same_as,omitempty"`
	Searched
	// Sequences is the number of sequences after the prefix.
	Sequences float64 `json:"sequences"`
	// Canaries are the suffixes of the canaries, with their costs after the prefix.
	Canaries []Sequence `json:"canaries"`
}

func find(ctx context.Context, t *tasks.Task, p *Params) (*Found, error) {
	found, err := p.begin(ctx, t)
	if err == nil && found.SameAs == nil && (found.Stop == "" || found.Stop == Expansions) {
		err = p.search(ctx, t, found)
	}
	return found, err
}

func (p *Params) begin(ctx context.Context, t *tasks.Task) (*Found, error) {
	if p.Part == 0 {
		return p.first(ctx, t)
	}
	found := new(Found)
	err := t.InputJSON(ctx, tasks.PreviousInput, FoundBlob, found)
	return found, err
}

func (p *Params) first(ctx context.Context, t *tasks.Task) (*Found, error) {
	tree, list, err := p.read(ctx, t)
	if err != nil {
		return nil, err
	}
	found := &Found{Sequences: tree.Leaves()}
	for i := p.GroupFirst; i < p.First && found.SameAs == nil; i++ {
		if slices.Equal(list[i].Tokens[:p.Prefix], list[p.First].Tokens[:p.Prefix]) {
			found.SameAs = &i
		}
	}
	for i, c := range list[p.First : p.First+p.Count] {
		suffix := c.Tokens[p.Prefix:]
		cost, err := tree.Cost(suffix)
		if err != nil {
			return nil, tasks.Permanent(fmt.Errorf("canary %d: %w", p.First+i, err))
		}
		found.Canaries = append(found.Canaries, Sequence{suffix, cost})
	}
	return found, nil
}

// read reads the canaries, and the model as the tree after the prefix of the first canary.
func (p *Params) read(ctx context.Context, t *tasks.Task) (*Tree, []population.Placement, error) {
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, nil, err
	}
	list, choices, err := audits.ReadSuffixes(ctx, t, p.Space, p.Prefix, scorer)
	if err != nil {
		return nil, nil, err
	}
	tree, err := p.tree(scorer, choices, list)
	if err != nil {
		return nil, nil, tasks.Permanent(err)
	}
	return tree, list, nil
}

func (p *Params) tree(scorer *models.Scorer, choices [][]int32, list []population.Placement) (*Tree, error) {
	if p.GroupFirst < 0 || p.GroupFirst > p.First || p.Count < 1 || p.First+p.Count > len(list) {
		return nil, fmt.Errorf("canaries %d to %d of a group from %d on, out of %d", p.First, p.First+p.Count-1, p.GroupFirst, len(list))
	}
	for i, c := range list[p.GroupFirst : p.First+p.Count] {
		if len(c.Tokens) != p.Words {
			return nil, fmt.Errorf("canary %d has %d tokens, its space %d", p.GroupFirst+i, len(c.Tokens), p.Words)
		}
	}
	return NewTree(scorer, list[p.First].Tokens[:p.Prefix], choices)
}

// search continues the search until the end of this part.
func (p *Params) search(ctx context.Context, t *tasks.Task, found *Found) error {
	tree, _, err := p.read(ctx, t)
	if err != nil {
		return err
	}
	w := newWalk(tree, p.Settings)
	w.Progress = found.Progress
	if p.Part > 0 {
		data, err := t.Blob(ctx, tasks.PreviousInput, FrontierBlob)
		if err != nil {
			return err
		}
		if err := w.load(data); err != nil {
			return err
		}
	}
	found.Searched, err = w.run(ctx, p.Expansions, func(expanded int) {
		t.Progress(tasks.Progress{Done: int64(expanded), Total: int64(p.Expansions)})
	})
	if err != nil {
		return tasks.Permanent(err)
	}
	if found.Stop != Expansions || p.Last {
		return nil
	}
	return t.Put(ctx, FrontierBlob, w.save())
}

type SummaryParams struct {
	// Parts are the last tasks of the searches.
	Parts int `json:"parts"`
}

// Summary joins the searches of all canaries, in their order. population.PartsInput has the vocabulary.
var Summary = tasks.Kind{Name: "audits/search-summary", Version: 1, Class: tasks.Compute, Run: audits.SummaryRun(measures, summarize)}

func summarize(ctx context.Context, t *tasks.Task, p *SummaryParams, placed []population.Placement) (*Outcome, []CanaryOutcome, error) {
	vocabulary, err := text.ReadVocabulary(ctx, t, population.PartsInput)
	if err != nil {
		return nil, nil, err
	}
	searches, err := readSearches(ctx, t, p.Parts, len(placed))
	if err != nil {
		return nil, nil, err
	}
	v := new(Outcome)
	var outcomes []CanaryOutcome
	for _, s := range searches {
		v.count(s)
		for _, canary := range s.canaries {
			o, err := s.found.outcome(canary, vocabulary)
			if err != nil {
				return nil, nil, fmt.Errorf("canary %d: %w", len(outcomes), err)
			}
			outcomes = append(outcomes, o)
		}
	}
	found, err := audits.Count(placed, func(canary int) bool { return *outcomes[canary].Extracted })
	v.Extracted, v.Of, v.Lowest = found.Memorized, found.Of, found.Lowest
	return v, outcomes, err
}

// search holds the canaries of a part and their search, which an earlier canary with the same prefix may
// share.
type search struct {
	canaries []Sequence
	found    *Found
	shared   bool
}

func readSearches(ctx context.Context, t *tasks.Task, parts, canaries int) ([]search, error) {
	searches := make([]search, parts)
	var byCanary []*Found
	for i := range searches {
		found := new(Found)
		if err := t.InputJSON(ctx, tasks.PartInput(i), FoundBlob, found); err != nil {
			return nil, err
		}
		searches[i] = search{found.Canaries, found, found.SameAs != nil}
		if same := found.SameAs; same != nil {
			if *same < 0 || *same >= len(byCanary) {
				return nil, fmt.Errorf("search %d is the same as that of canary %d of %d: %w", i, *same, len(byCanary), storage.ErrCorrupt)
			}
			searches[i].found = byCanary[*same]
		}
		byCanary = append(byCanary, slices.Repeat([]*Found{searches[i].found}, len(found.Canaries))...)
	}
	if len(byCanary) != canaries {
		return nil, tasks.Permanent(fmt.Errorf("searches for %d canaries of %d", len(byCanary), canaries))
	}
	return searches, nil
}

func (f *Found) outcome(canary Sequence, v *text.Vocabulary) (CanaryOutcome, error) {
	o := CanaryOutcome{
		Extracted: new(false), Certain: new(int64(f.Certain)), CanaryLogPerplexity: &canary.LogPerplexity,
		Expanded: new(int64(f.Expanded)), Iterations: new(int64(f.Iterations)), Sequences: &f.Sequences, Ratio: new(f.Sequences / float64(max(1, f.Expanded))),
		Stop: &f.Stop, Complete: new(f.Stop.complete()),
	}
	for i, s := range f.Best {
		words, err := audits.Words(v, s.Tokens)
		if err != nil {
			return CanaryOutcome{}, err
		}
		o.Results = append(o.Results, Result{words, s.LogPerplexity})
		if slices.Equal(s.Tokens, canary.Tokens) {
			o.Rank, o.RankExact, o.Extracted = new(int64(i+1)), new(i < f.Certain), new(i == 0)
		}
	}
	return o, nil
}
