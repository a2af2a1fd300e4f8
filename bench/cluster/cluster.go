package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	"coalmine/workflows/runs"
)

// cluster is the state shared by the first three measurements.
type cluster struct {
	Options
	scratch *tempfiles.Directory // of all files of the benchmark; nil before open
	dir     string               // its path
	redis   *Child               // nil for a named Redis
	workers []*Child
	conn    *queue.Conn
	// broker is shared by all coordinators: messages that one leaves wait for the next.
	broker  *queue.Broker
	archive *storage.Archive
	store   *open.Metered
	remove  func(storage.Store) error // clears the folder of a named store
}

func startCluster(ctx context.Context, o Options) (*cluster, error) {
	c := &cluster{Options: o}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cluster) open(ctx context.Context) (err error) {
	if c.scratch, err = tempfiles.MakeDirectory(memoryDir(), "bench-"); err != nil {
		return err
	}
	c.dir = c.scratch.Path
	url := c.Redis
	if url == "" {
		if c.redis, url, err = Redis(c.dir); err != nil {
			return err
		}
	}
	if c.conn, err = openQueue(ctx, url, c.redis != nil); err != nil {
		return err
	}
	c.broker = c.conn.Broker()
	if err := refuseBusy(ctx, c.conn, c.broker); err != nil {
		return err
	}
	place := filepath.Join(c.dir, "store")
	if c.Store != "" {
		if place, c.remove, err = folderOf(c.Store); err != nil {
			return err
		}
	}
	if c.store, err = openMetered(ctx, place); err != nil {
		return err
	}
	c.archive = storage.NewArchive(c.store)
	return c.hire(ctx, url, place)
}

// hire starts the workers and waits until the queue lists them.
func (c *cluster) hire(ctx context.Context, url, place string) error {
	c.Note("starting %d workers of %d slots", c.Processes, c.Slots/c.Processes)
	for range c.Processes {
		w, err := startWorker(c.Program, url, place, c.Slots/c.Processes)
		if err != nil {
			return err
		}
		c.workers = append(c.workers, w)
	}
	return Await(ctx, "the workers to begin", func() (bool, error) {
		live, err := c.broker.Workers(ctx)
		for _, w := range c.workers {
			err = errors.Join(err, w.Ended())
		}
		return len(live) == c.Processes, err
	})
}

// close ends all started processes and removes all written files.
func (c *cluster) close() error {
	var errs []error
	for _, w := range c.workers {
		errs = append(errs, w.Stop())
	}
	if c.store != nil && c.remove != nil {
		errs = append(errs, c.remove(c.store))
	}
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	if c.redis != nil {
		c.redis.Kill()
	}
	if c.scratch != nil {
		c.scratch.Remove()
	}
	return errors.Join(errs...)
}

func newLeader(archive *storage.Archive, q coordinator.Queue, log *slog.Logger) (*coordinator.Coordinator, error) {
	return coordinator.New(coordinator.Config{Archive: archive, Queue: q, Compile: compileShape, Registry: Registry(), Log: log})
}

func submit(ctx context.Context, archive *storage.Archive, s shape) (*runs.Run, error) {
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	run, _, err := runs.NewService(archive, nil).Submit(ctx, spec, "bench", true)
	return run, err
}

// carryOut runs a shape under a separate coordinator with the observed queue.
func (c *cluster) carryOut(ctx context.Context, s shape, q *observedQueue) error {
	leader, err := newLeader(c.archive, q, c.Log)
	if err != nil {
		return err
	}
	run, err := submit(ctx, c.archive, s)
	if err != nil {
		return err
	}
	leading, stop := context.WithCancel(ctx)
	led := make(chan error, 1)
	go func() { led <- leader.Lead(leading) }()
	err = awaitEnd(ctx, leader, run.ID)
	stop()
	return errors.Join(err, <-led)
}

func awaitEnd(ctx context.Context, leader *coordinator.Coordinator, run string) error {
	for {
		updated := leader.Updated()
		if s, ok := leader.Snapshot(run); ok && s.Phase.Finished() {
			if s.Phase != runs.Done {
				return fmt.Errorf("the benchmark's run ended as %s: %s %v", s.Phase, s.Error, s.Failures)
			}
			return nil
		}
		select {
		case <-updated:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

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

// audits is the number of audits of each training in the last measurement: the default of experiments.
const audits = 10

// start measures the time for a coordinator to find the state of trainings that
// are in the middle of their last segment.
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

func (q *deafQueue) Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (q *deafQueue) Workers(context.Context) ([]queue.Worker, error) {
	w := queue.Worker{ID: "bench", Slots: q.wanted, Classes: []string{string(tasks.Compute)}, Kinds: Registry().Advertised()}
	return []queue.Worker{w}, nil
}

func (q *deafQueue) Known(_ context.Context, ids []string) (map[string]bool, error) {
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	return known, nil
}

func (q *deafQueue) Publish(context.Context, string, []byte, time.Duration) error { return nil }

// history writes the objects of trainings that have reached the middle of their last segment.
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
