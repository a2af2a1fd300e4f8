package coordinator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/build"
	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/retention"
)

// worlds is how many seeds the chaos test tries. A failure prints its seed;
// -run 'TestAnything.*/seed=17$' repeats it.
var worlds = flag.Int("worlds", someWorlds(), "how many random worlds to try")

// someWorlds are fewer under the race detector: a world is a single goroutine nearly all
// of the time.
func someWorlds() int {
	if build.Race {
		return 4
	}
	return 30
}

// checkTruth compares the outputs in storage with a plain evaluation of the plans.
func (w *world) checkTruth(names ...string) {
	w.t.Helper()
	e := plantest.NewEvaluator()
	for _, name := range names {
		p := w.plans[name]
		for _, c := range p.Cells {
			for _, ref := range []plan.Ref{c.Report, c.Model} {
				must.Do(w.t, e.Reach(p, ref))
				f, err := plan.LookUp(context.Background(), w.archive, ref.Key)
				if err != nil || !f.Available() {
					w.fail("target of %s %s is not available: %s, %v", name, c.Name, f.Reason(), err)
				}
			}
		}
	}
	for name, got := range w.store.commits {
		key := must.Get(storage.ParseKey(strings.TrimPrefix(name, "commits/")))(w.t)
		if want := e.Outputs(key); want != nil && !maps.Equal(got, want) {
			w.fail("node %s was committed with other outputs than a plain evaluation gives", key.Short())
		}
	}
	for _, wrong := range w.store.wrong {
		w.fail("%s", wrong)
	}
}

// checkAttempts fails if a node was executed more often than misfortunes explain: a lost blob costs a node
// at most PurgeAfter executions that miss it and one that follows, any other misfortune one.
func (w *world) checkAttempts() {
	w.t.Helper()
	most := 1 + w.lost*(policy.PurgeAfter+1) + w.restarts + w.flushes + w.deaths
	for key, n := range w.tried {
		if n > most {
			w.fail("node %s was executed %d times, at most %d expected after %d lost blobs, %d restarts, %d flushes, %d deaths",
				key.Short(), n, most, w.lost, w.restarts, w.flushes, w.deaths)
		}
	}
}

// checkLeftovers fails if the chains of plans have stored more than the given
// number of objects beyond retention.
func (w *world) checkLeftovers(most int, names ...string) {
	w.t.Helper()
	var left []string
	for _, name := range names {
		for _, c := range w.plans[name].Chains {
			left = append(left, w.leftoversOf(c)...)
		}
	}
	if len(left) > most {
		w.fail("leftovers after %d restarts, at most %d expected: %s", w.restarts, most, strings.Join(left, "\n"))
	}
}

// objectsOfStep are the two blobs of a step, and a commit and a blob of each of at most three parts.
const objectsOfStep = 8

// leftoversOf looks at every step and part of a chain for objects that should have been
// deleted.
func (w *world) leftoversOf(c *plan.Chain) []string {
	ctx := context.Background()
	var cs retention.Claims
	for _, p := range w.plans {
		if other := p.Chains[c.Recipe]; other != nil {
			cs = append(cs, retention.ClaimOf(other))
		}
	}
	frontier := 0
	for r := cs.Limit(); r > 0 && frontier == 0; r-- {
		if there, _ := w.archive.HasCommit(ctx, c.Key(r)); there {
			frontier = r
		}
	}
	var left []string
	objects := func(key storage.Key, what string) {
		for _, name := range w.names("blobs/" + key.String() + "/") {
			left = append(left, what+" "+name)
		}
	}
	for r := 1; r <= frontier; r++ {
		for j := range c.Width {
			if there, _ := w.archive.HasCommit(ctx, c.PartKey(r, j)); there {
				left = append(left, fmt.Sprintf("commit of part %d of step %d", j, r))
			}
			objects(c.PartKey(r, j), "part's blob")
		}
		if r == frontier || cs.Keep(r, frontier) {
			continue
		}
		commit, err := w.archive.Committed(ctx, c.Key(r))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			w.t.Fatal(err)
		}
		if err == nil && plan.SegmentEnd(r) <= frontier && !plan.Boundary(r) {
			left = append(left, fmt.Sprintf("commit of step %d of a closed segment, frontier %d", r, frontier))
		}
		if plan.Boundary(r) {
			if missing, _ := w.archive.Missing(ctx, commit, "model"); len(missing) == 0 {
				if b, _ := commit.Blob("model"); !b.IsInline() {
					left = append(left, fmt.Sprintf("model of boundary %d", r))
				}
			}
			continue
		}
		objects(c.Key(r), fmt.Sprintf("blob of step %d", r))
	}
	return left
}

func TestRandomPlanCommitsEachNodeOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*worlds / 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, chaos{}, map[string]*plan.Plan{"a": plantest.Random(t, rand.New(rand.NewPCG(seed, 2)))})
			w.untilPhase(runs.Done, w.submit("a", 0))
			w.settle()
			w.checkTruth("a")
			w.checkLeftovers(0, "a")
			for name, n := range w.store.rounds {
				if n > 1 {
					w.fail("%s was committed %d times", name, n)
				}
			}
		})
	}
}

func TestBytesMatchUnderRandomFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*worlds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			a, b := plantest.Random(t, r), plantest.Random(t, r)
			c := chaos{flush: 1 + r.IntN(2), restart: 1 + r.IntN(2), loseReport: 10 * r.IntN(6), doubleReport: 50, queueAway: 1, losePending: 10 * r.IntN(6)}
			faults := 0
			// Three deaths of workers are too many for a task, so where attempts
			// are lost in every other way as well, no worker dies. An attempt lost
			// by a flush counts against the worker that died last.
			if seed%2 == 0 {
				c.killWorker, c.flush = 2, 0
			} else {
				c.loseBlob, faults = 1+r.IntN(6), 5*r.IntN(6)
			}
			w := newWorld(t, seed, c, map[string]*plan.Plan{"a": a, "b": b})
			w.faults = faults
			w.untilPhase(runs.Done, w.submit("a", 0), w.submit("b", int(seed%3)))
			w.faults = 0
			w.settle()
			w.checkTruth("a", "b")
			w.checkAttempts()
			// Garbage collection deletes two things: the output of an attempt that outlives its term and
			// has its report lost; and a step that is under way, after a loss, when the coordinator ends.
			left := w.restarts
			if c.loseBlob > 0 {
				left *= objectsOfStep
			}
			w.checkLeftovers(left, "a", "b")
		})
	}
}
