package coordinator

import (
	"context"
	"slices"

	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/leadership"
)

// begin starts the periodic duties.
func (t *term) begin() {
	t.began = t.now()
	t.records.discoverAll = true
	t.every(policy.DiscoverEvery, t.records.discover)
	t.every(policy.DiscoverAllEvery, func() { t.records.discoverAll = true })
	t.every(policy.WorkersEvery, t.pollWorkers)
	t.every(policy.RecheckEvery, t.recheckAttempts)
	t.every(policy.KnownEvery, t.askForAttempts)
	t.every(policy.StragglersEvery, t.helpStragglers)
	t.every(leadership.EpochEvery, t.checkEpoch)
	t.every(leadership.AnnounceEvery, t.announce)
}

func (t *term) settle() {
	if t.queueReturned {
		t.queueReturned = false
		t.queueBack()
	}
	for again := true; again; again = len(t.records.toFollow) > 0 || !t.graph.Settled() {
		t.followRuns()
		t.tidied()
		t.graph.Settle(t.now())
		t.carryOut(t.graph.TakeRequests())
	}
	if !t.queueAway.On() {
		t.dispatcher.Dispatch(t.launch)
	}
	t.sendOff()
}

// queueBack checks all attempts in flight after an outage of the queue, which
// may have lost them and any nudge.
func (t *term) queueBack() {
	t.recheckAttempts()
	t.askForAttempts()
	t.records.nudged()
}

func (t *term) carryOut(requests graph.Requests) {
	t.changed = t.changed || requests.Changed
	if requests.Recounted {
		t.dispatcher.Reset()
	}
	for _, x := range requests.Offer {
		t.dispatcher.Offer(x)
	}
	for _, a := range requests.Recall {
		t.stop(a)
	}
	t.lookUpAll(requests.LookUp)
	for _, ch := range requests.Survey {
		t.survey(ch)
	}
	t.advanced(requests)
	for _, ended := range requests.Ending {
		if r := t.records.byID[ended.ID]; r != nil {
			t.finishIfEnded(r)
		}
	}
}

// advanced follows the progress of chains.
func (t *term) advanced(requests graph.Requests) {
	for _, j := range requests.Joined {
		t.counters.CountRound(j.Step, t.now())
		t.spans.EndRound(j.Step, true)
		t.deletions.afterStep(j)
	}
	for _, s := range requests.Dropped {
		t.spans.EndRound(s, false)
	}
	for _, l := range requests.Left {
		t.deletions.afterPass(l)
	}
	for _, n := range requests.Read {
		t.deletions.afterReading(n)
	}
}

// A large grid has hundreds of thousands of nodes to look up, and a waiting job takes half as much memory as a node.
// So each job looks up several nodes: at most lookUpsEach, but few enough to keep lookUpJobs jobs busy.
const (
	lookUpsEach = 64
	lookUpJobs  = 8
)

// lookUpAll starts the jobs that look up standing nodes.
func (t *term) lookUpAll(nodes []*graph.Node) {
	size := min(max(1, len(nodes)/lookUpJobs), lookUpsEach)
	for some := range slices.Chunk(nodes, size) {
		t.lookUp(some)
	}
}

// lookUp asks storage for some nodes, one after the other.
func (t *term) lookUp(nodes []*graph.Node) {
	wanted := func() bool {
		return slices.ContainsFunc(nodes, func(n *graph.Node) bool { return n.Presence == graph.Checking && n.Held() })
	}
	t.persist(reading, "looking for "+nodes[0].Label(), wanted, func(ctx context.Context) (func(), error) {
		available := make([]bool, len(nodes))
		for i, n := range nodes {
			found, err := t.store.lookUp(ctx, n.Key)
			if err != nil {
				return nil, err
			}
			available[i] = found.Available()
		}
		return func() {
			for i, n := range nodes {
				t.graph.Found(n, available[i])
			}
		}, nil
	})
}

func (t *term) survey(ch *graph.Chain) {
	claims, goals := t.ledger.On(ch.Recipe), ch.Goals()
	surveyor := plan.Surveyor{LookUp: t.store.lookUp, Has: t.store.archive.HasCommit, Chain: ch.Shape, Kept: claims.StepsKept}
	held := func() bool { return t.graph.Chain(ch.Recipe) == ch }
	t.persist(reading, "looking for the checkpoints of a training", held, func(ctx context.Context) (func(), error) {
		found, err := surveyor.Survey(ctx, claims.Limit(), goals)
		return func() {
			if t.graph.Surveyed(ch, goals, found) {
				t.deletions.afterSurvey(ch)
			}
		}, err
	})
}
