package coordinator

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
)

func TestMetricsCountAttemptsTakeoversAndFailures(t *testing.T) {
	t.Parallel()
	b := plantest.NewBuilder()
	deadly, bad := b.Node(plantest.Standing, plantest.Params{Salt: "deadly"}), b.Node(plantest.Standing, plantest.Params{Salt: "bad"})
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r1"}, deadly), deadly)
	b.Cell(b.Node(plantest.Report, plantest.Params{Salt: "r2"}, bad), deadly)
	w := newWorld(t, 15, chaos{}, map[string]*plan.Plan{"a": b.Done(t)})
	killed := false
	w.kills = func(a attempts.Attempt) bool {
		kill := !killed && a.Key == deadly.Key
		killed = killed || kill
		return kill
	}
	w.override = func(a attempts.Attempt) *attempts.Outcome {
		if a.Key == bad.Key {
			return &attempts.Outcome{Result: attempts.Refused, Error: "the loss is NaN"}
		}
		return nil
	}
	w.untilPhase(runs.Failed, w.submit("a", 0))
	m := w.term.counters
	taken := 0
	for _, n := range w.term.takeovers {
		taken += n
	}
	if taken != 1 {
		w.fail("workers have taken over %v, want one task", w.term.takeovers)
	}
	for what, c := range map[string]struct {
		got  prometheus.Collector
		want float64
	}{
		"takeovers": {m.Takeovers, 1},
		"lost":      {m.Attempts.WithLabelValues(plantest.Standing.Name, observe.Lost), 1},
		"done":      {m.Attempts.WithLabelValues(plantest.Standing.Name, string(attempts.Done)), 1},
		"refused":   {m.Attempts.WithLabelValues(plantest.Standing.Name, string(attempts.Refused)), 1},
		"failures":  {m.Failures.WithLabelValues(plantest.Standing.Name), 1},
		"divergent": {m.Divergent, 0},
	} {
		got := 0.0
		if testutil.CollectAndCount(c.got) > 0 {
			got = testutil.ToFloat64(c.got)
		}
		if got != c.want {
			w.fail("%s: counted %v, want %v", what, got, c.want)
		}
	}
}

// Where a task stands shows in the state that it is counted under: one step of
// two parts, whose join waits for them.
func TestStockCountsTasksByState(t *testing.T) {
	t.Parallel()
	w := oneChain(t, 12, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 2})
	id := w.submit("a", 0)
	var seen []string
	states := map[string]bool{}
	w.until(func() bool {
		s := w.term.stock()
		for state, n := range s.Tasks[tasks.Compute] {
			if n > 0 && !states[state] {
				states[state] = true
				seen = append(seen, state)
			}
		}
		return w.term.records.byID[id] != nil && w.term.records.byID[id].State.Phase == runs.Done
	})
	for _, state := range []string{observe.Blocked, observe.Queued} {
		if !states[state] {
			w.fail("no task was ever %s; seen: %v", state, seen)
		}
	}
	s := w.term.stock()
	if s.Runs[runs.Done] != 1 || len(s.Tasks[tasks.Compute]) != 0 || s.Active != 1 || s.Slots[tasks.Compute] != 2 || !s.QueueUp || !s.StoreUp {
		w.fail("stock at the end %+v", s)
	}
}

func TestOnlyLeaderReportsStock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		archive := storage.NewArchive(storagetest.NewMemory())
		p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 2})
		q := newLiveQueue(archive)
		leader, standby := newLeader(t, archive, q, "first", p), newLeader(t, archive, q, "second", p)
		ctx, stop := context.WithCancel(context.Background())
		var both sync.WaitGroup
		both.Go(func() { _ = leader.Lead(ctx) })
		synctest.Wait()
		both.Go(func() { _ = standby.Lead(ctx) })
		synctest.Wait()
		await(t, leader, submitTo(t, archive, "observed"))
		if !leader.Leads() || standby.Leads() {
			t.Errorf("leading: the first %v, the second %v", leader.Leads(), standby.Leads())
		}
		leading := "# HELP coalmine_runs Runs, by state.\n# TYPE coalmine_runs gauge\n"
		for _, line := range []string{`cancelled"} 0`, `done"} 1`, `failed"} 0`, `paused"} 0`, `queued"} 0`, `running"} 0`} {
			leading += `coalmine_runs{state="` + line + "\n"
		}
		for c, want := range map[*Coordinator]string{leader: leading, standby: ""} {
			if err := testutil.CollectAndCompare(c, strings.NewReader(want), "coalmine_runs"); err != nil {
				t.Error(err)
			}
		}
		stop()
		both.Wait()
		q.work.Wait()
		if leader.Leads() {
			t.Error("it leads after its end")
		}
	})
}
