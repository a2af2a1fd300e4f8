package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/attempts"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

// mixed is a plan of long trainings, whose steps are one task, and of quick ones,
// whose steps are several, in turns. None comes to its end.
func mixed(t testing.TB, pairs int) *plan.Plan {
	b := plantest.NewBuilder()
	origin := b.Node(plantest.Standing, plantest.Params{Salt: "origin"})
	for i := range pairs {
		for name, width := range map[string]int{"long": 0, "quick": 2} {
			c := b.Chain(plantest.ChainOptions{Salt: fmt.Sprint(name, i), Width: width, Steps: 1_000_000}, origin)
			b.Cell(b.Node(plantest.Report, plantest.Params{Salt: fmt.Sprint("report ", name, i)}, c.At(c.Steps)), c.At(c.Steps))
		}
	}
	return b.Done(t)
}

// timeOfTrainings runs a mixed plan for a time on a fake clock, and returns how many
// seconds of slots each training has had.
func timeOfTrainings(t *testing.T, slots, pairs int, runFor time.Duration) map[string]float64 {
	used := map[string]float64{}
	synctest.Test(t, func(t *testing.T) {
		archive := storage.NewArchive(storagetest.NewMemory())
		q := newLiveQueue(archive)
		q.slots = make(chan struct{}, slots)
		var mu sync.Mutex
		q.takes = func(a attempts.Attempt) time.Duration {
			var p plantest.Params
			if err := json.Unmarshal(a.Params, &p); err != nil {
				panic(err)
			}
			took := 100 * time.Millisecond
			if strings.HasPrefix(p.Salt, "long") {
				took = 20 * time.Second
			}
			mu.Lock()
			defer mu.Unlock()
			used[p.Salt] += took.Seconds()
			return took
		}
		c := newLeader(t, archive, q, "", mixed(t, pairs))
		ctx, stop := context.WithCancel(context.Background())
		var leading sync.WaitGroup
		leading.Go(func() { _ = c.Lead(ctx) })
		submitTo(t, archive, "mixed")
		c.Nudge()
		time.Sleep(runFor)
		stop()
		leading.Wait()
		q.work.Wait()
	})
	return used
}

// alone is a plan of one training that does not come to its end.
func alone(t testing.TB, name string, width int) *plan.Plan {
	b := plantest.NewBuilder()
	origin := b.Node(plantest.Standing, plantest.Params{Salt: "origin"})
	c := b.Chain(plantest.ChainOptions{Salt: name, Width: width, Steps: 30_000}, origin)
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "report " + name}, c.At(c.Steps)), c.At(c.Steps))
	return b.Done(t)
}

// A run that was paused for long has no claim to the time that others have had
// meanwhile: when it goes on, long tasks are not held up until it has caught up.
func TestPausedTimeIsNotCaughtUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		archive := storage.NewArchive(storagetest.NewMemory())
		q := newLiveQueue(archive)
		q.slots = make(chan struct{}, 1)
		var long atomic.Int64 // time that the long training has had
		q.takes = func(a attempts.Attempt) time.Duration {
			var p plantest.Params
			if err := json.Unmarshal(a.Params, &p); err != nil {
				panic(err)
			}
			if strings.HasPrefix(p.Salt, "long") {
				long.Add(int64(20 * time.Second)) // one slot: nothing runs beside it
				return 20 * time.Second
			}
			return 100 * time.Millisecond
		}
		plans := map[string]*plan.Plan{"long": alone(t, "long", 0), "quick": alone(t, "quick", 2)}
		c := newLeaderOf(t, archive, q, "", func(r *runs.Run) *plan.Plan { return plans[r.Spec.Name] })
		ctx, stop := context.WithCancel(context.Background())
		var leading sync.WaitGroup
		leading.Go(func() { _ = c.Lead(ctx) })
		submitTo(t, archive, "long")
		quick := submitTo(t, archive, "quick")
		steer := func(kind runs.Kind) {
			if err := runs.NewService(archive, nil).Steer(ctx, quick, runs.Entry{Kind: kind}); err != nil {
				t.Error(err)
			}
			c.Nudge()
		}
		c.Nudge()
		time.Sleep(time.Minute)
		steer(runs.PauseEntry)
		time.Sleep(20 * time.Minute)
		steer(runs.ResumeEntry)
		before, runFor := long.Load(), 5*time.Minute
		time.Sleep(runFor)
		if share := time.Duration(long.Load()-before).Seconds() / runFor.Seconds(); share < 0.3 || share > 0.7 {
			t.Errorf("after the pause the long training had %.0f%% of the time, want about half", 100*share)
		}
		stop()
		leading.Wait()
		q.work.Wait()
	})
}

// Federated rounds beside long segments of SGD: each training gets about its share
// of the slots' time, and none is held up for good.
func TestTrainingsShareSlotsByTime(t *testing.T) {
	t.Parallel()
	const runFor = 15 * time.Minute // long against tasks of 20 s
	for _, c := range []struct{ slots, pairs int }{{1, 1}, {2, 2}} {
		t.Run(fmt.Sprintf("%d slots, %d pairs", c.slots, c.pairs), func(t *testing.T) {
			t.Parallel()
			var long, quick float64
			used := timeOfTrainings(t, c.slots, c.pairs, runFor)
			for salt, seconds := range used {
				if strings.HasPrefix(salt, "long") {
					long += seconds
				} else if strings.HasPrefix(salt, "quick") {
					quick += seconds
				}
			}
			t.Logf("%.0f s long, %.0f s quick of %.0f s: %v", long, quick, runFor.Seconds()*float64(c.slots), used)
			if share := quick / (long + quick); share < 0.35 || share > 0.65 {
				t.Errorf("the quick trainings had %.0f%% of the time, want about half", 100*share)
			}
			if all := long + quick; all < 0.85*runFor.Seconds()*float64(c.slots) {
				t.Errorf("slots were at work for %.0f s of %.0f s", all, runFor.Seconds()*float64(c.slots))
			}
		})
	}
}
