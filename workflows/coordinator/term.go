package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"coalmine/internal/queue"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/leadership"
	"coalmine/workflows/retention"
	"coalmine/workflows/runs"
)

// term is one period of leadership: everything that is rebuilt from storage
// when a coordinator begins to lead. All of it belongs to the goroutine of the
// loop, except for what jobs are given.
type term struct {
	Config
	archive *storage.Archive
	service *runs.Service
	token   *leadership.Token
	leader  attempts.Leader // what attempts say of this process
	now     func() time.Time
	// start runs a job aside and applies, in the loop, what it returns.
	start   func(lane, job)
	log     *slog.Logger
	metrics *metrics

	runs   map[string]*run
	nodes  map[storage.Key]*node
	chains map[storage.Key]*chain
	claims retention.Ledger

	order []*run // by id

	attempts map[string]*attempt
	// launching are attempts on their way out.
	launching []outgoing
	inFlight  map[tasks.Class]int
	workers   []queue.Worker
	// foreign are attempts, by key, that workers run though this term has not
	// sent them: those of the term before.
	foreign map[storage.Key]int
	slots   map[tasks.Class]int // of the live workers that take tasks
	kinds   map[string]bool     // that live workers know
	keys    map[string]bool     // secret keys that live workers hold, by fingerprint
	parked  []*task             // that none of them can run
	served  int                 // counts dispatches, for fairness between runs
	yielded []yielded           // places of tasks that have yielded, until dispatch is done

	// losses counts how often an output was found missing since it could last
	// be read; purging are those whose blobs are being deleted for it.
	losses  map[storage.Key]int
	purging map[storage.Key]bool

	timers   timers
	timerSeq int
	readySeq int

	dirty     bool     // the wants must be counted anew
	withdrawn bool     // some attempts may have lost their last want
	scheduled []*chain // chains that may be able to go on
	ending    []*run   // runs whose cells may all have ended
	changed   bool     // something that people see has changed
	begun     time.Time

	// discovered says that all runs have been read once.
	discovered                              bool
	discovering, discoverAgain, discoverAll bool

	queueDown   trouble
	storageDown trouble
	durations   map[string]*samples // of standing nodes, by kind
	vanished    vanished
	asking      bool      // the queue is being asked for attempts
	published   time.Time // when statuses were published last
	deposed     error
}

// job is work that takes time; the loop applies what it returns.
type job func(context.Context) (apply func())

// lane keeps jobs of different sorts from waiting for each other.
type lane int

const (
	reading  lane = iota // storage, run logs
	sending              // the queue
	deleting             // one at a time for each chain
	lanes
)

// laneWidth is how many jobs of a lane run at once.
var laneWidth = [lanes]int{reading: 32, sending: 16, deleting: 4}

// jobTimeout bounds a job, so that a store that hangs cannot fill a lane.
const jobTimeout = time.Minute

// trouble is a service that does not answer.
type trouble struct {
	since time.Time
	err   error
}

func (x *trouble) begin(now time.Time, err error) (first bool) {
	x.err = err
	if !x.since.IsZero() {
		return false
	}
	x.since = now
	return true
}

func newTerm(cfg Config, m *metrics, token *leadership.Token, now func() time.Time, start func(lane, job)) *term {
	return &term{
		Config:    cfg,
		archive:   cfg.Archive,
		service:   runs.NewService(cfg.Archive, now),
		token:     token,
		now:       now,
		start:     start,
		log:       cfg.Log.With("epoch", token.Epoch()),
		metrics:   m,
		runs:      make(map[string]*run),
		nodes:     make(map[storage.Key]*node),
		chains:    make(map[storage.Key]*chain),
		attempts:  make(map[string]*attempt),
		foreign:   make(map[storage.Key]int),
		slots:     make(map[tasks.Class]int),
		inFlight:  make(map[tasks.Class]int),
		losses:    make(map[storage.Key]int),
		purging:   make(map[storage.Key]bool),
		durations: make(map[string]*samples),
	}
}

