package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"coalmine/tasks/attempts"
)

// Processes that meet in one queue must work on one store. Each attempt says which
// its coordinator has, so that a worker with another touches nothing; what the leader
// publishes says it to those that would stand by.
const (
	leaderName    = "leader"
	announceEvery = 2 * time.Second
	announcedTTL  = 5 * time.Second
)

// introduce is how this process presents itself once it leads. Without a contest it
// has no name: its worker is the same process.
func (c *Coordinator) introduce(ctx context.Context) (attempts.Leader, error) {
	if c.cfg.Holder == "" {
		return attempts.Leader{}, nil
	}
	id, err := c.cfg.Archive.Identify(ctx)
	return attempts.Leader{Holder: c.cfg.Holder, Store: c.cfg.Archive.String(), StoreID: id}, err
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

// meetLeader returns an error that wraps attempts.ErrOtherStore if the leader has
// another store: to stand by for it would be to wait for nothing, and to lead after
// it would send its workers away. Else it returns the leader that it has looked at:
// the one before if there is none, or nothing can be said of it yet.
func (c *Coordinator) meetLeader(ctx context.Context, before attempts.Leader) (attempts.Leader, error) {
	data, err := c.cfg.Queue.Published(ctx, leaderName)
	if err != nil || data == nil {
		return before, nil
	}
	var leader attempts.Leader
	if json.Unmarshal(data, &leader) != nil || leader == before {
		return before, nil
	}
	err = leader.CheckStore(ctx, c.cfg.Archive)
	if errors.Is(err, attempts.ErrOtherStore) {
		return leader, err
	} else if err != nil {
		return before, nil // nothing is proved
	}
	return leader, nil
}
