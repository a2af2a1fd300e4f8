package coordinator

import (
	"context"
	"math"
	"slices"

	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/workflows/availability"
	"coalmine/workflows/plan"
)

// chain is a training that live runs want checkpoints of. It is always at one
// step, whose checkpoint is available, and works on the next; where older
// checkpoints are wanted as well it makes several passes, one after the other.
type chain struct {
	recipe storage.Key
	shape  *plan.Chain // any live run's: they differ in length and retention only
	plans  map[*run]*plan.Chain
	// checkpoints are the steps that nodes and cells need, ascending.
	checkpoints []*checkpoint
	inputs      []dependency // what the tasks of every step read
	origin      dependency
	linked      bool

	surveying, surveyed bool
	frontier            int   // the highest committed step
	have                []int // steps with available checkpoints, ascending
	at                  int   // the step that current builds upon, -1 if none is chosen
	current             *step // nil between steps

	scheduled   bool
	retirements retirements
	durations   map[string]*samples // by kind
	// used is the time that its tasks have taken, in seconds, from where it began to
	// share slots with others; see sharing.go.
	used    float64
	sharing bool
	traced  tracing.Span // of the round begun last
}

// checkpoint is a step of a chain that somebody needs.
type checkpoint struct {
	chain     *chain
	step      int
	wants     []*run
	rank      int
	available bool
	dependents
}

func (t *term) adoptChain(r *run, p *plan.Chain) {
	ch := t.chains[p.Recipe]
	if ch == nil {
		ch = &chain{recipe: p.Recipe, shape: p, at: -1, plans: make(map[*run]*plan.Chain), durations: make(map[string]*samples)}
		t.chains[p.Recipe] = ch
	}
	ch.plans[r] = p
	// A longer plan may know of a further frontier, and new checkpoints are
	// wanted that the last survey did not ask for.
	ch.surveyed = false
}

// linkChain connects a new chain with what its tasks read, once.
func (t *term) linkChain(ch *chain) {
	if ch.linked {
		return
	}
	ch.linked = true
	for _, ref := range ch.shape.StepNeeds() {
		ch.inputs = append(ch.inputs, t.dependOn(ch, ref))
	}
	ch.origin = t.dependOn(ch, ch.shape.Origin)
}

// listen has the chain told when one of its inputs becomes available.
func (t *term) dependOn(ch *chain, ref plan.Ref) dependency {
	d := t.resolve(ref)
	if ds := d.dependents(); !slices.Contains(ds.chains, ch) {
		ds.chains = append(ds.chains, ch)
	}
	return d
}

func (t *term) releaseChain(ch *chain, r *run, gone map[*node]bool) {
	delete(ch.plans, r)
	for _, cp := range ch.checkpoints {
		cp.forgetNodes(gone)
		cp.forgetRun(r)
	}
	if len(ch.plans) > 0 {
		return
	}
	t.leave(ch)
	delete(t.chains, ch.recipe)
	for _, d := range append(ch.inputs, ch.origin) {
		ds := d.dependents()
		ds.chains = slices.DeleteFunc(ds.chains, func(c *chain) bool { return c == ch })
	}
}

func (ch *chain) checkpointAt(step int) *checkpoint {
	i, ok := slices.BinarySearchFunc(ch.checkpoints, step, func(cp *checkpoint, s int) int { return cp.step - s })
	if !ok {
		ch.checkpoints = slices.Insert(ch.checkpoints, i, &checkpoint{chain: ch, step: step, rank: math.MaxInt})
	}
	return ch.checkpoints[i]
}

// missingAbove visits the missing checkpoints above step that a pass
// from there would reach.
func (ch *chain) missingAbove(step int, visit func(dependency)) {
	for _, cp := range ch.checkpoints {
		if !cp.available && cp.step > step && ch.base(cp.step) <= step {
			visit(dependency{checkpoint: cp})
		}
	}
}

// missing visits all checkpoints that are not available.
func (ch *chain) missing(visit func(dependency)) {
	for _, cp := range ch.checkpoints {
		if !cp.available {
			visit(dependency{checkpoint: cp})
		}
	}
}

// base is the nearest available step below a missing one; 0 is the origin.
func (ch *chain) base(step int) int {
	i, _ := slices.BinarySearch(ch.have, step)
	if i == 0 {
		return 0
	}
	return ch.have[i-1]
}

func (ch *chain) gain(step int) {
	if i, ok := slices.BinarySearch(ch.have, step); !ok {
		ch.have = slices.Insert(ch.have, i, step)
	}
}

// forget notes that the checkpoint of a step is gone.
func (ch *chain) forget(step int) {
	ch.have = slices.DeleteFunc(ch.have, func(s int) bool { return s == step })
}

