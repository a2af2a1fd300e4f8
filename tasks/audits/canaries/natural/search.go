package natural

import (
	"context"
	"slices"

	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/prefixtree"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
)

// Searched is the outcome of a search through all sequences of a finding's form.
type Searched struct {
	// Extracted says that the search has proved the finding to be the most likely of them.
	Extracted bool `json:"extracted"`
	Expanded  int  `json:"expanded"`
}

// settings of a search. Memory is the default of audit.search, and so is Batch.
var settings = search.Settings{Batch: 64, Results: 1, Prove: 1, Memory: 256 << 20}

// search looks for a finding after its context. The last digit of a card number is as open
// as the others.
func (p *Params) search(ctx context.Context, t *tasks.Task, s space, f *Finding) (*Searched, error) {
	if p.Search == 0 {
		return nil, nil
	}
	scorer, err := checkpoints.ReadScorer(ctx, t, audits.ModelInput)
	if err != nil {
		return nil, err
	}
	tree, err := prefixtree.New(scorer, f.Context, s.tokens())
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	found, err := search.Likeliest(ctx, tree, settings, p.Search, func(int) {})
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	return &Searched{found.Certain > 0 && slices.Equal(found.Best[0].Tokens, f.Secret), found.Expanded}, nil
}

// tokens are the choices, ascending.
func (s space) tokens() [][]int32 {
	all := make([][]int32, len(s.choices))
	for i, among := range s.choices {
		all[i] = tokensOf(among)
		slices.Sort(all[i])
	}
	return all
}
