package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"coalmine/internal/goroutines"
)

// Causes with which a handler's context ends; see context.Cause.
var (
	// ErrStopped: the coordinator stopped the message (Broker.Stop).
	ErrStopped = errors.New("stopped by the coordinator")
	// ErrShutdown: the consumer is shutting down.
	ErrShutdown = errors.New("worker is shutting down")
)

// ConsumerConfig configures a worker.
type ConsumerConfig struct {
	// Worker describes the worker in its heartbeats: ID, unique among all workers that ever were, Host,
	// Classes, Slots (at least 1), ClassSlots, Devices, Build, Format, Kinds and Keys. Serve sets its other
	// fields.
	Worker Worker
	// Handler does the work. Its context ends when the coordinator stops the attempt (ErrStopped)
	// or the grace of a shutdown is over (ErrShutdown), never because Redis is away. The report is
	// sent when it returns; nil sends no report.
	Handler func(ctx context.Context, m Message) (report []byte)
	// Progress returns the progress of a running message; nil if it is unknown. It must not block.
	Progress func(id string) Progress
	// Memory returns the memory of the process, for the heartbeats; nil if it is unknown.
	Memory func() Memory
	// Early requests a heartbeat before it is due; nil never does.
	Early <-chan struct{}
	// Work returns the worker's totals, for the heartbeats; nil if they are unknown.
	Work func() Work
	// Grace is the time for running handlers to finish in a shutdown. Default 0: they are stopped
	// at once.
	Grace time.Duration
	// Log is the consumer's logger. Default slog.Default().
	Log *slog.Logger
}

func (cfg *ConsumerConfig) check() error {
	var errs []error
	if cfg.Worker.ID == "" {
		errs = append(errs, errors.New("it has no ID"))
	}
	if len(cfg.Worker.Classes) == 0 {
		errs = append(errs, errors.New("it has no Classes"))
	}
	if cfg.Worker.Slots < 1 {
		errs = append(errs, fmt.Errorf("it has %d slots: want at least 1", cfg.Worker.Slots))
	}
	if cfg.Handler == nil {
		errs = append(errs, errors.New("it has no Handler"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("queue consumer: %w", err)
	}
	return nil
}

// Limits on a shutdown, after its grace.
const (
	// StopGrace is the time for stopped handlers to return and report: external commands have
	// 20 seconds to exit, and their saved state is then stored.
	StopGrace = 40 * time.Second
	// closeGrace is the time for the goodbye to Redis.
	closeGrace = 3 * time.Second
)

// Time to retry a report while Redis is away, and during a shutdown. The report is a hint: the
// coordinator also checks storage.
const (
	reportPatience   = 30 * time.Second
	shutdownPatience = 2 * time.Second
)

// consumer is the state of one Serve.
type consumer struct {
	conn    *Conn
	cfg     ConsumerConfig
	log     *slog.Logger
	started time.Time

	// shutdown is done when the process is asked to exit; draining reports that no more messages
	// are taken, for any reason.
	shutdown context.Context
	draining atomic.Bool
	// away reports that the last heartbeat did not reach Redis.
	away atomic.Bool
	// drainOnce closes drainAsked when the broker has requested a drain.
	drainOnce  func()
	drainAsked chan struct{}
	// changed requests an early heartbeat after a change of the running messages.
	changed chan struct{}
	// reporting ends when the time for reports is over.
	reporting context.Context

	mu      sync.Mutex
	running map[string]*attempt
	// idle is signalled whenever the last attempt ends.
	idle *sync.Cond
}

// attempt is a message in its handler.
type attempt struct {
	since time.Time
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when the report has been sent
}

// Serve takes messages from the queues and handles them until ctx is done. Then it takes no more,
// gives handlers the grace to finish, stops the remaining ones, and returns nil. When the broker
// asks it to drain, it also takes no more, but lets handlers finish without a limit before it
// returns nil. A handler that does not return within StopGrace of being stopped is abandoned, and
// its message returns to the queue. Serve survives any absence of Redis.
func (c *Conn) Serve(ctx context.Context, cfg ConsumerConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	s := newConsumer(ctx, c, cfg)
	reporting, endReports := context.WithCancel(context.WithoutCancel(ctx))
	defer endReports()
	s.reporting = reporting

	beating, endBeats := context.WithCancel(context.WithoutCancel(ctx))
	var beats sync.WaitGroup
	beats.Go(func() { s.beat(beating) })
	var servers []*classServer
	for _, class := range cfg.Worker.Classes {
		server, err := s.startServer(class)
		if err != nil {
			endBeats()
			return fmt.Errorf("serving class %q: %w", class, err)
		}
		servers = append(servers, server)
	}

	s.log.Info("ready for tasks", "classes", cfg.Worker.Classes, "slots", cfg.Worker.Slots)
	select {
	case <-ctx.Done():
		s.log.Info("ending: no more tasks are taken", "running", len(s.list()), "grace", cfg.Grace)
		s.stopTaking(servers)
	case <-s.drainAsked:
		s.log.Info("draining: no more tasks are taken", "running", len(s.list()))
		s.stopTaking(servers)
		s.await(ctx)
	}
	s.finish()
	// The handler of the last message may not have begun: asynq waits for it, and it reports.
	defer time.AfterFunc(shutdownPatience, endReports).Stop()
	closeAll(servers)
	endBeats()
	beats.Wait()
	return nil
}

// newConsumer returns the state of one Serve, until ctx is done.
func newConsumer(ctx context.Context, c *Conn, cfg ConsumerConfig) *consumer {
	s := &consumer{
		shutdown: ctx, conn: c, cfg: cfg, log: cfg.Log, started: time.Now(),
		changed: make(chan struct{}, 1), running: map[string]*attempt{},
	}
	s.idle = sync.NewCond(&s.mu)
	s.drainAsked = make(chan struct{})
	s.drainOnce = sync.OnceFunc(func() { close(s.drainAsked) })
	s.log = cmp.Or(s.log, slog.Default())
	s.log = s.log.With("worker", cfg.Worker.ID)
	return s
}

// handle runs the handler with a separate context: asynq's ends when Redis was away until the lease
// was lost. Its error is a panic of the handler.
func (s *consumer) handle(m Message) error {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	if !s.begin(m.ID, stop) {
		// Sent again after a flush of Redis, while the first is still running.
		return nil
	}
	defer s.end(m.ID)
	var body []byte
	err := goroutines.Recover(func() error { body = s.cfg.Handler(ctx, m); return nil })
	goroutines.LogPanic(s.log, err, "task", m.ID)
	s.deliver(m.ID, body)
	return err
}

// begin records an attempt unless it is already running.
func (s *consumer) begin(id string, stop context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[id] != nil {
		return false
	}
	s.running[id] = &attempt{since: time.Now(), stop: stop, ended: make(chan struct{})}
	if s.draining.Load() {
		stop(ErrShutdown)
	}
	s.announce()
	return true
}

func (s *consumer) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running[id].ended)
	delete(s.running, id)
	if len(s.running) == 0 {
		s.idle.Broadcast()
	}
	s.announce()
}

