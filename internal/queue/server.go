package queue

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// classServer is the asynq server of one class, with its own clients.
type classServer struct {
	asynq  *asynq.Server
	client *redis.Client
	waking *wakingClient
}

// Intervals of asynq's housekeeping. There are no delayed, retried or completed tasks
// here, so their scanners may sleep.
const (
	housekeeping = 10 * time.Minute
	// checkInterval is asynq's pause after an empty queue, for which its client has already waited.
	checkInterval = time.Millisecond
)

func (s *consumer) startServer(class string) (*classServer, error) {
	client := s.conn.dial()
	waking := newWakingClient(class, client, s.conn.dial())
	server := asynq.NewServerFromRedisClient(waking, asynq.Config{
		Concurrency:              s.cfg.Worker.SlotsOf(class),
		Queues:                   map[string]int{queueName(class): 1},
		TaskCheckInterval:        checkInterval,
		DelayedTaskCheckInterval: housekeeping,
		JanitorInterval:          housekeeping,
		ShutdownTimeout:          time.Second,
		ErrorHandler:             asynq.ErrorHandlerFunc(s.givenUp),
		Logger:                   asynqLog{s.log.With("class", class), &s.away, new(sync.Map)},
		LogLevel:                 asynq.WarnLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		return s.handle(Message{ID: t.ResultWriter().TaskID(), Class: class, Payload: t.Payload()})
	}))
	cs := &classServer{asynq: server, client: client, waking: waking}
	if err != nil {
		cs.close()
		return nil, err
	}
	return cs, nil
}

const slotStaysTaken = "the queue gave a task up that is at work; its slot stays taken until it has ended"

// givenUp is called when asynq gives up a task while its handler runs, because Redis was away until the
// lease was lost. asynq counts the slot as free when this returns, so it waits for the handler.
func (s *consumer) givenUp(ctx context.Context, _ *asynq.Task, _ error) {
	id, _ := asynq.GetTaskID(ctx)
	s.mu.Lock()
	a := s.running[id]
	s.mu.Unlock()
	if a == nil {
		return // the handler has panicked and ended
	}
	s.log.Warn(slotStaysTaken, "task", id)
	select {
	case <-a.ended:
	case <-s.reporting.Done():
	}
}

// stopTaking ends the wait for messages; running ones continue.
func (cs *classServer) stopTaking() {
	cs.waking.stop()
	cs.asynq.Stop()
}

// close ends the server. Without Redis its goodbye is cut short.
func (cs *classServer) close() {
	cut := time.AfterFunc(closeGrace, func() { _ = cs.client.Close() })
	cs.waking.stop()
	cs.asynq.Shutdown()
	if cut.Stop() {
		_ = cs.client.Close()
	}
}

func closeAll(servers []*classServer) {
	var all sync.WaitGroup
	for _, server := range servers {
		all.Go(server.close)
	}
	all.Wait()
}

// asynqLog writes asynq's messages to the worker's log, with node and attempt as fields if they name a
// task. None is an error here: asynq retries, or the coordinator recovers. While Redis is away, which
// the heartbeat reports, every operation fails each second without new information; the same holds for
// a connection that breaks before the heartbeat notices, and for a task that ends after Redis has lost
// it. Equal messages are written at most once a minute.
type asynqLog struct {
	log      *slog.Logger
	away     *atomic.Bool
	reported *sync.Map // time by message
}

// quiet is the minimum interval between equal messages.
const quiet = time.Minute

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelWarn, args) }
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

// namedAttempt matches the id of an attempt: the key of its node and its number.
var namedAttempt = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\.([0-9]+)\b`)

// harmless matches errors of a missing connection or a missing task.
var harmless = regexp.MustCompile(`\bdial (tcp|unix)\b|\bi/o timeout\b|\bEOF\b|\bconnection reset\b|\bbroken pipe\b|\bNOT FOUND\b`)

func (l asynqLog) write(level slog.Level, args []any) {
	text, log := fmt.Sprint(args...), l.log
	if level < slog.LevelError && (l.away.Load() || harmless.MatchString(text)) {
		level = slog.LevelDebug
	}
	if named := namedAttempt.FindAllStringSubmatch(text, -1); len(named) == 1 {
		log = log.With("node", named[0][1], "attempt", named[0][2])
	}
	if level > slog.LevelDebug && !l.due(text) {
		level = slog.LevelDebug
	}
	log.Log(context.Background(), level, "asynq: "+text)
}

// due reports whether a message was not written within quiet. Because messages about tasks all differ,
// it periodically forgets all messages.
func (l asynqLog) due(text string) bool {
	now := time.Now()
	l.reported.Range(func(known, at any) bool {
		if now.Sub(at.(time.Time)) >= quiet {
			l.reported.Delete(known)
		}
		return true
	})
	_, reported := l.reported.LoadOrStore(text, now)
	return !reported
}
