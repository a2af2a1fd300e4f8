package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"coalmine/internal/queue"
	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/storage/open"
	"coalmine/workflows/coordinator"
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
