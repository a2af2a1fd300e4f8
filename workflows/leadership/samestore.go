package leadership

import (
	"context"
	"encoding/json"
	"errors"

	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/policy"
)

// leaderName is the name under which the leader announces itself in the queue.
const leaderName = "leader"

// Introduce returns how this process introduces itself as the leader. Without a
// contest it has no name: its worker is the same process.
func (c *Contest) Introduce(ctx context.Context) (attempts.Leader, error) {
	if c.Holder == "" {
		return attempts.Leader{}, nil
	}
	id, err := c.Archive.Identify(ctx)
	return attempts.Leader{Holder: c.Holder, Store: c.Archive.String(), StoreID: id}, err
}

// Announce tells those that stand by which store is led.
func Announce(ctx context.Context, q Queue, leader attempts.Leader) error {
	data, err := json.Marshal(leader)
	if err != nil {
		return err
	}
	return q.Publish(ctx, leaderName, data, policy.AnnouncedTTL)
}

// meetLeader compares the store of the announced leader with this process's. An
// error wraps attempts.ErrOtherStore: the two differ. A stand-by would then wait for
// nothing, and if it led one day, it would send the leader's workers away. Otherwise
// meetLeader returns the leader that it has compared. It returns before where nothing
// is announced, or nothing can be said of what is.
func (c *Contest) meetLeader(ctx context.Context, before attempts.Leader) (attempts.Leader, error) {
	data, err := c.Queue.Published(ctx, leaderName)
	if err != nil || data == nil {
		return before, nil
	}
	var leader attempts.Leader
	if json.Unmarshal(data, &leader) != nil || leader == before {
		return before, nil
	}
	err = leader.CheckStore(ctx, c.Archive)
	if errors.Is(err, attempts.ErrOtherStore) {
		return leader, err
	} else if err != nil {
		return before, nil // nothing is proved
	}
	return leader, nil
}
