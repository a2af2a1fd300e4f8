package queue

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"coalmine/internal/must"
)

// BenchmarkStage measures a stage of four messages over two idle workers, from the
// first enqueue to the last report, and how often the idle workers ask Redis
// meanwhile: the gain of waking and one round trip over a server of asynq's that
// polls.
func BenchmarkStage(b *testing.B) {
	for _, v := range []struct {
		name     string
		serve    func(b *testing.B, conn *Conn)
		together bool // the messages are enqueued in one call
	}{
		{"polling-20ms", polling(20 * time.Millisecond), false},
		{"polling-5ms", polling(5 * time.Millisecond), false},
		{"polling-1ms", polling(time.Millisecond), false},
		{"waking", waking, false},
		{"waking-together", waking, true},
	} {
		for server, open := range servers {
			b.Run(server+"/"+v.name, func(b *testing.B) {
				conn, asked := open(b), new(trips)
				dial := conn.dial
				conn.dial = func() *redis.Client {
					c := dial()
					c.AddHook(asked)
					return c
				}
				for range 2 {
					v.serve(b, conn)
				}
				broker := conn.Broker()
				enqueue(b, broker, "warm")
				await(b, broker, 1)
				before := asked.single.Load()
				time.Sleep(time.Second) // the time over which the idle workers are watched
				idle := asked.single.Load() - before
				for i := 0; b.Loop(); i++ {
					runStage(b, broker, i, v.together)
				}
				b.ReportMetric(float64(idle), "idle-requests/s")
			})
		}
	}
}

// servers open a connection to each kind of server.
var servers = map[string]func(b *testing.B) *Conn{
	"embedded": func(b *testing.B) *Conn { return mustEmbed(b) },
	"redis":    func(b *testing.B) *Conn { return mustOpen(b, startRedis(b).URL()) },
}

// waking starts a worker as it is.
func waking(b *testing.B, conn *Conn) { serve(b, conn, rand.Text(), echo) }

// polling starts a worker whose asynq server polls.
func polling(every time.Duration) func(b *testing.B, conn *Conn) {
	return func(b *testing.B, conn *Conn) {
		s := newConsumer(testContext(b), conn, ConsumerConfig{Worker: Worker{ID: rand.Text()}, Handler: echo})
		s.reporting = context.Background()
		client := conn.dial()
		server := asynq.NewServerFromRedisClient(client, asynq.Config{
			Concurrency: 2, Queues: map[string]int{queueName("compute"): 1},
			TaskCheckInterval: every, LogLevel: asynq.FatalLevel,
		})
		must.Do(b, server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
			s.handle(Message{ID: t.ResultWriter().TaskID(), Class: "compute", Payload: t.Payload()})
			return nil
		})))
		b.Cleanup(func() {
			server.Shutdown()
			_ = client.Close()
		})
	}
}

func runStage(b *testing.B, broker *Broker, stage int, together bool) {
	var messages []Message
	for i := range 4 {
		messages = append(messages, compute(fmt.Sprintf("s%d.%d", stage, i)))
	}
	size := 1
	if together {
		size = len(messages)
	}
	for batch := range slices.Chunk(messages, size) {
		must.Do(b, broker.Enqueue(context.Background(), batch...))
	}
	await(b, broker, len(messages))
}

// BenchmarkKnown measures the request of the coordinator every two seconds, of
// 1,000 running attempts and 1,000 that wait.
func BenchmarkKnown(b *testing.B) {
	for server, open := range servers {
		b.Run(server, func(b *testing.B) {
			conn := open(b)
			broker, g := conn.Broker(), newGate()
			g.entered = make(chan string, 1000)
			b.Cleanup(func() { close(g.leave) })
			for i := range 4 {
				serve(b, conn, fmt.Sprint(i), g.handle, func(cfg *ConsumerConfig) { cfg.Worker.Slots = 250 })
			}
			messages := manyMessages(2000)
			var ids []string
			for i := range messages {
				messages[i].Payload = make([]byte, 2048) // of a training task
				ids = append(ids, messages[i].ID)
			}
			must.Do(b, broker.Enqueue(testContext(b), messages...))
			known := map[string]bool{}
			must.Await(b, "all are known", func() bool {
				known, _ = broker.Known(testContext(b), ids)
				return len(known) == len(ids)
			})
			for b.Loop() {
				must.Get(broker.Known(testContext(b), ids))(b)
			}
		})
	}
}
