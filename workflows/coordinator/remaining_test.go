package coordinator

import (
	"math"
	"testing"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// audits is a run of nothing but audits: so many done, at work and waiting.
func auditsOf(t *testing.T, done []float64, atWork []attempt, waiting int) (*term, *run) {
	t.Helper()
	const kind = "audits/random-sampling"
	r := &run{plan: &plan.Plan{Nodes: map[storage.Key]*plan.Node{}}}
	tm := &term{nodes: map[storage.Key]*node{}, durations: map[string]*samples{}, slots: map[tasks.Class]int{tasks.Compute: 2}}
	add := func(x *task) {
		h := tasks.NewHasher("test")
		h.Uint(uint64(len(tm.nodes)))
		key := h.Sum()
		x.spec.Kind, x.wants = kind, []*run{r}
		n := &node{task: x}
		x.owner = n
		tm.nodes[key], r.plan.Nodes[key] = n, &plan.Node{}
	}
	for _, seconds := range done {
		x := &task{state: finished}
		add(x)
		tm.samplesOf(x).add(seconds)
	}
	for i := range atWork {
		add(&task{state: inFlight, attempts: []*attempt{&atWork[i]}})
	}
	for range waiting {
		add(&task{})
	}
	return tm, r
}

func TestTheTimeLeftCountsAudits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		done    []float64
		atWork  []attempt
		waiting int
		want    float64 // seconds; negative: nothing is known
	}{
		{"all done", []float64{3}, nil, 0, 0},
		{"nothing seen", nil, []attempt{{running: 5}}, 3, -1},
		{"siblings, on two slots", []float64{2, 2, 8}, nil, 5, 10},
		{"one alone", []float64{6}, nil, 1, 6},
		{"at work, by its siblings", []float64{6}, []attempt{{running: 4}}, 0, 2},
		{"at work, longer than its siblings", []float64{6}, []attempt{{running: 9}}, 0, 0},
		{"at work, by its progress", nil, []attempt{{running: 9, progress: queue.Progress{Done: 3, Total: 5}}}, 0, 6},
	} {
		tm, r := auditsOf(t, c.done, c.atWork, c.waiting)
		got := tm.secondsLeft(r)
		if (got == nil) != (c.want < 0) || got != nil && math.Abs(*got-c.want) > 1e-9 {
			t.Errorf("%s: %v left, want %v", c.name, got, c.want)
		}
	}
}
