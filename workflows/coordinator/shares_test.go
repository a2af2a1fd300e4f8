package coordinator

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs"
)

// rival is a run of one training.
type rival struct {
	name string
	// width is the number of tasks of a round without the one that joins them; 0 is a
	// training whose steps are one task.
	width  int
	length time.Duration // of a task
}

// drawRivals draws two to six runs of which the tasks take 10 ms to 10 min, the
// longest at most a few hundred times as long as the shortest: more would be too
// many tasks for a test.
func drawRivals(r *rand.Rand) []rival {
	var rivals []rival
	shortest := math.Pow(10, -2+2.5*r.Float64())
	for i := range 2 + r.IntN(5) {
		seconds := min(shortest*math.Pow(10, 2.3*r.Float64()), 600)
		rivals = append(rivals, rival{fmt.Sprint("run-", i), []int{0, 2, 4, 8}[r.IntN(4)], time.Duration(seconds * float64(time.Second))})
	}
	return rivals
}

func longestOf(rivals []rival) time.Duration {
	return slices.MaxFunc(rivals, func(a, b rival) int { return int(a.length - b.length) }).length
}

// busy is the number of slots that a run keeps busy if it gets all that it
// wants: between two rounds its slots are idle.
func (r rival) busy() float64 { return max(1, 0.8*float64(r.width)) }

// fairShares divides slots such that no run gets more than it keeps busy, and the
// others share the rest equally.
func fairShares(slots int, rivals []rival) map[string]float64 {
	shares, left := map[string]float64{}, float64(slots)
	order := slices.SortedFunc(slices.Values(rivals), func(a, b rival) int { return a.width - b.width })
	for i, r := range order {
		shares[r.name] = min(r.busy(), left/float64(len(order)-i))
		left -= shares[r.name]
	}
	return shares
}

// forSeeds runs a test for several clusters and sets of runs.
func forSeeds(t *testing.T, seeds uint64, test func(t *testing.T, r *rand.Rand, slots int, rivals []rival)) {
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 5))
			test(t, r, 1+r.IntN(8), drawRivals(r))
		})
	}
}

// The least part of a run's fair share: 50%, or 5% if its tasks take less than a
// second, since these may wait longer than that behind the queued tasks. Coarse
// tasks make coarse shares: it is the time of 30 of the longest.
const (
	minShare      = 0.5
	minShareShort = 0.05
	windowTasks   = 30
)

func TestRunsOfEqualPriorityShareSlotsByTime(t *testing.T) {
	t.Parallel()
	forSeeds(t, 16, func(t *testing.T, _ *rand.Rand, slots int, rivals []rival) {
		c := newContest(t, slots, rivals)
		for _, r := range rivals {
			c.submit(r.name, 0)
		}
		c.pass(2 * longestOf(rivals)) // until the lengths are known
		before, window := maps.Clone(c.used), windowTasks*longestOf(rivals)
		c.pass(window)
		var used, fair float64
		for name, share := range fairShares(slots, rivals) {
			got, least := (c.used[name]-before[name]).Seconds()/window.Seconds(), minShare
			used, fair = used+got, fair+share
			if !policy.IsLong(c.lengths[name].Seconds()) {
				least = minShareShort
			}
			t.Logf("%s, %d x %.2f s: %.2f slots of %.2f", name, c.widths[name], c.lengths[name].Seconds(), got, share)
			if got < least*share {
				t.Errorf("%s had %.2f slots, want at least %.0f%% of %.2f", name, got, 100*least, share)
			}
		}
		if used < 0.6*fair {
			t.Errorf("%.2f slots were at work, want most of %.2f (between its rounds a training has no tasks)", used, fair)
		}
	})
}

// Runs are paused, resumed and given other priorities at random: those of the highest
// priority among the active ones go on at any time, the others while these leave
// slots free, and the same happens again when it is done again.
func TestRunsThatComeAndGoAreNotStarved(t *testing.T) {
	t.Parallel()
	forSeeds(t, 6, func(t *testing.T, r *rand.Rand, slots int, rivals []rival) {
		seed := r.Uint64()
		first := comeAndGo(t, rand.New(rand.NewPCG(seed, 1)), slots, rivals)
		if again := comeAndGo(t, rand.New(rand.NewPCG(seed, 1)), slots, rivals); !maps.Equal(first, again) {
			t.Errorf("the same again gave other shares: %v, then %v", first, again)
		}
	})
}

func comeAndGo(t *testing.T, r *rand.Rand, slots int, rivals []rival) map[string]time.Duration {
	c := newContest(t, slots, rivals)
	ids, priorities, active := map[string]string{}, map[string]int{}, map[string]bool{}
	for _, x := range rivals {
		priorities[x.name], active[x.name] = r.IntN(2), true
		ids[x.name] = c.submit(x.name, priorities[x.name])
	}
	for range 5 {
		before := maps.Clone(c.used)
		// A waiting task has each slot's tasks ahead, and those in the queue.
		c.pass(time.Duration(2*policy.PerSlot+len(rivals)) * longestOf(rivals))
		highest := math.MinInt
		for name := range active {
			highest = max(highest, priorities[name])
		}
		for name := range active {
			if priorities[name] == highest && c.used[name] == before[name] {
				t.Errorf("%s stood still, of the highest priority; slots' time: %v, before %v", name, c.used, before)
			}
		}
		x := rivals[r.IntN(len(rivals))].name
		switch {
		case r.IntN(3) == 0:
			priorities[x] = r.IntN(3) - 1
			c.steer(ids[x], runs.Entry{Kind: runs.Prioritized, Priority: priorities[x]})
		case !active[x]:
			active[x] = true
			c.steer(ids[x], runs.Entry{Kind: runs.ResumeEntry})
		case len(active) > 1:
			delete(active, x)
			c.steer(ids[x], runs.Entry{Kind: runs.PauseEntry})
		}
	}
	return c.used
}
