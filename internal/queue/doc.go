// Package queue carries tasks from the coordinator to the workers, and their
// reports back, over asynq on Redis.
//
// No authoritative data is here: Redis may be flushed, restarted or replaced at
// any moment, and both sides continue as soon as it answers again. Messages and
// reports are opaque bytes.
//
//	conn, err := queue.Open(ctx, "redis://localhost:6379") // or queue.Embedded(ctx)
//	broker := conn.Broker()                                // the coordinator's side
//	broker.Enqueue(ctx, queue.Message{ID: "k.1", Class: "compute", Payload: p})
//	reports, err := broker.Reports(ctx, time.Second)
//
//	conn.Serve(ctx, queue.ConsumerConfig{...})             // the worker's side
//
// asynq does most of it, by its public interface: it keeps the tasks of a queue in their
// order, gives each to one server up to its number of slots, leases it, ends it when its
// handler returns, and archives it when the lease has expired. Its Inspector lists the
// waiting tasks, and deletes them. The additions, and their reasons:
//
//   - Waking. An idle asynq server polls. Here the answer that a queue is empty waits in
//     BLPOP for a wake token, which Enqueue pushes (see wakingClient). A wait ends by
//     itself every two seconds, so that a lost token only costs time.
//   - One round trip. asynq takes one for each task that it enqueues. Here those of one
//     call go together, with their tokens (see pipelineClient).
//   - Liveness. asynq notices a dead server after one to two minutes. Workers here
//     write a heartbeat every second that expires after three, and lists the
//     attempts that they run.
//   - Reports. A handler's result travels on a list of its own, so that the
//     coordinator reacts at once and asynq need not keep finished tasks.
//   - Steering. A request to stop or to drain lies under a key that the worker reads with
//     its heartbeat. asynq's own way to cancel a task reaches nobody who is not
//     connected at that moment, and frees the slot while the handler is still at work.
//   - Retries belong to the coordinator: asynq's own are off. What a dead worker had,
//     asynq finds after one to two minutes and puts into its archive, where nobody looks
//     and which keeps 10,000 tasks for 90 days. Sent again, a task leaves it.
//
// The gain of the first two, by "go run ./bench/cmd queue --scale" with 1,000 slots in 4
// processes (idle: 20 of 50 slots). Coordinator, workers and Redis shared two cores with
// test suites; these are medians of three interleaved rounds. The rows above the last are
// of builds without the one or both:
//
//	                             round of 4 and a join   tasks/s   idle, of a core
//	asynq alone, polls at 20 ms                17.2 ms     2,100               45%
//	asynq alone, polls at 5 ms                 10.1 ms     2,100              125%
//	asynq alone, polls at 1 ms                  8.1 ms     2,300              160%
//	waking                                      6.9 ms     2,100                4%
//	waking and one round trip                   4.9 ms     2,400                4%
//
// BenchmarkStage compares the same five in one run, over two workers.
//
// Not here, for tasks last seconds: to take several tasks in a round trip, and to end
// them in the round trip that carries the report. Both together carry 5,100 tasks a
// second beside these 2,400, but answer asynq in the place of Redis and edit its keys.
//
// reliances_test.go lists the undocumented behaviour of asynq that this package
// relies on, with a test for each.
//
// Each class of tasks has a queue and an asynq server of its own: with two
// queues in one server, a wait on the first would starve the second.
//
// Redis must be 6.2 or newer, and must not evict keys.
package queue

import "encoding/json"

// Message is one attempt on its way to a worker.
type Message struct {
	// ID names the attempt; enqueuing it twice conflicts harmlessly. Used again within
	// a moment of its report it may conflict with the first, which asynq is about to
	// end, and is then not known (see Broker.Known). It holds neither spaces nor line
	// breaks.
	ID string
	// Class names the queue.
	Class string
	// Payload is opaque to this package.
	Payload []byte
}

// Report is a handler's result for a message.
type Report struct {
	// ID is the message's; a nudge (see Broker.Nudge) has none.
	ID string
	// Worker is the ConsumerConfig.WorkerID of the sender.
	Worker string
	// Body is opaque to this package.
	Body []byte
}