func (s *consumer) announce() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// deliver sends the report of a message, if there is one, and retries while Redis is away.
func (s *consumer) deliver(id string, body []byte) {
	if body == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.reporting, s.patience())
	defer cancel()
	report := Report{ID: id, Worker: s.cfg.Worker.ID, Body: body}.encode()
	err := retry(ctx, func() error { return s.conn.client.RPush(ctx, reportsKey, report).Err() })
	if err != nil {
		s.log.Info("a report was not taken; the coordinator finds the outcome in storage", "message", id, "error", err)
	}
}

// patience returns the time for a report sent now: shorter in a shutdown, but not in a drain.
func (s *consumer) patience() time.Duration {
	if s.shutdown.Err() != nil {
		return shutdownPatience
	}
	return reportPatience
}

// retry calls do until it succeeds or ctx is done, with pauses that grow from 50 ms to a second.
func retry(ctx context.Context, do func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := do()
		if err == nil {
			return nil
		}
		if goroutines.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// stopTaking takes no more messages. A message just taken is returned.
func (s *consumer) stopTaking(servers []*classServer) {
	s.draining.Store(true)
	s.announce()
	for _, server := range servers {
		server.stopTaking()
	}
}

// finish waits for the handlers, and stops those that exceed the grace.
func (s *consumer) finish() {
	if !s.awaitFor(s.cfg.Grace) {
		s.stopAll(ErrShutdown)
		if !s.awaitFor(StopGrace) {
			s.log.Warn("handlers did not return after they were stopped; their tasks go back into the queue")
		}
	}
}

// awaitFor waits at most d until no attempt runs, and reports whether none does.
func (s *consumer) awaitFor(d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.await(ctx)
}

// await waits until no attempt runs or ctx is done, and reports whether none runs.
func (s *consumer) await(ctx context.Context) bool {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.running) > 0 && ctx.Err() == nil {
		s.idle.Wait()
	}
	return len(s.running) == 0
}

func (s *consumer) stopAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.running {
		a.stop(cause)
	}
}
