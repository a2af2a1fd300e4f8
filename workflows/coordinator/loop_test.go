package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coalmine/internal/must"
	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/storage/dir"
	"coalmine/storage/storagetest"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/status"
)

// liveQueue is a queue with one worker, of four slots unless a test says otherwise,
// in real goroutines.
type liveQueue struct {
	archive *storage.Archive
	slots   chan struct{}
	// takes, if set, is how long an attempt holds its slot.
	takes   func(attempts.Attempt) time.Duration
	reports chan queue.Report
	work    sync.WaitGroup

	mu        sync.Mutex
	running   map[string]bool
	holder    string
	expires   time.Time
	published map[string][]byte
}

func newLiveQueue(archive *storage.Archive) *liveQueue {
	return &liveQueue{
		archive: archive, slots: make(chan struct{}, 4), reports: make(chan queue.Report, 1000),
		running: make(map[string]bool), published: make(map[string][]byte),
	}
}

func (q *liveQueue) Enqueue(_ context.Context, messages ...queue.Message) error {
	for _, m := range messages {
		if err := q.enqueue(m); err != nil {
			return err
		}
	}
	return nil
}

func (q *liveQueue) enqueue(m queue.Message) error {
	a, err := attempts.DecodeAttempt(m.Payload)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running[m.ID] {
		return nil
	}
	q.running[m.ID] = true
	q.work.Go(func() {
		q.slots <- struct{}{}
		defer func() { <-q.slots }()
		took := 10 * time.Millisecond
		if q.takes != nil {
			took = q.takes(a)
			time.Sleep(took)
		}
		o := q.execute(a)
		o.Seconds = took.Seconds()
		body, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		q.mu.Lock()
		delete(q.running, m.ID)
		q.mu.Unlock()
		q.reports <- queue.Report{ID: m.ID, Worker: "w1", Body: body}
	})
	return nil
}

func (q *liveQueue) execute(a attempts.Attempt) attempts.Outcome {
	ctx := context.Background()
	o := attempts.Outcome{Key: a.Key, Number: a.Number, Worker: "w1", Result: attempts.Failed, Tokens: 100}
	if f, err := plan.LookUp(ctx, q.archive, a.Key); err == nil && f.Available() {
		o.Result, o.Objects = attempts.Done, f.Commit.Objects()
		return o
	}
	c, err := plantest.Execute(ctx, q.archive, a.Spec, fmt.Sprint(a.ID(), time.Now().UnixNano()))
	var missing *tasks.MissingError
	switch {
	case errors.As(err, &missing):
		o.Result, o.MissingNode, o.Error = attempts.Missing, &missing.Node, err.Error()
	case err != nil:
		o.Error = err.Error()
	default:
		o.Result, o.Objects = attempts.Done, c.Objects()
	}
	return o
}

func (q *liveQueue) Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case r := <-q.reports:
		return []queue.Report{r}, nil
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (q *liveQueue) Workers(context.Context) ([]queue.Worker, error) {
	return []queue.Worker{{ID: "w1", Classes: []string{string(tasks.Compute)}, Slots: cap(q.slots), Kinds: plantest.Kinds.Advertised()}}, nil
}

func (q *liveQueue) Known(_ context.Context, ids []string) (map[string]bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := make(map[string]bool)
	for _, id := range ids {
		known[id] = q.running[id]
	}
	return known, nil
}

func (q *liveQueue) Withdraw(context.Context, string) (bool, error) { return false, nil }
func (q *liveQueue) Stop(context.Context, ...string) error          { return nil }

func (q *liveQueue) Lease(_ context.Context, _, holder string, ttl time.Duration) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holder != holder && time.Now().Before(q.expires) {
		return false, nil
	}
	q.holder, q.expires = holder, time.Now().Add(ttl)
	return true, nil
}

func (q *liveQueue) Release(_ context.Context, _, holder string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.holder == holder {
		q.holder = ""
		q.expires = time.Time{}
	}
	return nil
}

func (q *liveQueue) Publish(_ context.Context, name string, data []byte, _ time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.published[name] = data
	return nil
}

func (q *liveQueue) Published(_ context.Context, name string) ([]byte, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.published[name], nil
}

// newLeader returns a coordinator over one plan for every run.
func newLeader(t testing.TB, archive *storage.Archive, q Queue, holder string, p *plan.Plan) *Coordinator {
	t.Helper()
	return newLeaderOf(t, archive, q, holder, func(*runs.Run) *plan.Plan { return p })
}

// newLeaderOf returns a coordinator over the plans of runs.
func newLeaderOf(t testing.TB, archive *storage.Archive, q Queue, holder string, planOf func(*runs.Run) *plan.Plan) *Coordinator {
	t.Helper()
	c := must.Get(New(Config{
		Archive: archive, Queue: q, Holder: holder, Registry: plantest.Kinds,
		Compile: func(_ context.Context, r *runs.Run) (plan.Parts, error) { return plan.SinglePart(planOf(r)), nil },
		Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	}))(t)
	return c
}

