package queue

import (
	"context"
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
	client := s.conn.dial()
	hook := newDequeueHook(class, s.conn.client, s.conn.dial(), s.cfg.Slots)
	client.AddHook(hook)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency:              s.cfg.Slots,
		Queues:                   map[string]int{queueName(class): 1},
		TaskCheckInterval:        checkInterval,
		DelayedTaskCheckInterval: housekeeping,
		JanitorInterval:          housekeeping,
		ShutdownTimeout:          time.Second,
		Logger:                   asynqLog{s.log.With("class", class), &s.away},
		LogLevel:                 asynq.WarnLevel,
	})
	err := server.Start(asynq.HandlerFunc(func(leased context.Context, t *asynq.Task) error {
		growStack()
		defer hook.enter()()
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
