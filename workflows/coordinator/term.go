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

// term is one period of leadership: all state that a coordinator rebuilds from
// storage when it begins to lead. All of it belongs to the goroutine of the
// loop, except for the arguments of jobs.
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
	leader     attempts.Leader // how attempts identify this process
	began      time.Time

	// launching are attempts on their way out.
	launching []outgoing
	// foreign are attempts, by key, that workers run but this term has not
	// sent: those of the term before.
	foreign map[storage.Key]int
	// losses counts how often an output was found missing since it could last
	// be read; purging are those whose blobs are being deleted for it.
	losses  map[storage.Key]int
	purging map[storage.Key]bool

	vanished  vanished
	takeovers map[string]int // by worker: tasks done with which another had died
	asking    bool           // the queue is being asked for attempts
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

// claimsKnown reports whether the claims of all runs that exist are known.
func (t *term) claimsKnown() bool {
	for _, r := range t.records.byID {
		if !r.claimed {
			return false
		}
	}
	return t.records.discovered
}

// logOf is the log for lines about a task.
func (t *term) logOf(x *graph.Task) *slog.Logger {
	log := t.log
	if len(x.Wants) > 0 {
		log = log.With("run", strings.Join(x.RunIDs(), ","))
	}
	return log.With("node", x.Key.Short(), "label", x.Label(), "kind", x.Kind())
}
