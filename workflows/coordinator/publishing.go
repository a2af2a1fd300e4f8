package coordinator

import (
	"context"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/status"
)

// view returns the present observable state.
func (t *term) view() observe.View {
	return observe.View{
		Graph: t.graph, Dispatcher: t.dispatcher, Queue: t.queueAway, Store: t.storeAway,
		Takeovers: t.takeovers, MaxTries: t.MaxTries, Now: t.now(), Began: t.began,
	}
}

// status describes a run.
func (t *term) status(r *run) *status.Run {
	r.Stored, r.Pending = r.record.State.Phase, len(r.outbox) > 0
	view := t.view()
	return view.Status(&r.Run)
}

// statuses describes all runs. The statuses of ended runs are copied from old.
func (t *term) statuses(old map[string]*status.Run) map[string]*status.Run {
	all := make(map[string]*status.Run, len(t.records.byID))
	for _, r := range t.records.inOrder() {
		if s := old[r.ID]; s != nil && s.Phase.Finished() && s.Finished.Equal(r.State.Finished) {
			all[r.ID] = s
			continue
		}
		all[r.ID] = t.status(r)
	}
	return all
}

func (t *term) stock() observe.Stock {
	var classes []tasks.Class
	for _, kind := range t.Registry {
		classes = append(classes, kind.Class)
	}
	view := t.view()
	return view.Stock(classes...)
}

// publish shows the statuses of unfinished runs to other processes.
func (t *term) publish(all map[string]*status.Run) {
	if t.now().Sub(t.published) < policy.PublishEvery || t.queueAway.On() {
		t.changed = true // publish this change later
		return
	}
	t.published = t.now()
	for _, r := range t.records.inOrder() {
		s := all[r.ID]
		if s.Phase.Finished() && (r.shown == s.Phase || !r.SeenLive()) {
			continue // nobody watches runs that ended before this term
		}
		r.shown = s.Phase
		t.sendWrite(func(ctx context.Context) (func(), error) {
			data, err := json.Marshal(s)
			if err != nil {
				return nil, err
			}
			return nil, t.Queue.Publish(ctx, status.PublishedName(s.Run), data, policy.PublishedTTL)
		})
	}
}

// announce publishes the identity of the store for stand-bys. This also detects that a queue
// accepts writes again.
func (t *term) announce() {
	if t.leader.Holder == "" && !t.heartbeatsMissing() {
		return // there are no stand-bys
	}
	t.sendWrite(func(ctx context.Context) (func(), error) {
		return nil, leadership.Announce(ctx, t.Queue, t.leader, t.began)
	})
}

// Metrics that are computed on collection.
var (
	leaderDesc  = prometheus.NewDesc("coalmine_leader", "1 if this process leads, 0 if it stands by. Only the leader exports the metrics below.", nil, nil)
	runsDesc    = prometheus.NewDesc("coalmine_runs", "Runs, by state.", []string{"state"}, nil)
	tasksDesc   = prometheus.NewDesc("coalmine_tasks", "Unfinished tasks of unfinished runs, by class and state: blocked, parked, ready, queued, running or retrying.", []string{"class", "state"}, nil)
	depthDesc   = prometheus.NewDesc("coalmine_queue_depth", "Tasks that wait for a slot, by class: ready or queued.", []string{"class"}, nil)
	workersDesc = prometheus.NewDesc("coalmine_workers", "Live workers, by state: active (taking tasks) or draining (about to end).", []string{"state"}, nil)
	slotsDesc   = prometheus.NewDesc("coalmine_slots", "Slots of the live workers that take tasks, by class.", []string{"class"}, nil)
	redisDesc   = prometheus.NewDesc("coalmine_redis_up", "1 if Redis answered the leader when it last asked.", nil, nil)
	storeDesc   = prometheus.NewDesc("coalmine_store_up", "1 if the store answered the leader when it last asked.", nil, nil)
)

func (c *Coordinator) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, runsDesc, tasksDesc, depthDesc, workersDesc, slotsDesc, redisDesc, storeDesc} {
		descs <- d
	}
}

func (c *Coordinator) Collect(into chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	var s observe.Stock
	leads := c.ask(func(t *term) { s = t.stock() })
	gauge(leaderDesc, oneIf(leads))
	if !leads {
		return
	}
	for _, phase := range []runs.Phase{runs.Queued, runs.Running, runs.Paused, runs.Done, runs.Failed, runs.Cancelled} {
		gauge(runsDesc, float64(s.Runs[phase]), string(phase))
	}
	for class, counts := range s.Tasks {
		for _, state := range observe.TaskStates {
			gauge(tasksDesc, float64(counts[state]), string(class), state)
		}
		gauge(depthDesc, float64(counts[observe.Ready]+counts[observe.Queued]), string(class))
		gauge(slotsDesc, float64(s.Slots[class]), string(class))
	}
	gauge(workersDesc, float64(s.Active), "active")
	gauge(workersDesc, float64(s.Draining), "draining")
	gauge(redisDesc, oneIf(s.QueueUp))
	gauge(storeDesc, oneIf(s.StoreUp))
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// ask runs a query in the loop. It reports whether this process leads and answered.
func (c *Coordinator) ask(query func(*term)) bool {
	l := c.leading.Load()
	if l == nil {
		return false
	}
	answered := make(chan struct{})
	l.deliver(func() {
		query(l.term)
		close(answered)
	})
	select {
	case <-answered:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// Leads reports whether this process leads.
func (c *Coordinator) Leads() bool { return c.leading.Load() != nil }