func submitTo(t testing.TB, archive *storage.Archive, name string) string {
	t.Helper()
	spec := runs.Spec{Name: name, Digest: storage.DigestOf([]byte(name)), Experiment: []byte(name)}
	run, _, err := runs.NewService(archive, nil).Submit(context.Background(), spec, "tester", false)
	if err != nil {
		t.Fatal(err)
	}
	return run.ID
}

// await follows a coordinator's snapshots until the run has finished.
func await(t testing.TB, c *Coordinator, id string) *status.Run {
	t.Helper()
	for {
		updated := c.Updated()
		if s, ok := c.Snapshot(id); ok && s.Phase.Finished() {
			return s
		}
		<-updated
	}
}

func TestCoordinatorCompletesRunOnDirectory(t *testing.T) {
	t.Parallel()
	store := must.Get(dir.Open(filepath.Join(t.TempDir(), "store")))(t)
	archive := storage.NewArchive(store)
	p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 4, Steps: 12, Keep: []int{4, 8}, Every: 3, KeepLast: 2, Big: true})
	q := newLiveQueue(archive)
	c := newLeader(t, archive, q, "", p)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Lead(ctx) }()
	id := submitTo(t, archive, "live")
	c.Nudge()
	s := await(t, c, id)
	if s.Phase != runs.Done || s.Cells[0].Phase != runs.Done || s.Cells[0].Step != 12 || s.Cells[0].Steps != 12 {
		t.Errorf("status at the end %+v", s)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Lead returned %v", err)
	}
	q.work.Wait()
	e := plantest.NewEvaluator()
	must.Do(t, e.Reach(p, p.Cells[0].Report))
	report, err := archive.Committed(context.Background(), p.Cells[0].Report.Key)
	if err != nil || !maps.Equal(plantest.OutputsOf(report), e.Outputs(report.Key)) {
		t.Errorf("the report differs from a plain evaluation: %v", err)
	}
}

func TestStandbyTakesOverWithinFourSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		archive := storage.NewArchive(storagetest.NewMemory())
		p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 30})
		q := newLiveQueue(archive)
		first := newLeader(t, archive, mortal{q, make(chan struct{})}, "first", p)
		second := newLeader(t, archive, q, "second", p)
		ctx, stop := context.WithCancel(context.Background())
		var both sync.WaitGroup
		both.Go(func() { _ = first.Lead(ctx) })
		synctest.Wait()
		both.Go(func() { _ = second.Lead(ctx) })
		time.Sleep(time.Second)
		if epoch, _ := archive.CurrentEpoch(ctx); epoch != 1 {
			t.Errorf("epoch %d while the first leads, want 1", epoch)
		}
		id := submitTo(t, archive, "failover")
		close(first.cfg.Queue.(mortal).dead)
		died := time.Now()
		s := await(t, second, id)
		if took := time.Since(died); took > 5*time.Second {
			t.Errorf("the run ended %s after the leader's death, want it taken over within 4 s", took)
		}
		if s.Phase != runs.Done {
			t.Errorf("the run is %s: %s", s.Phase, s.Error)
		}
		stop()
		both.Wait()
		q.work.Wait()
	})
}

// mortal is a coordinator's view of a queue that it can no longer reach once it
// is dead, as when its process hangs or its network is cut.
type mortal struct {
	*liveQueue
	dead chan struct{}
}

func (m mortal) err() error {
	select {
	case <-m.dead:
		return errAway
	default:
		return nil
	}
}

func (m mortal) Enqueue(ctx context.Context, messages ...queue.Message) error {
	if err := m.err(); err != nil {
		return err
	}
	return m.liveQueue.Enqueue(ctx, messages...)
}

func (m mortal) Reports(ctx context.Context, wait time.Duration) ([]queue.Report, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.dead:
			cancel()
		case <-ctx.Done():
		}
	}()
	return m.liveQueue.Reports(ctx, wait)
}

func (m mortal) Workers(ctx context.Context) ([]queue.Worker, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.liveQueue.Workers(ctx)
}

func (m mortal) Lease(ctx context.Context, name, holder string, ttl time.Duration) (bool, error) {
	if err := m.err(); err != nil {
		return false, err
	}
	return m.liveQueue.Lease(ctx, name, holder, ttl)
}

func TestDeposedLeaderReturnsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		archive := storage.NewArchive(storagetest.NewMemory())
		p := plantest.Federated(t, plantest.ChainOptions{Salt: "x", Width: 2, Steps: 300, Big: true})
		q := newLiveQueue(archive)
		c := newLeader(t, archive, q, "", p)
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- c.Lead(ctx) }()
		synctest.Wait()
		if _, _, err := archive.NextEpoch(ctx, storage.Epoch{Holder: "another"}); err != nil {
			t.Fatal(err)
		}
		submitTo(t, archive, "deposed")
		c.Nudge()
		if err := <-ended; !errors.Is(err, leadership.ErrDeposed) {
			t.Errorf("Lead returned %v, want that another leads", err)
		}
		q.work.Wait()
	})
}

func TestNewRejectsEmptyConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil {
		t.Error("New accepted an empty configuration")
	}
}