func (t *term) schedule(ch *chain) {
	if !ch.scheduled {
		ch.scheduled = true
		t.scheduled = append(t.scheduled, ch)
	}
}

// drive does the next thing that the chain needs, if it can be done: survey it,
// choose a pass, begin a step, have its tasks run. It may be called at any time.
func (t *term) drive(ch *chain) {
	if len(ch.plans) == 0 {
		return
	}
	wanted := ch.wanted()
	if wanted && !ch.surveyed {
		t.survey(ch)
	}
	if wanted && ch.current != nil && len(ch.passWants(ch.at)) == 0 {
		t.dropStep(ch) // another pass is wanted instead
	}
	if ch.current == nil {
		if !wanted || !ch.surveyed || !t.choose(ch) {
			return
		}
		ch.current = newStep(ch, ch.at+1, t.now())
	}
	t.advance(ch)
}

func (ch *chain) wanted() bool {
	return slices.ContainsFunc(ch.checkpoints, func(cp *checkpoint) bool { return !cp.available && len(cp.wants) > 0 })
}

// survey finds out what storage has of the chain.
func (t *term) survey(ch *chain) {
	if ch.surveying {
		return
	}
	ch.surveying = true
	claims := t.claims.On(ch.recipe)
	var goals []int
	for _, cp := range ch.checkpoints {
		goals = append(goals, cp.step)
	}
	shape := ch.shape
	t.persist(reading, "looking where a training stands",
		func() bool { return t.chains[ch.recipe] == ch },
		func(ctx context.Context) (func(), error) {
			s := availability.Surveyor{LookUp: t.lookUpClean, Has: t.archive.HasCommit, Chain: shape, Kept: claims.StepsKept}
			result, err := s.Survey(ctx, claims.Limit(), goals)
			return func() { t.surveyed(ch, goals, result) }, err
		})
}

func (t *term) surveyed(ch *chain, goals []int, stored availability.Chain) {
	ch.surveying = false
	if t.chains[ch.recipe] != ch {
		return
	}
	ch.surveyed, ch.frontier, ch.have = true, max(stored.Frontier, ch.at), stored.Checkpoints
	if ch.at > 0 {
		ch.gain(ch.at) // the pass under way knows better than a look at storage
	}
	for _, cp := range ch.checkpoints {
		if slices.Contains(goals, cp.step) {
			t.setAvailable(cp, slices.Contains(ch.have, cp.step))
		} else {
			ch.surveyed = false // wanted since the survey began
		}
	}
	if ch.frontier > 0 && ch.at < 0 {
		ch.retirements.recent.Remember(ch.shape, ch.frontier) // attempts of the term before may still be at work
	}
	t.sweepResidue(ch)
	t.schedule(ch)
}

func (t *term) setAvailable(cp *checkpoint, is bool) {
	if cp.available == is {
		return
	}
	cp.available = is
	t.changed = true
	if !is {
		t.dirty = true
		return
	}
	cp.wants = cp.wants[:0]
	t.notify(&cp.dependents)
}

// lose forgets a checkpoint that turned out to be gone and looks again.
func (t *term) lose(ch *chain, step int) {
	ch.forget(step)
	for _, cp := range ch.checkpoints {
		if cp.step == step {
			t.setAvailable(cp, false)
		}
	}
	if ch.at == step {
		t.dropStep(ch)
		ch.at = -1
	}
	ch.surveyed = false
	t.schedule(ch)
}

// choose picks the pass to work on and sets at to where it begins. A replay is
// carried to its end while it is wanted, since leaving it loses its way.
func (t *term) choose(ch *chain) bool {
	if ch.at > 0 && ch.at != ch.frontier && len(ch.passWants(ch.at)) > 0 {
		return true
	}
	best, bestPriority := -1, math.MinInt
	for _, cp := range ch.checkpoints {
		if cp.available || len(cp.wants) == 0 {
			continue
		}
		for _, r := range cp.wants {
			if r.state.Priority > bestPriority {
				best, bestPriority = ch.base(cp.step), r.state.Priority
			}
		}
	}
	if best < 0 {
		return false
	}
	if best != ch.at {
		t.leave(ch)
		ch.at = best
	}
	return true
}

// passWants are the runs that want a checkpoint which a pass from step reaches.
func (ch *chain) passWants(step int) []*run {
	var wants []*run
	for _, cp := range ch.checkpoints {
		if cp.available || ch.base(cp.step) != step {
			continue
		}
		for _, r := range cp.wants {
			addWant(&wants, r)
		}
	}
	return wants
}

// passRank is where the pass stands in the order of its runs' work.
func (ch *chain) passRank(step int) int {
	rank := math.MaxInt
	for _, cp := range ch.checkpoints {
		if !cp.available && len(cp.wants) > 0 && ch.base(cp.step) == step {
			rank = min(rank, cp.rank)
		}
	}
	return rank
}
