package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"coalmine/internal/queue"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/tasks"
	"coalmine/workflows/coordinator"
	"coalmine/workflows/plan"
)

// Start is the time for a coordinator to resume trainings near their end.
type Start struct {
	Store  string `json:"store"`
	Cells  int    `json:"cells"`
	Rounds int    `json:"rounds"`
	// Commits is the number of the trainings' commits in the store.
	Commits int `json:"commits"`
	// Seconds from the beginning of the term until the last training resumes.
	Seconds float64 `json:"seconds"`
	// StoreOperations counts the coordinator's operations until then.
	StoreOperations int64 `json:"store_operations"`
}

// audits is the number of audits of each training in the last measurement: the
// default of experiments.
const audits = 10

// start measures the time for a coordinator to find the state of trainings that
// are in the middle of their last segment but one.
func (c *cluster) start(ctx context.Context) (out *Start, err error) {
	s := shape{Name: "bench-start", Cells: c.Cells, Parts: c.Chunks, Rounds: c.Options.Rounds, Audits: min(audits, c.Options.Rounds)}
	store, remove, err := c.openStartStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	archive := storage.NewArchive(store)
	c.Note("%d trainings of %d rounds, written to %s", s.Cells, s.Rounds, archive)
	p, err := s.plan()
	if err != nil {
		return nil, err
	}
	commits, err := history{archive: archive, plan: p}.write(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := submit(ctx, archive, s); err != nil {
		return nil, err
	}
	before := store.Operations()
	took, err := c.takeUp(ctx, archive, s.Cells*s.Parts)
	return &Start{
		Store: archive.String(), Cells: s.Cells, Rounds: s.Rounds, Commits: commits,
		Seconds: took.Seconds(), StoreOperations: store.Operations() - before,
	}, err
}

// openStartStore opens a folder of the named store, or a directory on disk.
func (c *cluster) openStartStore(ctx context.Context) (*open.Metered, func() error, error) {
	if c.Store != "" {
		place, remove, err := folderOf(c.Store)
		if err != nil {
			return nil, nil, err
		}
		store, err := openMetered(ctx, place)
		return store, func() error { return remove(store) }, err
	}
	d, err := tempfiles.MakeDirectory("", "bench-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { d.Remove(); return nil }
	store, err := openMetered(ctx, filepath.Join(d.Path, "store"))
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return store, remove, nil
}

// takeUp leads until the given number of parts has been sent.
func (c *cluster) takeUp(ctx context.Context, archive *storage.Archive, parts int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, takeUpTimeout)
	defer cancel()
	q := &deafQueue{wanted: parts, all: cancel}
	leader, err := newLeader(archive, q, c.Log)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := leader.Lead(ctx); err != nil {
		return 0, err
	}
	if q.sent < parts {
		return 0, fmt.Errorf("the coordinator has sent %d of %d tasks when its time was over: %w", q.sent, parts, ctx.Err())
	}
	return q.last.Sub(began), nil
}

const takeUpTimeout = 5 * time.Minute

// deafQueue has unlimited slots, accepts messages, and never reports.
type deafQueue struct {
	coordinator.Queue
	wanted int
	all    func() // called when all awaited messages have been sent

	mu   sync.Mutex
	sent int
	last time.Time
}

// Enqueue implements coordinator.Queue.
func (q *deafQueue) Enqueue(_ context.Context, messages ...queue.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent += len(messages); q.sent == q.wanted {
		q.last = time.Now()
		q.all()
	}
	return nil
}

// Reports implements coordinator.Queue.
func (q *deafQueue) Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Workers implements coordinator.Queue.
func (q *deafQueue) Workers(context.Context) ([]queue.Worker, error) {
	w := queue.Worker{ID: "bench", Slots: q.wanted, Classes: []string{string(tasks.Compute)}, Kinds: Registry().Advertised()}
	return []queue.Worker{w}, nil
}

// Known implements coordinator.Queue.
func (q *deafQueue) Known(_ context.Context, ids []string) (map[string]bool, error) {
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	return known, nil
}

// Publish implements coordinator.Queue.
func (q *deafQueue) Publish(context.Context, string, []byte, time.Duration) error { return nil }

// history writes the objects of trainings that have reached the middle of their
// last segment.
type history struct {
	archive *storage.Archive
	plan    *plan.Plan
}

// historyAtOnce is the number of concurrent writes of commits.
const historyAtOnce = 32

func (h history) write(ctx context.Context) (commits int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(historyAtOnce)
	commit := func(key storage.Key, checkpoint bool) {
		commits++
		group.Go(func() error { return h.commit(ctx, key, checkpoint) })
	}
	for _, n := range h.plan.Nodes {
		if h.past(n) {
			commit(n.Key, false)
		}
	}
	for _, ch := range h.plan.Chains {
		frontier := stopped(ch)
		boundary := plan.Segment(frontier) * tasks.SegmentSteps
		for step := tasks.SegmentSteps; step <= boundary; step += tasks.SegmentSteps {
			commit(ch.Key(step), step%(ch.Steps/audits) == 0)
		}
		for step := boundary + 1; step <= frontier; step++ {
			commit(ch.Key(step), step == frontier)
		}
	}
	return commits, group.Wait()
}

// stopped returns the last step that a training has completed.
func stopped(ch *plan.Chain) int { return max(ch.Steps-tasks.SegmentSteps/2, 0) }

// past reports whether the stopped trainings have made all inputs of a node.
func (h history) past(n *plan.Node) bool {
	for _, need := range n.Needs {
		if need.Chain == nil && !h.past(h.plan.Nodes[need.Key]) || need.Chain != nil && need.Step > stopped(need.Chain) {
			return false
		}
	}
	return true
}

// checkpointBytes is the size of a checkpoint that is a separate object.
const checkpointBytes = storage.MaxInline + 1

func (h history) commit(ctx context.Context, key storage.Key, checkpoint bool) error {
	data := []byte(key.String())
	if checkpoint {
		data = bytes.Repeat([]byte{1}, checkpointBytes)
	}
	blob, err := h.archive.PutBlob(ctx, key, tasks.ModelBlob, data, storage.Recomputable)
	if err != nil {
		return err
	}
	_, _, err = h.archive.Commit(ctx, &storage.Commit{
		Key: key, Kind: nothing.Name, KindVersion: nothing.Version, Attempt: "history", Blobs: []storage.Blob{blob},
	})
	return err
}
