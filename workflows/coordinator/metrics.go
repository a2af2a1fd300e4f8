package coordinator

import (
	"github.com/prometheus/client_golang/prometheus"

	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/runs"
)

// Metrics that are computed on collection.
var (
	leaderDesc  = prometheus.NewDesc("coalmine_leader", "1 if this process leads, 0 if it stands by. What follows is told by the leader alone.", nil, nil)
	runsDesc    = prometheus.NewDesc("coalmine_runs", "Runs, by state.", []string{"state"}, nil)
	tasksDesc   = prometheus.NewDesc("coalmine_tasks", "Tasks that some run waits for, by class and state: blocked, parked, ready, queued, running or retrying.", []string{"class", "state"}, nil)
	depthDesc   = prometheus.NewDesc("coalmine_queue_depth", "Tasks that could run now and wait for a slot, by class: those that are ready and those that are queued.", []string{"class"}, nil)
	workersDesc = prometheus.NewDesc("coalmine_workers", "Live workers, by whether they take tasks (active) or are about to end (draining).", []string{"state"}, nil)
	slotsDesc   = prometheus.NewDesc("coalmine_slots", "Slots of the live workers that take tasks, by class.", []string{"class"}, nil)
	redisDesc   = prometheus.NewDesc("coalmine_redis_up", "1 if Redis answered the leader when it last asked.", nil, nil)
	storeDesc   = prometheus.NewDesc("coalmine_store_up", "1 if the store answered the leader when it last asked.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *Coordinator) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leaderDesc, runsDesc, tasksDesc, depthDesc, workersDesc, slotsDesc, redisDesc, storeDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
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

// ask has the loop run a query, and reports whether this process leads and did.
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
