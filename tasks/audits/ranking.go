package audits

import (
	"context"
	"slices"

	"coalmine/models"
	"coalmine/tasks/datasets"
)

// blockStates is how many sequences are advanced together. It does not show in
// any result: a state's numbers do not depend on its neighbours.
const blockStates = 1024

// exactSharing is the number of extensions of a state from which exact prices,
// for which one normaliser serves them all, pay at once. It shows in no result.
const exactSharing = 64

// ranker counts the references that a model finds at most as surprising as a
// canary, after the canary's prefix. It walks the sorted references as a tree:
// sequences with common first words share the steps through them, and a branch
// ends where its words alone already cost more than the whole canary, since
// every further word can only add to that.
//
// Most words are not priced exactly but bounded from below, which is cheaper by
// far (models.Walker.Bounds) and enough to end a branch. What is left at the end
// is priced exactly, on the canary's own path through the kernels, before it
// counts. So the count is exact.
type ranker struct {
	walker     *models.Walker
	references *References
	limit      float64 // the canary's log-perplexity, in nats
	found      int64
	levels     []level // by depth; the last holds whole references
}

// level holds the branches of one depth that are being visited.
type level struct {
	branches []branch
	states   *models.States // one for each branch
	children []branch       // those of the branches
	// For the prices of the extensions of the states.
	extensions []models.Extension
	logProbs   []float32
	bounds     []float64
}

// branch is a set of references with common first words: [first, end) of the
// sorted set.
type branch struct {
	models.Extension // of a state of the level above, by the last of the words
	first, end       int
	// price of the last word and cost of all words, in nats, or lower bounds of them.
	price, cost float64
	// exact says that the price is no mere bound; settled that the cost is none,
	// or that it exceeds the limit.
	exact, settled bool
}

func newRanker(walker *models.Walker, references *References) *ranker {
	r := &ranker{walker: walker, references: references, levels: make([]level, references.length+1)}
	for d := range r.levels {
		r.levels[d].states = new(models.States)
	}
	return r
}

// count returns how many references have a log-perplexity of at most limit
// after the state, which is that of begin and prefix.
func (r *ranker) count(ctx context.Context, state *models.States, limit float64) (int64, error) {
	r.limit, r.found = limit, 0
	r.levels[0].states = state
	r.levels[0].branches = []branch{{end: r.references.Count(), settled: true}}
	err := r.visit(ctx, 0)
	return r.found, err
}

