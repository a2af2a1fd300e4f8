package randomsampling

import (
	"context"
	"slices"

	"coalmine/internal/lists"
	"coalmine/models"
	"coalmine/tasks/audits"
)

// blockStates is the number of sequences that are advanced together. It does not affect results.
const blockStates = 1024

// exactSharing is the number of edges of a state from which exact surprisals, which share one normaliser, are
// faster than bounds. It does not affect results.
const exactSharing = 64

// ranker counts the references whose log-perplexity, after a canary's prefix, is at most the canary's:
// a branch and bound over the prefix tree of the sorted references, which share the states of common
// first words. It prunes a branch whose words cost more than the whole canary.
//
// It bounds most surprisals from both sides (models.TreeScorer.Bounds), which is much faster than
// computing them and usually sufficient, and the word after a branch even before the branch's state
// (models.TreeScorer.AdvancePruned). Undecided references are computed at the end, by the same
// kernels as the canary. So the count is exact.
type ranker struct {
	tree       *models.TreeScorer
	references *References
	limit      float64 // the canary's log-perplexity, in nats
	bounds     *depthBounds
	found      []int32 // the draws of the references within the limit
	levels     []level // by depth; the last holds whole references
}

// level holds the visited branches of one depth.
type level struct {
	branches []branch
	states   *models.States // one for each branch
	children []branch       // children of the branches
	// For the children's surprisals and states.
	edges      []models.Edge
	candidates []models.Candidate
	logProbs   []float32
	intervals  []models.Interval
}

// branch is a set of references with common first words: [first, end) of the sorted set.
type branch struct {
	models.Edge // from a state of the level above, by the last of the words
	first, end  int
	// surprisal is the surprisal of the last word, cost the sum over all words, in nats.
	surprisal, cost models.Interval
	// closely is set once models.TreeScorer.CloseBounds has bounded the surprisal.
	closely bool
}

func exactly(nats float64) models.Interval { return models.Interval{Low: nats, High: nats} }

// addTo adds the surprisal to the cost before it. It adds the ends of intervals as single numbers, so that
// rounding keeps their order.
func (b *branch) addTo(before models.Interval) {
	b.cost = models.Interval{Low: before.Low + b.surprisal.Low, High: before.High + b.surprisal.High}
}

func newRanker(tree *models.TreeScorer, references *References) *ranker {
	r := &ranker{tree: tree, references: references, levels: make([]level, references.length+1)}
	for d := range r.levels {
		r.levels[d].states = new(models.States)
	}
	return r
}

// count returns the number of references with a log-perplexity of at most limit after the prefix of
// the bounds.
func (r *ranker) count(ctx context.Context, bounds *depthBounds, limit float64) (int64, error) {
	r.limit, r.bounds, r.found = limit, bounds, r.found[:0]
	r.levels[0].states = bounds.typical[0]
	r.levels[0].branches = []branch{{end: r.references.Count()}}
	err := r.visit(ctx, 0)
	return int64(len(r.found)), err
}

// foundWithin is the number of found references among the first n draws.
func (r *ranker) foundWithin(n int) int64 {
	return int64(lists.Count(r.found, func(draw int32) bool { return int(draw) < n }))
}

func (r *ranker) visit(ctx context.Context, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	children, err := r.prune(depth, r.split(depth))
	if err != nil {
		return err
	}
	if depth+1 == r.references.length {
		r.levels[depth+1].branches = children
		return r.settle()
	}
	for len(children) > 0 {
		block := children[:min(blockStates, len(children))]
		children = children[len(block):]
		if err := r.advance(depth+1, block); err != nil {
			return err
		}
		if err := r.visit(ctx, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// advance computes the states of the branches that the next word does not prune, and moves these to
// the front.
func (r *ranker) advance(depth int, branches []branch) error {
	normaliser, err := r.bounds.at(depth)
	if err != nil {
		return err
	}
	above, l := &r.levels[depth-1], &r.levels[depth]
	l.edges, l.candidates = edgesOf(l.edges[:0], branches), l.candidates[:0]
	for _, b := range branches {
		l.candidates = append(l.candidates, models.Candidate{Cost: b.cost.Low, Next: r.onlyWord(b, depth)})
	}
	kept, err := r.tree.AdvancePruned(l.states, above.states, l.edges, l.candidates, r.limit, normaliser)
	for to, from := range kept {
		branches[to] = branches[from]
	}
	l.branches = branches[:len(kept)]
	return err
}

// onlyWord is the common word of all references of a branch at a place, or NoToken.
func (r *ranker) onlyWord(b branch, place int) int32 {
	word := r.references.row(b.first)[place]
	if r.references.row(b.end - 1)[place] != word {
		return models.NoToken
	}
	return word
}

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
			l.children = append(l.children, branch{Edge: models.Edge{Parent: parent, Token: word}, first: first, end: end})
			first = end
		}
	}
	return l.children
}

