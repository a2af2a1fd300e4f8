package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"coalmine/tasks"
)

// Processes that meet in one queue must work on one store. Each attempt says which
// its coordinator has, so that a worker with another touches nothing; what the leader
// publishes says it to those that stand by.
const (
	leaderName    = "leader"
	announceEvery = 2 * time.Second
	announcedTTL  = 5 * time.Second
)

// introduce is how this process presents itself once it leads. Without a contest it
// has no name: its worker is the same process.
func (c *Coordinator) introduce(ctx context.Context) (tasks.Leader, error) {
	if c.cfg.Holder == "" {
		return tasks.Leader{}, nil
	}
	id, err := c.cfg.Archive.Identify(ctx)
	return tasks.Leader{Holder: c.cfg.Holder, Store: c.cfg.Archive.String(), StoreID: id}, err
}

// announce tells those that stand by which store is led. Nothing hangs on it, and
// that the queue is away is found by others.
func (t *term) announce() {
	t.start(sending, func(ctx context.Context) func() {
		data, err := json.Marshal(t.leader)
		if err == nil {
			err = t.Queue.Publish(ctx, leaderName, data, announcedTTL)
		}
		return func() {
			if err != nil {
				t.log.Debug("the leader is not announced", "error", err)
			}
		}
	})
}

// watchLeader warns of a leader with another store, where the runs of this one do
// not begin. It returns the leader that it has looked at: the one before if there is
// none, or nothing can be said of it yet.
func (c *Coordinator) watchLeader(ctx context.Context, before tasks.Leader) tasks.Leader {
	data, err := c.cfg.Queue.Published(ctx, leaderName)
	if err != nil || data == nil {
		return before
	}
	var leader tasks.Leader
	if json.Unmarshal(data, &leader) != nil || leader == before {
		return before
	}
	err = leader.CheckStore(ctx, c.cfg.Archive)
	if errors.Is(err, tasks.ErrOtherStore) {
		c.cfg.Log.Warn("standing by for another store: no run of this one begins", "error", err)
	} else if err != nil {
		return before
	}
	return leader
}