// begin sets the periodic duties going.
func (t *term) begin() {
	t.begun = t.now()
	t.discoverAll = true
	t.every(discoverEvery, t.discover)
	t.every(discoverAllEvery, func() { t.discoverAll = true })
	t.every(workersEvery, t.pollWorkers)
	t.every(recheckEvery, t.recheckAttempts)
	t.every(knownEvery, t.askForAttempts)
	t.every(stragglersEvery, t.helpStragglers)
	if t.leader.StoreID != "" {
		t.every(leadership.AnnounceEvery, t.announce)
	}
}

// settle does all that follows from what has just been applied.
func (t *term) settle() {
	for t.dirty || len(t.scheduled) > 0 || len(t.ending) > 0 {
		if t.dirty {
			t.recount()
		}
		for len(t.scheduled) > 0 {
			ch := t.scheduled[0]
			t.scheduled = t.scheduled[1:]
			ch.scheduled = false
			t.drive(ch)
		}
		ending := t.ending
		t.ending = nil
		for _, r := range ending {
			t.finishIfEnded(r)
		}
	}
	t.scheduled = nil
	if t.withdrawn {
		t.withdrawn = false
		t.withdrawUnwanted()
	}
	t.dispatch()
	t.sendOff()
}

// retryPauses are the pauses before a job that met an error is tried again;
// the last one repeats.
var retryPauses = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second}

// persist runs a storage job until it succeeds. do returns what to apply;
// stillNeeded is asked in the loop before another try.
func (t *term) persist(l lane, what string, stillNeeded func() bool, do func(context.Context) (func(), error)) {
	t.persistFrom(0, l, what, stillNeeded, do)
}

func (t *term) persistFrom(try int, l lane, what string, stillNeeded func() bool, do func(context.Context) (func(), error)) {
	t.start(l, func(ctx context.Context) func() {
		apply, err := do(ctx)
		return func() {
			switch {
			case err == nil:
				t.storageWorks()
				if apply != nil {
					apply()
				}
			case errors.Is(err, leadership.ErrDeposed):
				t.deposed = err
			default:
				t.storageFails(what, err)
				pause := retryPauses[min(try, len(retryPauses)-1)]
				t.after(pause, func() {
					if stillNeeded() {
						t.persistFrom(try+1, l, what, stillNeeded, do)
					}
				})
			}
		}
	})
}

// announce tells those that stand by which store is led. Nothing hangs on it, and
// that the queue is away is found by others.
func (t *term) announce() {
	t.start(sending, func(ctx context.Context) func() {
		err := leadership.Announce(ctx, t.Queue, t.leader)
		return func() {
			if err != nil {
				t.log.Debug("the leader is not announced", "error", err)
			}
		}
	})
}

func (t *term) storageFails(what string, err error) {
	if t.storageDown.begin(t.now(), err) {
		t.log.Warn("storage does not answer; trying again", "doing", what, "error", err)
	}
	t.changed = true
}

func (t *term) storageWorks() {
	if !t.storageDown.since.IsZero() {
		t.storageDown = trouble{}
		t.changed = true
	}
}

func (t *term) queueFails(err error) {
	if t.queueDown.begin(t.now(), err) {
		t.log.Warn("queue does not answer; nothing is lost, trying again", "error", err)
	}
	t.changed = true
}

// queueWorks looks at everything in flight after an absence: a queue that was
// away may have forgotten all of it, and that somebody has steered a run.
func (t *term) queueWorks() {
	if t.queueDown.since.IsZero() {
		return
	}
	t.log.Info("queue answers again", "away", t.now().Sub(t.queueDown.since).Round(time.Second))
	t.queueDown = trouble{}
	t.changed = true
	t.recheckAttempts()
	t.askForAttempts()
	t.nudged()
}
