package coordinator

import (
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
	"coalmine/workflows/runs"
	"coalmine/workflows/runs/leadership"
	"coalmine/workflows/runs/retention"
)

// term is one period of leadership: the state that a coordinator rebuilds from
// storage when it begins to lead. It belongs to the goroutine of the loop,
// except for the arguments of jobs.
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

	// launching has the attempts that are about to be sent.
	launching []outgoing
	// foreign has, by key, the highest number of the running attempts that an
	// earlier term sent.
	foreign map[storage.Key]int
	// losses counts how often an output was found missing since it was last
	// read; purging has the outputs with blobs being deleted for that reason.
	losses  map[storage.Key]int
	purging map[storage.Key]bool

	vanished  vanished
	takeovers map[string]int // by worker: finished tasks after the death of another worker
	asking    bool           // a query for attempts is running
	published time.Time      // when statuses were published last
}

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
		foreign: make(map[storage.Key]int), losses: make(map[storage.Key]int), purging: make(map[storage.Key]bool),
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

// logOf returns the logger for a task.
func (t *term) logOf(x *graph.Task) *slog.Logger {
	log := t.log
	if len(x.Wants) > 0 {
		log = log.With("run", strings.Join(x.RunIDs(), ","))
	}
	return log.With("node", x.Key.Short(), "label", x.Label(), "kind", x.Kind())
}
