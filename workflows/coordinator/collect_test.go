package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/retention"
)

// collector collects in the world's store all unneeded objects, of any age.
func (w *world) collector(store storage.Store) *retention.Collector {
	return &retention.Collector{
		Archive: storage.NewArchive(store),
		Compile: func(_ context.Context, r *runs.Run) (*plan.Plan, error) { return w.plans[r.Spec.Name], nil },
		Sources: func(*runs.Run) ([]storage.Digest, error) { return nil, nil },
		Now:     func() time.Time { return time.Now().Add(24 * time.Hour) },
	}
}

func (w *world) token() *leadership.Token { return w.term.store.token }

func (w *world) collect() *retention.Result {
	w.t.Helper()
	got, err := w.collector(w.store).Collect(context.Background(), w.token())
	if err != nil {
		w.fail("collecting: %v", err)
	}
	return got
}

// remove removes a run and waits until its record is gone.
func (w *world) remove(id string) {
	w.t.Helper()
	w.steer(id, runs.Entry{Kind: runs.RemoveEntry})
	w.until(func() bool {
		_, err := w.service.Get(context.Background(), id)
		return errors.Is(err, storage.ErrNotFound) && w.term.records.byID[id] == nil
	})
}

// Invariant 6, and "never losing what a live run needs": collections are under
// way all the time while runs are submitted, worked on and removed, with a
// coordinator that restarts. The bytes are the same, and in the end nothing is
// left of the removed runs.
func TestConcurrentCollectionKeepsLiveRuns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*worlds / 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 5))
			plans := map[string]*plan.Plan{"a": plantest.Random(t, r), "b": plantest.Random(t, r), "c": plantest.Random(t, r)}
			w := newWorld(t, seed, chaos{restart: 1, loseReport: 20, doubleReport: 20}, plans)
			a, b := w.submit("a", 0), w.submit("b", 0)
			w.untilPhase(runs.Done, a)
			w.remove(a)
			// Between any two requests of the collector the world goes on, and
			// a client resubmits a run that is just being collected.
			again, c := "", ""
			// The collector reads several runs at the same time, so its requests pass the faults of the world's store by.
			var mu sync.Mutex
			restless := storagetest.WithFaults(w.memory, &storagetest.Fault{Call: func() {
				mu.Lock()
				defer mu.Unlock()
				for range w.rand.IntN(40) {
					w.step()
				}
				if again == "" && w.rand.IntN(30) == 0 {
					again = w.submit("a", 0)
				} else if c == "" && w.rand.IntN(30) == 0 {
					c = w.submit("c", 1)
				}
			}})
			for again == "" || c == "" || !w.phase(again).Finished() || !w.phase(c).Finished() || !w.phase(b).Finished() {
				_, err := w.collector(restless).Collect(context.Background(), w.token())
				if err != nil && !errors.Is(err, leadership.ErrDeposed) {
					w.fail("collecting: %v", err)
				}
			}
			w.untilPhase(runs.Done, again, b, c)
			w.settle()
			w.checkTruth("a", "b", "c")
			w.collect()
			w.checkTruth("a", "b", "c")
			w.checkLeftovers(0, "a", "b", "c")
			for _, id := range []string{again, b, c} {
				w.remove(id)
			}
			w.collect()
			for _, prefix := range []string{"commits/", "blobs/", "runs/", "logs/"} {
				if names := w.names(prefix); len(names) > 0 {
					w.fail("left when all runs are removed: %s", names)
				}
			}
		})
	}
}

// A live run's nodes stay even where collection considers everything old, so it
// never has to do anything twice for that.
func TestCollectionKeepsNodesOfLiveRun(t *testing.T) {
	t.Parallel()
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "live", Width: 3, Steps: 120, Keep: []int{40}, Every: 10, KeepLast: 2, Big: true})
	w := newWorld(t, 3, chaos{}, map[string]*plan.Plan{"live": p})
	id := w.submit("live", 0)
	for range 200 {
		for range 20 {
			w.step()
		}
		w.collect()
	}
	w.untilPhase(runs.Done, id)
	w.settle()
	for name, n := range w.store.rounds {
		if n > 1 {
			w.fail("%s was committed %d times", name, n)
		}
	}
}

// The collection of a finished run does not keep a longer one from continuing
// at its end.
func TestCollectedTrainingIsExtended(t *testing.T) {
	t.Parallel()
	o := plantest.ChainOptions{Salt: "x", Width: 2, Steps: 130, Keep: []int{60}, Big: true}
	short := plantest.Federated(t, o)
	o.Steps = 190
	long := plantest.Federated(t, o)
	w := newWorld(t, 4, chaos{}, map[string]*plan.Plan{"short": short, "long": long})
	w.untilPhase(runs.Done, w.submit("short", 0))
	w.settle()
	w.collect()
	before := w.ran["test/join"]
	w.untilPhase(runs.Done, w.submit("long", 0))
	if steps := w.ran["test/join"] - before; steps != 60 {
		t.Errorf("%d steps were run for 60 more", steps)
	}
	w.settle()
	w.checkTruth("short", "long")
	w.checkLeftovers(0, "short", "long")
}

// A pinned run keeps every checkpoint of its rolling window; without the pin the
// window rolls on, and collection takes the checkpoints behind it.
func TestPinKeepsCheckpointsAndBlocksRemoval(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 7, plantest.ChainOptions{Salt: "pin", Width: 1, Steps: 60, Every: 10, KeepLast: 1, Big: true})
	id := w.submit("a", 0)
	w.steer(id, runs.Entry{Kind: runs.PinEntry, Pinned: true, Cells: []string{"c01"}})
	w.untilPhase(runs.Done, id)
	w.settle()
	w.lead() // pins stand in storage
	w.collect()
	if got := w.checkpoints(); !slices.Equal(got, []int{10, 20, 30, 40, 50, 60}) {
		t.Errorf("checkpoints %v are kept of a pinned cell, want every tenth", got)
	}
	remove := runs.Entry{Kind: runs.RemoveEntry}
	if err := w.service.Steer(context.Background(), id, remove); !errors.Is(err, runs.ErrState) || !strings.Contains(err.Error(), "unpin") {
		t.Errorf("removing a pinned run: %v", err)
	}
	w.steer(id, runs.Entry{Kind: runs.PinEntry})
	w.until(func() bool { return w.term.claimsKnown() && w.term.records.byID[id] != nil })
	w.collect()
	if got := w.checkpoints(); !slices.Equal(got, []int{60}) {
		t.Errorf("checkpoints %v are kept without the pin, want the last", got)
	}
}

// checkpoints are the steps of the only chain of plan "a" whose blobs are stored.
func (w *world) checkpoints() []int {
	var steps []int
	for _, c := range w.plans["a"].Chains {
		for r := 1; r <= c.Steps; r++ {
			if f, err := plan.LookUp(context.Background(), w.archive, c.Key(r)); err == nil && f.Available() {
				steps = append(steps, r)
			}
		}
	}
	return steps
}
