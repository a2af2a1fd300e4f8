package samples

import (
	"context"

	"coalmine/models"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/canaries/prefixtree"
	"coalmine/tasks/audits/canaries/search"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets"
)

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
