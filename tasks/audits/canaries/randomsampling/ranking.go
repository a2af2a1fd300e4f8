package randomsampling

import (
	"context"
	"slices"
	"sync"

	"coalmine/internal/goroutines"
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
// kernels as the canary. So the count is exact. It divides the branches among its walkers; their number
// affects neither the count nor the work.
type ranker struct {
	tables  *models.Tables
	length  int
	cores   *goroutines.Cores
	walkers []*walker // by lane of the cores; nil until needed
	// The current count.
	references *References
	limit      float64 // the canary's log-perplexity, in nats
	bounds     *depthBounds
}

// walker walks the branches below some first words, in one goroutine.
type walker struct {
	*ranker
	tree   *models.TreeScorer
	found  []int32 // the draws of the references within the limit
	levels []level // by depth; the last holds whole references
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

func newRanker(tables *models.Tables, length int, cores *goroutines.Cores) *ranker {
	return &ranker{tables: tables, length: length, cores: cores, walkers: make([]*walker, cores.Lanes())}
}

func (r *ranker) walker(lane int) *walker {
	w := r.walkers[lane]
	if w == nil {
		w = &walker{ranker: r, tree: r.tables.NewTreeScorer(), levels: make([]level, r.length+1)}
		for d := range w.levels {
			w.levels[d].states = new(models.States)
		}
		r.walkers[lane] = w
	}
	return w
}

// atRoot returns the walker of a lane, before the first word.
func (r *ranker) atRoot(lane int) *walker {
	w := r.walker(lane)
	w.levels[0].states = r.bounds.typical[0]
	w.levels[0].branches = []branch{{end: r.references.Count()}}
	return w
}

// used yields the walkers that are not nil.
func (r *ranker) used(yield func(*walker) bool) {
	for _, w := range r.walkers {
		if w != nil && !yield(w) {
			return
		}
	}
}

// count returns the number of references with a log-perplexity of at most limit after the prefix of
// the bounds.
func (r *ranker) count(ctx context.Context, references *References, bounds *depthBounds, limit float64) (int64, error) {
	r.references, r.limit, r.bounds = references, limit, bounds
	for w := range r.used {
		w.found = w.found[:0]
	}
	children, err := r.atRoot(0).open(ctx, 0)
	if err != nil {
		return 0, err
	}
	portions := portionsOf(children)
	err = r.cores.Each(ctx, len(portions), func(ctx context.Context, lane, i int) error {
		return r.atRoot(lane).enter(ctx, 1, portions[i])
	})
	return r.foundWithin(references.Count()), err
}

// foundWithin returns the number of found references among the first n draws.
func (r *ranker) foundWithin(n int) (count int64) {
	for w := range r.used {
		count += int64(lists.Count(w.found, func(draw int32) bool { return int(draw) < n }))
	}
	return count
}

// portionReferences is the number of references from which a part of the branches goes to a walker of its own: few, so
// that all cores end at about the same time and a borrowed one is soon given back, but enough for large
// matrices. It does not affect results.
const portionReferences = 8192

// portionsOf divides branches into portions of at most blockStates branches, with portionReferences references
// or slightly more.
func portionsOf(branches []branch) (portions [][]branch) {
	first, references := 0, 0
	for i, b := range branches {
		references += b.end - b.first
		if end := i + 1; references >= portionReferences || end-first == blockStates || end == len(branches) {
			portions = append(portions, branches[first:end])
			first, references = end, 0
		}
	}
	return portions
}

// open returns the children of a level's branches that may be within the limit. It settles children that are whole
// references, and returns none.
func (w *walker) open(ctx context.Context, depth int) ([]branch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	children, err := w.prune(depth, w.split(depth))
	if err != nil || depth+1 < w.length {
		return children, err
	}
	w.levels[depth+1].branches = children
	return nil, w.settle()
}

// enter advances to branches of a depth, and walks those below them.
func (w *walker) enter(ctx context.Context, depth int, branches []branch) error {
	if err := w.advance(depth, branches); err != nil {
		return err
	}
	children, err := w.open(ctx, depth)
	for len(children) > 0 && err == nil {
		block := children[:min(blockStates, len(children))]
		children = children[len(block):]
		err = w.enter(ctx, depth+1, block)
	}
	return err
}

// advance computes the states of the branches that the next word does not prune, and moves these to
// the front.
func (w *walker) advance(depth int, branches []branch) error {
	normaliser, err := w.bounds.at(depth)
	if err != nil {
		return err
	}
	above, l := &w.levels[depth-1], &w.levels[depth]
	l.edges, l.candidates = edgesOf(l.edges[:0], branches), l.candidates[:0]
	for _, b := range branches {
		l.candidates = append(l.candidates, models.Candidate{Cost: b.cost.Low, Next: w.onlyWord(b, depth)})
	}
	kept, err := w.tree.AdvancePruned(l.states, above.states, l.edges, l.candidates, w.limit, normaliser)
	for to, from := range kept {
		branches[to] = branches[from]
	}
	l.branches = branches[:len(kept)]
	return err
}

// onlyWord returns the common word of all references of a branch at a place, or NoToken.
func (w *walker) onlyWord(b branch, place int) int32 {
	word := w.references.row(b.first)[place]
	if w.references.row(b.end - 1)[place] != word {
		return models.NoToken
	}
	return word
}

func (w *walker) split(depth int) []branch {
	l := &w.levels[depth]
	l.children = l.children[:0]
	for parent, b := range l.branches {
		for first := b.first; first < b.end; {
			word := w.references.row(first)[depth]
			end := first + 1
			for end < b.end && w.references.row(end)[depth] == word {
				end++
			}
			l.children = append(l.children, branch{Edge: models.Edge{Parent: parent, Token: word}, first: first, end: end})
			first = end
		}
	}
	return l.children
}

// prune scores the children and returns those that may still be within the limit.
func (w *walker) prune(depth int, children []branch) ([]branch, error) {
	l := &w.levels[depth]
	score := w.boundSurprisals
	if len(children) >= exactSharing*len(l.branches) {
		score = w.computeSurprisals
	}
	if err := score(depth, children); err != nil {
		return nil, err
	}
	kept := children[:0]
	for _, c := range children {
		c.addTo(l.branches[c.Parent].cost)
		if !w.exceeds(&c) {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// exceeds reports whether all references of a branch exceed the limit, within whether a whole
// reference does not. Neither holds for NaN.
func (w *walker) exceeds(b *branch) bool { return b.cost.Low > w.limit }
func (w *walker) within(b *branch) bool  { return b.cost.High <= w.limit }

func (w *walker) computeSurprisals(depth int, children []branch) error {
	l := &w.levels[depth]
	l.edges = edgesOf(l.edges[:0], children)
	l.logProbs = slices.Grow(l.logProbs[:0], len(children))[:len(children)]
	err := w.tree.LogProbs(l.states, l.edges, l.logProbs)
	for i := range children {
		children[i].surprisal = exactly(audits.Surprisal(l.logProbs[i]))
	}
	return err
}

func (w *walker) boundSurprisals(depth int, children []branch) error {
	normaliser, err := w.bounds.at(depth)
	if err != nil {
		return err
	}
	l := &w.levels[depth]
	l.edges = edgesOf(l.edges[:0], children)
	l.intervals = slices.Grow(l.intervals[:0], len(children))[:len(children)]
	err = w.tree.Bounds(normaliser, l.states, l.edges, l.intervals)
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
func (w *walker) settle() error {
	last := len(w.levels) - 1
	whole := w.levels[last].branches
	all := func() []int { return lists.Make(len(whole), func(i int) int { return i }) }
	if w.tables.BoundsClosely() {
		bounded := func(b *branch) bool { return b.closely }
		if err := w.resolve(last, all(), bounded, w.boundClosely); err != nil {
			return err
		}
	}
	if err := w.resolve(last, all(), func(*branch) bool { return false }, w.computeSurprisals); err != nil {
		return err
	}
	for i := range whole {
		if w.within(&whole[i]) {
			w.found = append(w.found, w.references.drawn[whole[i].first:whole[i].end]...)
		}
	}
	return nil
}

// resolve scores the chosen branches of a level, ascending, after their parents, and adds up their costs. It
// scores no branch that exceeds the limit, no whole reference within it, and none that is done.
func (w *walker) resolve(depth int, chosen []int, done func(*branch) bool, score func(depth int, children []branch) error) error {
	branches := w.levels[depth].branches
	settled := func(b *branch) bool {
		return b.cost.Low == b.cost.High || w.exceeds(b) || depth == len(w.levels)-1 && w.within(b)
	}
	chosen = slices.DeleteFunc(chosen, func(i int) bool { return settled(&branches[i]) })
	if len(chosen) == 0 {
		return nil
	}
	parents := lists.Map(chosen, func(i int) int { return branches[i].Parent })
	if err := w.resolve(depth-1, slices.Compact(parents), done, score); err != nil {
		return err
	}
	above := &w.levels[depth-1]
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

func (w *walker) boundClosely(depth int, children []branch) error {
	l := &w.levels[depth]
	l.edges = edgesOf(l.edges[:0], children)
	l.intervals = slices.Grow(l.intervals[:0], len(children))[:len(children)]
	err := w.tree.CloseBounds(l.states, l.edges, l.intervals)
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
	typical    []*models.States                           // by depth: the prefix's state, then those of some references
	normaliser []func() (*models.NormaliserBounds, error) // by depth
}

func newDepthBounds(tables *models.Tables, state *models.States, references *References) (*depthBounds, error) {
	b := &depthBounds{typical: []*models.States{state}}
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
	for _, states := range b.typical {
		b.normaliser = append(b.normaliser, sync.OnceValues(func() (*models.NormaliserBounds, error) { return tables.NormaliserBounds(states) }))
	}
	return b, nil
}

// at returns the bounds at a depth. Walkers may call it at the same time.
func (b *depthBounds) at(depth int) (*models.NormaliserBounds, error) { return b.normaliser[depth]() }
