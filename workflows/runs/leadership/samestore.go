package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"coalmine/tasks/attempts"
)

// leaderName is the name under which the leader announces itself in the queue.
const leaderName = "leader"

// Introduce returns the identity of this process as the leader. It is empty
// without a contest: the worker is the same process.
func (c *Contest) Introduce(ctx context.Context) (attempts.Leader, error) {
	if c.Holder == "" {
		return attempts.Leader{}, nil
	}
	id, err := c.Archive.Identify(ctx)
	return attempts.Leader{Holder: c.Holder, Store: c.Archive.String(), StoreID: id}, err
}

// announcement is the leader's description of itself in the queue.
type announcement struct {
	attempts.Leader
	Since time.Time `json:"since"` // when it began to lead
}

// Announce tells stand-bys the leader, the start of its term, and its store.
func Announce(ctx context.Context, q Queue, leader attempts.Leader, since time.Time) error {
	data, err := json.Marshal(announcement{leader, since.UTC()})
	if err != nil {
		return err
	}
	return q.Publish(ctx, leaderName, data, AnnouncedTTL)
}

// meetLeader returns the announcement of the leader, nil if it is missing or cannot be read. The
// error wraps attempts.ErrOtherStore if the leader has another store: a stand-by would wait in
// vain or, as the leader, reject the workers. A store is compared once.
func (c *Contest) meetLeader(ctx context.Context, before *announcement) (*announcement, error) {
	data, err := c.Queue.Published(ctx, leaderName)
	if err != nil || data == nil {
		return nil, nil
	}
	var leader announcement
	if json.Unmarshal(data, &leader) != nil {
		return nil, nil
	}
	if before != nil && leader.Leader == before.Leader {
		return &leader, nil
	}
	err = leader.CheckStore(ctx, c.Archive)
	if errors.Is(err, attempts.ErrOtherStore) {
		return &leader, err
	} else if err != nil {
		return nil, nil // nothing is proved
	}
	return &leader, nil
}
