package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"coalmine/internal/build"
	"coalmine/storage"
	"coalmine/tasks/attempts"
)

// Token is the fencing token of one leader: its right to delete until a newer epoch begins.
type Token struct {
	archive *storage.Archive
	epoch   int
	place   string // the queue, as in Contest

	mu            sync.Mutex
	active, begun int // batches of collections
}

// Epoch returns the number of the leader's epoch. The first is 1.
func (t *Token) Epoch() int { return t.epoch }

// Check returns an error if another process leads; it wraps ErrDeposed and names the process. It MUST be
// called before every batch of deletions.
func (t *Token) Check(ctx context.Context) error {
	current, err := t.archive.CurrentEpoch(ctx)
	if err != nil {
		return err
	}
	if current != t.epoch {
		return t.deposed(ctx, current)
	}
	return nil
}

// deposed returns the error of a token outdated by a newer epoch. It names the new leader if it can read the name.
func (t *Token) deposed(ctx context.Context, epoch int) error {
	if epoch < t.epoch {
		return &staleError{epoch, t.epoch}
	}
	err := fmt.Errorf("%w: epoch %d has begun, ours is %d", ErrDeposed, epoch, t.epoch)
	by, readErr := t.archive.EpochOf(ctx, epoch)
	if readErr != nil || by.Holder == "" {
		return err
	}
	err = fmt.Errorf("%w; the other is %s, since %s", err, by.Holder, by.Began.UTC().Format(time.RFC3339))
	if rivals(by.Queue, t.place) {
		err = fmt.Errorf("%w, %w (%s; ours is %s): give both the same --redis, or separate stores", err, ErrRival, by.Queue, t.place)
	}
	return err
}

// staleError reports that the store no longer lists the record of our epoch. It counts as ErrDeposed,
// because the leader must then delete nothing.
type staleError struct{ listed, ours int }

func (e *staleError) Error() string {
	return fmt.Sprintf("the store does not list our leadership, epoch %d (the newest listed is %d): its lists are stale, or the records below leader/ were deleted; this process contends for leadership again", e.ours, e.listed)
}

func (e *staleError) Is(target error) bool { return target == ErrDeposed }

// BeginBatch marks the beginning of checking and deleting a batch of a collection. The returned function
// marks its end.
func (t *Token) BeginBatch() (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active++
	t.begun++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.active--
	}
}

// Quiet reports whether no batch of a collection is running, and returns the number of batches begun so
// far. If two calls report quiet and the same number, no batch ran between them.
func (t *Token) Quiet() (begun int, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun, t.active == 0
}

// leaderName is the name under which the leader announces itself in the queue.
const leaderName = "leader"

// Identity returns the identity of this process as the leader. It is empty without a contest, because the
// worker is then the same process.
func (c *Contest) Identity(ctx context.Context) (attempts.Leader, error) {
	if c.Holder == "" {
		return attempts.Leader{}, nil
	}
	id, err := c.Archive.Identify(ctx)
	return attempts.Leader{Holder: c.Holder, Store: c.Archive.String(), StoreID: id}, err
}

// Announcement is the leader's description of itself in the queue.
type Announcement struct {
	attempts.Leader
	// Since is the time when the leader began to lead.
	Since time.Time `json:"since"`
	// Build is the leader's build, or empty if it does not announce one.
	Build string `json:"build,omitempty"`
}

// Announce publishes the leader, its store, and the start of its term, for stand-bys.
func Announce(ctx context.Context, q Queue, leader attempts.Leader, since time.Time) error {
	data, err := json.Marshal(Announcement{leader, since.UTC(), build.Read().String()})
	if err != nil {
		return err
	}
	return q.Publish(ctx, leaderName, data, AnnouncedTTL)
}

// meetLeader returns the announcement of the leader, or nil if it is missing or cannot be read. The error
// wraps attempts.ErrOtherStore if the leader has another store: a stand-by would wait in vain or, once it
// led, reject the workers. Each leader's store is compared once.
func (c *Contest) meetLeader(ctx context.Context, before *Announcement) (*Announcement, error) {
	leader, found := Announced(ctx, c.Queue)
	if !found {
		return nil, nil
	}
	if before != nil && leader.Leader == before.Leader {
		return &leader, nil
	}
	err := leader.CheckStore(ctx, c.Archive)
	if errors.Is(err, attempts.ErrOtherStore) {
		return &leader, err
	} else if err != nil {
		return nil, nil // nothing is proved
	}
	return &leader, nil
}

// Announced returns the announcement of the leader, or false if it is missing or cannot be read.
func Announced(ctx context.Context, q Queue) (leader Announcement, found bool) {
	data, err := q.Published(ctx, leaderName)
	return leader, err == nil && data != nil && json.Unmarshal(data, &leader) == nil
}

// CheckStore returns an error that wraps attempts.ErrOtherStore if the leader of a queue has announced another store.
// It returns nil if the queue or the store does not answer, because that proves nothing.
func CheckStore(ctx context.Context, q Queue, archive *storage.Archive) error {
	leader, found := Announced(ctx, q)
	if !found {
		return nil
	}
	if err := leader.CheckStore(ctx, archive); errors.Is(err, attempts.ErrOtherStore) {
		return err
	}
	return nil
}

// standby logs the state of a process that waits for the lease.
type standby struct {
	log   *slog.Logger
	began time.Time
	// logged is the leader in the last log line; asked is the time of the last log line about the queue.
	logged string
	asked  time.Time
}

// unnamed stands for a holder of the lease that has not announced itself.
const unnamed = "a process that has not announced itself, such as a garbage collection"

// behind logs that another process holds the lease; leader is nil if unknown.
func (s *standby) behind(leader *Announcement) {
	switch {
	case leader != nil && leader.Holder != s.logged:
		s.logged = leader.Holder
		s.log.Warn("standing by: another coordinator leads", "coordinator", leader.Holder, "since", leader.Since.Format(time.RFC3339), "store", leader.Store)
	case leader == nil && s.logged == "" && time.Since(s.began) > AnnouncedTTL:
		s.logged = unnamed
		s.log.Warn("standing by: another process holds the lease", "holder", unnamed)
	}
}

// cannotAsk logs, once a minute, that the queue does not grant the lease.
func (s *standby) cannotAsk(err error) {
	if time.Since(s.asked) >= time.Minute {
		s.asked = time.Now()
		s.log.Warn("standing by: the queue does not grant the lease", "error", err)
	}
}
