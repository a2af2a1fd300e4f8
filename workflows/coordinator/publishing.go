package coordinator

import (
	"context"
	"encoding/json"

	"coalmine/tasks"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/coordinator/policy"
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
		t.changed = true // so that the last change is not the one left out
		return
	}
	t.published = t.now()
	for _, r := range t.records.inOrder() {
		s := all[r.ID]
		if s.Phase.Finished() && (r.shown == s.Phase || !r.SeenLive()) {
			continue // runs that ended before this term are not watched
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
	if t.leader.Holder == "" && !t.deaf() {
		return // there are no stand-bys
	}
	t.sendWrite(func(ctx context.Context) (func(), error) {
		return nil, leadership.Announce(ctx, t.Queue, t.leader, t.began)
	})
}