// IsNudge reports whether the report only asks the coordinator to look at
// storage again.
func (r Report) IsNudge() bool { return r.ID == "" }

// Worker describes a live worker, as of its last heartbeat.
type Worker struct {
	ID   string `json:"id"`
	Host string `json:"host"`
	PID  int    `json:"pid"`
	// Classes are the queues that it serves, Slots how many tasks of each class
	// it runs at once, except for those in ClassSlots.
	Classes    []string       `json:"classes"`
	Slots      int            `json:"slots"`
	ClassSlots map[string]int `json:"class_slots,omitempty"`
	// Devices are the GPUs of its tasks.
	Devices []Device `json:"devices,omitempty"`
	// Build is the version of its program, and Format the latest format of messages that it reads; empty and 0
	// of builds that did not tell.
	Build  string `json:"build,omitempty"`
	Format int    `json:"format,omitempty"`
	// Unreadable says that its heartbeat is of another build, and could not be read.
	Unreadable bool `json:"-"`
	// Kinds are the kinds of task that it knows, as the consumer's owner wrote them.
	Kinds []string `json:"kinds"`
	// Keys are the fingerprints of the secret keys that it holds.
	Keys []string `json:"keys,omitempty"`
	// Draining workers take no new tasks.
	Draining bool `json:"draining,omitempty"`
	// Memory is the memory of the process.
	Memory Memory `json:"memory,omitzero"`
	// Work is its finished work so far.
	Work Work `json:"work,omitzero"`
	// StartedUnix is when the worker began to serve, by its own clock.
	StartedUnix int64 `json:"started_unix"`
	// Running are the attempts in progress, ordered by ID.
	Running []Running `json:"running,omitempty"`
}

// SlotsOf returns the number of tasks of a class that the worker runs at once.
func (w *Worker) SlotsOf(class string) int {
	if n, given := w.ClassSlots[class]; given {
		return n
	}
	return w.Slots
}

// Device is a GPU.
type Device struct {
	// ID is its name in CUDA_VISIBLE_DEVICES.
	ID string `json:"id"`
	// Name is the model, Driver the version of the driver, MemoryBytes the size of the memory; empty and 0 if
	// unknown.
	Name        string `json:"name,omitempty"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Driver      string `json:"driver,omitempty"`
}

// Work counts the finished tasks of a worker since it began.
type Work struct {
	// Ended is the number of attempts that have ended.
	Ended int64 `json:"ended"`
	// Tokens were trained on, evaluated or scored; TokensPerSecond is their rate of late.
	Tokens          int64   `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	// CacheHits and CacheMisses are lookups of inputs in all caches together.
	CacheHits   int64 `json:"cache_hits"`
	CacheMisses int64 `json:"cache_misses"`
}

// Memory is the memory of a worker's process, in bytes.
type Memory struct {
	// Used is the resident memory.
	Used int64 `json:"used_bytes"`
	// Limit is its limit; 0 if there is none.
	Limit int64 `json:"limit_bytes,omitempty"`
	// GroupUsed and GroupLimit are those of its control group, a container for instance, with all
	// processes in it; 0 where no group limits it.
	GroupUsed  int64 `json:"group_used_bytes,omitempty"`
	GroupLimit int64 `json:"group_limit_bytes,omitempty"`
}

// Tightest is the memory that is in use, and its limit, where it is closest to a limit.
func (m Memory) Tightest() (used, limit int64) {
	if m.GroupLimit > 0 && (m.Limit == 0 || float64(m.GroupUsed)*float64(m.Limit) > float64(m.Used)*float64(m.GroupLimit)) {
		return m.GroupUsed, m.GroupLimit
	}
	return m.Used, m.Limit
}

// Running is one attempt in progress.
type Running struct {
	ID string `json:"id"`
	// Seconds is how long it has been running.
	Seconds float64 `json:"seconds"`
	Progress
}

// Progress is how far an attempt has come: Done of Total units, where Total is
// 0 when it is not known, and the tokens handled so far.
type Progress struct {
	Done   int64 `json:"done,omitempty"`
	Total  int64 `json:"total,omitempty"`
	Tokens int64 `json:"tokens,omitempty"`
}

func (w *Worker) encode() ([]byte, error) { return json.Marshal(w) }