// prune scores the children and returns those that may still be within the limit.
func (r *ranker) prune(depth int, children []branch) ([]branch, error) {
	l := &r.levels[depth]
	score := r.boundSurprisals
	if len(children) >= exactSharing*len(l.branches) {
		score = r.computeSurprisals
	}
	if err := score(depth, children); err != nil {
		return nil, err
	}
	kept := children[:0]
	for _, c := range children {
		c.addTo(l.branches[c.Parent].cost)
		if !r.exceeds(&c) {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// exceeds reports whether all references of a branch exceed the limit, within whether a whole
// reference does not. Neither holds for NaN.
func (r *ranker) exceeds(b *branch) bool { return b.cost.Low > r.limit }
func (r *ranker) within(b *branch) bool  { return b.cost.High <= r.limit }

func (r *ranker) computeSurprisals(depth int, children []branch) error {
	l := &r.levels[depth]
	l.edges = edgesOf(l.edges[:0], children)
	l.logProbs = slices.Grow(l.logProbs[:0], len(children))[:len(children)]
	err := r.tree.LogProbs(l.states, l.edges, l.logProbs)
	for i := range children {
		children[i].surprisal = exactly(audits.Surprisal(l.logProbs[i]))
	}
	return err
}

func (r *ranker) boundSurprisals(depth int, children []branch) error {
	normaliser, err := r.bounds.at(depth)
	if err != nil {
		return err
	}
	l := &r.levels[depth]
	l.edges = edgesOf(l.edges[:0], children)
	l.intervals = slices.Grow(l.intervals[:0], len(children))[:len(children)]
	err = r.tree.Bounds(normaliser, l.states, l.edges, l.intervals)
	for i := range children {
		children[i].surprisal = l.intervals[i]
	}
	return err
}

func edgesOf(edges []models.Edge, branches []branch) []models.Edge {
	for _, b := range branches {
		edges = append(edges, b.Edge)
	}
	return edges
}

// settle decides the whole references that the bounds leave undecided, by close bounds if the model has them and
// then by their exact surprisals, and counts those within the limit.
func (r *ranker) settle() error {
	last := len(r.levels) - 1
	whole := r.levels[last].branches
	all := func() []int { return lists.Make(len(whole), func(i int) int { return i }) }
	if r.bounds.tables.BoundsClosely() {
		bounded := func(b *branch) bool { return b.closely }
		if err := r.resolve(last, all(), bounded, r.boundClosely); err != nil {
			return err
		}
	}
	if err := r.resolve(last, all(), func(*branch) bool { return false }, r.computeSurprisals); err != nil {
		return err
	}
	for i := range whole {
		if r.within(&whole[i]) {
			r.found = append(r.found, r.references.drawn[whole[i].first:whole[i].end]...)
		}
	}
	return nil
}

// resolve scores the chosen branches of a level, ascending, after their parents, and adds up their costs. It
// scores no branch that exceeds the limit, no whole reference within it, and none that is done.
func (r *ranker) resolve(depth int, chosen []int, done func(*branch) bool, score func(depth int, children []branch) error) error {
	branches := r.levels[depth].branches
	settled := func(b *branch) bool {
		return b.cost.Low == b.cost.High || r.exceeds(b) || depth == len(r.levels)-1 && r.within(b)
	}
	chosen = slices.DeleteFunc(chosen, func(i int) bool { return settled(&branches[i]) })
	if len(chosen) == 0 {
		return nil
	}
	parents := lists.Map(chosen, func(i int) int { return branches[i].Parent })
	if err := r.resolve(depth-1, slices.Compact(parents), done, score); err != nil {
		return err
	}
	above := &r.levels[depth-1]
	var open []branch
	var places []int
	for _, i := range chosen {
		b := &branches[i]
		b.addTo(above.branches[b.Parent].cost)
		if !settled(b) && !done(b) {
			open, places = append(open, *b), append(places, i)
		}
	}
	err := score(depth-1, open)
	for at, i := range places {
		b := &branches[i]
		b.surprisal, b.closely = open[at].surprisal, true
		b.addTo(above.branches[b.Parent].cost)
	}
	return err
}

func (r *ranker) boundClosely(depth int, children []branch) error {
	l := &r.levels[depth]
	l.edges = edgesOf(l.edges[:0], children)
	l.intervals = slices.Grow(l.intervals[:0], len(children))[:len(children)]
	err := r.tree.CloseBounds(l.states, l.edges, l.intervals)
	for i, close := range l.intervals {
		was := children[i].surprisal
		children[i].surprisal = models.Interval{Low: max(was.Low, close.Low), High: min(was.High, close.High)}
	}
	return err
}

// typicalReferences is the number of references whose states bound the normaliser at each depth. It does not
// affect results.
const typicalReferences = 128

// depthBounds are bounds of the normaliser after one prefix for each depth of the prefix tree, tight
// near its typical states.
type depthBounds struct {
	tables     *models.Tables
	typical    []*models.States           // by depth: the prefix's state, then those of some references
	normaliser []*models.NormaliserBounds // by depth; nil until needed
}

func newDepthBounds(tables *models.Tables, state *models.States, references *References) (*depthBounds, error) {
	b := &depthBounds{tables: tables, typical: []*models.States{state}, normaliser: make([]*models.NormaliserBounds, references.length)}
	n := min(typicalReferences, references.Count())
	from, words := make([]int, n), make([]int32, n)
	for depth := range references.length - 1 {
		next := new(models.States)
		if err := next.Gather(b.typical[depth], from); err != nil {
			return nil, err
		}
		for i := range words {
			words[i] = references.row(i * references.Count() / n)[depth]
		}
		if err := tables.Scorer().Step(next, words); err != nil {
			return nil, err
		}
		b.typical = append(b.typical, next)
		for i := range from {
			from[i] = i
		}
	}
	return b, nil
}

func (b *depthBounds) at(depth int) (*models.NormaliserBounds, error) {
	if b.normaliser[depth] == nil {
		made, err := b.tables.NormaliserBounds(b.typical[depth])
		if err != nil {
			return nil, err
		}
		b.normaliser[depth] = made
	}
	return b.normaliser[depth], nil
}
