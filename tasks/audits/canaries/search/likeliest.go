package search

import (
	"context"

	"coalmine/tasks/audits/canaries/prefixtree"
)

// Searched is what a search for nothing in particular has found.
type Searched struct {
	Progress
	// Certain is how many of the best sequences are certain to be the best of all.
	Certain int `json:"certain"`
	// Stop is why the search has ended.
	Stop Stop `json:"stop"`
}

// Likeliest searches a tree for its most likely sequences, and ends at so many expansions at
// the latest. It is told how many there were.
func Likeliest(ctx context.Context, tree *prefixtree.Tree, s Settings, expansions int, report func(expanded int)) (Searched, error) {
	w := newWalk(tree, s)
	stop, err := w.run(ctx, expansions, report)
	return Searched{w.Progress, w.certain(), stop}, err
}