// visit handles the branches of a level, whose states are known.
func (r *ranker) visit(ctx context.Context, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	children, err := r.price(depth, r.split(depth))
	if err != nil {
		return err
	}
	below := &r.levels[depth+1]
	if depth+1 == r.references.length {
		below.branches = children
		return r.settle()
	}
	for len(children) > 0 {
		below.branches = children[:min(blockStates, len(children))]
		children = children[len(below.branches):]
		below.extensions = extensionsOf(below.extensions[:0], below.branches)
		if err := r.walker.Advance(below.states, r.levels[depth].states, below.extensions); err != nil {
			return err
		}
		if err := r.visit(ctx, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// split returns the children of a level's branches: one for each distinct next word.
func (r *ranker) split(depth int) []branch {
	l := &r.levels[depth]
	l.children = l.children[:0]
	for parent, b := range l.branches {
		for first := b.first; first < b.end; {
			word := r.references.row(first)[depth]
			end := first + 1
			for end < b.end && r.references.row(end)[depth] == word {
				end++
			}
			l.children = append(l.children, branch{Extension: models.Extension{Parent: parent, Token: word}, first: first, end: end})
			first = end
		}
	}
	return l.children
}

// price finds what the children cost, or at least cost, and returns those that
// may still win.
func (r *ranker) price(depth int, children []branch) ([]branch, error) {
	l := &r.levels[depth]
	exact := len(children) >= exactSharing*len(l.branches)
	find := r.priceAtLeast
	if exact {
		find = r.priceExactly
	}
	if err := find(l, children); err != nil {
		return nil, err
	}
	kept := children[:0]
	for _, c := range children {
		parent := &l.branches[c.Parent]
		c.cost, c.exact, c.settled = parent.cost+c.price, exact, exact && parent.settled
		if !r.lost(c.cost) {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// lost says whether a branch that costs so much can no longer win. A NaN shows
// nothing until it is exact.
func (r *ranker) lost(cost float64) bool { return cost > r.limit }

func (r *ranker) priceExactly(l *level, children []branch) error {
	l.extensions = extensionsOf(l.extensions[:0], children)
	l.logProbs = slices.Grow(l.logProbs[:0], len(children))[:len(children)]
	err := r.walker.LogProbs(l.states, l.extensions, l.logProbs)
	for i := range children {
		children[i].price = surprise(l.logProbs[i])
	}
	return err
}

func (r *ranker) priceAtLeast(l *level, children []branch) error {
	l.extensions = extensionsOf(l.extensions[:0], children)
	l.bounds = slices.Grow(l.bounds[:0], len(children))[:len(children)]
	err := r.walker.Bounds(l.states, l.extensions, l.bounds)
	for i := range children {
		children[i].price = l.bounds[i]
	}
	return err
}

func extensionsOf(extensions []models.Extension, branches []branch) []models.Extension {
	for _, b := range branches {
		extensions = append(extensions, b.Extension)
	}
	return extensions
}

// settle makes the costs of whole references exact and counts those that win.
func (r *ranker) settle() error {
	last := len(r.levels) - 1
	whole := r.levels[last].branches
	every := make([]int, len(whole))
	for i := range every {
		every[i] = i
	}
	if err := r.resolve(last, every); err != nil {
		return err
	}
	for _, b := range whole {
		if b.cost <= r.limit {
			r.found += int64(b.end - b.first)
		}
	}
	return nil
}

// resolve settles the chosen branches of a level, given in ascending order, and
// first their parents.
func (r *ranker) resolve(depth int, chosen []int) error {
	branches := r.levels[depth].branches
	chosen = slices.DeleteFunc(chosen, func(i int) bool { return branches[i].settled })
	if len(chosen) == 0 {
		return nil
	}
	parents := make([]int, len(chosen))
	for at, i := range chosen {
		parents[at] = branches[i].Parent
	}
	if err := r.resolve(depth-1, slices.Compact(parents)); err != nil {
		return err
	}
	above := &r.levels[depth-1]
	var inexact []branch
	var places []int
	for _, i := range chosen {
		b := &branches[i]
		b.cost = above.branches[b.Parent].cost + b.price
		b.settled = b.exact || r.lost(b.cost)
		if !b.settled {
			inexact, places = append(inexact, *b), append(places, i)
		}
	}
	err := r.priceExactly(above, inexact)
	for at, i := range places {
		b := &branches[i]
		b.price, b.exact, b.settled = inexact[at].price, true, true
		b.cost = above.branches[b.Parent].cost + b.price
	}
	return err
}

// surprise is -log p in nats, never negative: rounding may put a certain word
// a hair above probability 1, and a branch must never become cheaper.
func surprise(logProb float32) float64 { return max(0, -float64(logProb)) }

// prefixState is the state after begin and the words.
func prefixState(scorer *models.Scorer, words []int32) (*models.States, error) {
	state := scorer.Start(1)
	for _, w := range append([]int32{datasets.Begin}, words...) {
		if err := scorer.Step(state, []int32{w}); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// logPerplexity is the sum of -log p over the words, in nats, each after the
// ones before it (Carlini et al. 2019, definition 1; Thakkar et al. 2020,
// section 4.1), after the state. It takes the same path through the kernels as
// the references.
func logPerplexity(walker *models.Walker, state *models.States, words []int32) (float64, error) {
	sum, logProb := 0.0, make([]float32, 1)
	for _, w := range words {
		extension := []models.Extension{{Token: w}}
		if err := walker.LogProbs(state, extension, logProb); err != nil {
			return 0, err
		}
		sum += surprise(logProb[0])
		next := new(models.States)
		if err := walker.Advance(next, state, extension); err != nil {
			return 0, err
		}
		state = next
	}
	return sum, nil
}
