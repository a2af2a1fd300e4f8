package coordinator

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/dispatch"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/coordinator/observe"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/retention"
)

// term is one period of leadership: the state that a coordinator rebuilds from storage when it begins to
// lead. It belongs to the goroutine of the loop, except for the arguments of jobs.
type term struct {
	Config
	jobs
	store      leaderStore
	graph      *graph.Graph
	dispatcher *dispatch.Dispatcher
	records    records
	ledger     retention.Ledger
	deletions  deletions
	spans      observe.Spans
	counters   *observe.Counters
	leader     attempts.Leader // identifies this process in attempts
	began      time.Time

	// launching holds the attempts that are about to be sent.
	launching []outgoing
	// foreign holds, by key, the highest number of the running attempts that an earlier term sent.
	foreign map[storage.Key]int
	// losses counts the times that an input was missing for a task that has not ended since; purging holds
	// the keys of outputs whose blobs are being deleted for that reason.
	losses  map[loss]int
	purging map[storage.Key]bool

	vanished  vanished
	takeovers map[string]int // by worker: finished tasks after the death of another worker
	asking    bool           // a query for attempts is running
	published time.Time      // when statuses were published last
}

// A loss is an input that a task found missing. Another task may still be able to read the input, because
// it reads another blob of it.
type loss struct{ input, task storage.Key }

// outgoing is an attempt that has yet to be sent.
type outgoing struct {
	attempt *graph.Attempt
	message queue.Message
	end     func(error) // ends the span of the sending
}

func newTerm(cfg Config, c *observe.Counters, token *leadership.Token, now func() time.Time, start func(lane, job)) *term {
	log := cfg.Log.With("epoch", token.Epoch())
	g := graph.New(log)
	t := &term{
		Config: cfg, jobs: jobs{now: now, start: start, log: log},
		store: leaderStore{cfg.Archive, token}, graph: g, dispatcher: dispatch.New(g, cfg.Registry),
		spans: observe.NewSpans(cfg.Tracer, g, now), counters: c,
		foreign: make(map[storage.Key]int), losses: make(map[loss]int), purging: make(map[storage.Key]bool),
		takeovers: make(map[string]int),
	}
	t.dispatcher.Limits = cfg.Limits
	t.records = records{
		jobs: &t.jobs, store: t.store, service: runs.NewService(cfg.Archive, now), graph: g, byID: make(map[string]*run), left: new(sync.Map),
	}
	t.deletions = deletions{
		jobs: &t.jobs, store: t.store, ledger: &t.ledger, graph: g, allowed: t.claimsKnown, lists: make(map[*graph.Chain]*retired),
	}
	return t
}

// claimsKnown reports whether the claims of all existing runs are known.
func (t *term) claimsKnown() bool {
	for _, r := range t.records.byID {
		if !r.claimed {
			return false
		}
	}
	return t.records.discovered
}

func (t *term) logOf(x *graph.Task) *slog.Logger {
	log := t.log
	if len(x.Wants) > 0 {
		log = log.With("run", strings.Join(x.RunIDs(), ","))
	}
	return log.With("node", x.Key.Short(), "label", x.Label(), "kind", x.Kind())
}

// leaderStore has the operations on storage that are reserved to the leader. Each
// deletion checks the fencing token first.
type leaderStore struct {
	archive *storage.Archive
	token   *leadership.Token
}

// lookUp is plan.LookUp for the leader. It also removes a torn record, so that the node can commit again.
func (s *leaderStore) lookUp(ctx context.Context, key storage.Key) (plan.Stored, error) {
	n, err := plan.LookUp(ctx, s.archive, key)
	if err != nil || !n.Torn {
		return n, err
	}
	if err := s.token.Check(ctx); err != nil {
		return plan.Stored{}, err
	}
	_, err = s.archive.RemoveTorn(ctx, key)
	return plan.Stored{}, err
}

// lookUpOutcome looks up targets of a run. It reads the reports among them and deletes the blobs of damaged
// ones, so that the run makes them again and does not end without a table.
func (s *leaderStore) lookUpOutcome(ctx context.Context, keys []storage.Key, reports map[storage.Key]bool) ([]plan.Stored, error) {
	found, err := plan.LookUpAll(ctx, s.archive, keys)
	if err != nil {
		return nil, err
	}
	damaged, err := plan.Damaged(ctx, s.archive, found, func(key storage.Key) bool { return reports[key] })
	if err != nil {
		return nil, err
	}
	if len(damaged) == 0 {
		return found, nil
	}
	return found, retention.Purge(ctx, s.archive, s.token, damaged)
}

// purge deletes the blobs of a node, so that it is run again.
func (s *leaderStore) purge(ctx context.Context, key storage.Key) error {
	n, err := s.lookUp(ctx, key)
	if err != nil || n.Commit == nil {
		return err
	}
	if err := s.token.Check(ctx); err != nil {
		return err
	}
	return s.archive.DeleteBlobs(ctx, n.Commit)
}

// checkEpoch ends the term if another coordinator has begun to lead, even if there is nothing to delete.
func (t *term) checkEpoch() {
	t.persist(reading, "looking for another leader", always, func(ctx context.Context) (func(), error) {
		return nil, t.store.token.Check(ctx)
	})
}

// keepPlan records the plan of a run.
func (s *leaderStore) keepPlan(ctx context.Context, run string, w *plan.RecordWriter) error {
	record, err := w.Record()
	if err != nil {
		return err
	}
	if err := s.token.Check(ctx); err != nil {
		return err
	}
	return record.Keep(ctx, s.archive, run)
}
