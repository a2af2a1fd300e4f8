package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// classServer is the asynq server of one class, with the clients that it alone uses.
type classServer struct {
	asynq  *asynq.Server
	client *redis.Client
	hook   *dequeueHook
}

// Intervals of asynq's own housekeeping. There are no delayed, retried or
// completed tasks here, so what looks for them may sleep.
const (
	housekeeping = 10 * time.Minute
	// checkInterval is asynq's pause after an empty dequeue; the hook has waited already.
	checkInterval = time.Millisecond
)

func (s *consumer) startServer(class string) (*classServer, error) {
	slots := make(chan struct{}, s.cfg.Slots)
	client := s.conn.dial()
	hook := newDequeueHook(class, s.conn.client, s.conn.dial(), slots)
	client.AddHook(hook)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency:              s.cfg.Slots,
		Queues:                   map[string]int{queueName(class): 1},
		TaskCheckInterval:        checkInterval,
		DelayedTaskCheckInterval: housekeeping,
		JanitorInterval:          housekeeping,
		ShutdownTimeout:          time.Second,
		Logger:                   asynqLog{s.log},
		LogLevel:                 asynq.WarnLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(leased context.Context, t *asynq.Task) error {
		slots <- struct{}{}
		defer func() { <-slots }()
		s.handle(leased, Message{ID: t.ResultWriter().TaskID(), Class: class, Payload: t.Payload()})
		return nil
	}))
	cs := &classServer{asynq: server, client: client, hook: hook}
	if err != nil {
		cs.close()
		return nil, err
	}
	return cs, nil
}

// stopTaking ends the wait for messages; what runs goes on.
func (cs *classServer) stopTaking() {
	cs.hook.stop()
	cs.asynq.Stop()
	cs.hook.passOn()
}

// close ends the server. Without Redis its goodbye is cut short.
func (cs *classServer) close() {
	cut := time.AfterFunc(closeGrace, func() { _ = cs.client.Close() })
	cs.hook.stop()
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

// asynqLog writes asynq's messages to a slog.Logger. None of them is an error
// here: what asynq cannot do while Redis is away, it does later or the
// coordinator makes good.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Debug("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Error(args ...any) { l.log.Warn("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Fatal(args ...any) { l.log.Error("asynq: " + fmt.Sprint(args...)) }
