// Package queue carries tasks from the coordinator to the workers, and their
// reports back, over asynq on Redis.
//
// It holds no authoritative data: Redis may be flushed, restarted or replaced at any moment, and both sides
// continue as soon as it answers again. Messages and reports are opaque bytes.
//
//	conn, err := queue.Open(ctx, "redis://localhost:6379") // or queue.Embedded(ctx)
//	broker := conn.Broker()                                // the coordinator's side
//	broker.Enqueue(ctx, queue.Message{ID: "k.1", Class: "compute", Payload: p})
//	reports, err := broker.Reports(ctx, time.Second)
//
//	conn.Serve(ctx, queue.ConsumerConfig{...})             // the worker's side
//
// asynq does most of the work, through its public interface: it keeps the tasks of a queue in order, gives
// each to one server up to its number of slots, leases it, ends it when its handler returns, and archives
// it when the lease has expired. Its Inspector lists and deletes the waiting tasks. This package adds:
//
//   - Waking. An idle asynq server polls. Here its client answers that a queue is empty
//     only after waiting in BLPOP for a wake token, which Enqueue pushes (see
//     wakingClient). A wait lasts two seconds, so that a lost token only costs time.
//   - One round trip. asynq makes one for each task that it enqueues. Here one carries
//     all tasks of a call with their tokens (see pipelineClient).
//   - Liveness. asynq notices a dead server after one to two minutes. Here a worker writes a heartbeat
//     every second, which lists its running attempts and expires after three seconds.
//   - Reports. A handler's result travels on a separate list, so that the
//     coordinator reacts at once and asynq need not keep finished tasks.
//   - Steering. A request to stop or to drain is stored under a key that the worker reads
//     with its heartbeat. asynq's cancellation reaches only workers connected at that
//     moment, and frees the slot while the handler still runs.
//   - Retries belong to the coordinator: asynq's are disabled. After one to two minutes
//     asynq moves the tasks of a dead worker to its archive, which this package ignores
//     and which keeps 10,000 tasks for 90 days. A task that is sent again leaves it.
//
// The gain of the first two, by "go run ./bench/cmd queue --scale" with 1,000 slots in 4 processes
// (idle: 20 of 50 slots). Coordinator, workers and Redis shared two cores with test suites; these are
// medians of three interleaved rounds. All rows but the last show builds without one or both:
//
//	                             round of 4 and a join   tasks/s   idle, of a core
//	asynq alone, polls at 20 ms                17.2 ms     2,100               45%
//	asynq alone, polls at 5 ms                 10.1 ms     2,100              125%
//	asynq alone, polls at 1 ms                  8.1 ms     2,300              160%
//	waking                                      6.9 ms     2,100                4%
//	waking and one round trip                   4.9 ms     2,400                4%
//
// BenchmarkStage compares the same five in one run, with two workers.
//
// Because tasks last seconds, this package does not take several tasks in a round trip, nor
// end them in the round trip of the report. Both together carry 5,100 tasks a second
// rather than 2,400, but answer asynq in place of Redis and edit its keys.
//
// reliances_test.go lists the undocumented behaviour of asynq that this package
// relies on, with a test for each.
//
// Each class of tasks has its own queue and asynq server: with two queues in one server,
// a wait on the first would starve the second.
//
// Redis must be 6.2 or newer, and must not evict keys.
package queue

// Message is one attempt on its way to a worker.
type Message struct {
	// ID names the attempt; enqueuing it twice conflicts harmlessly. Used again just after
	// its report, it may conflict with the first, which asynq is about to end, and is then
	// not known (see Broker.Known). It contains neither spaces nor line breaks.
	ID string
	// Class names the queue.
	Class string
	// Payload is opaque to this package.
	Payload []byte
}

// Report is a handler's result for a message.
type Report struct {
	// ID is the message's; empty for a nudge (see Broker.Nudge).
	ID string
	// Worker is the ID of the sender.
	Worker string
	// Body is opaque to this package.
	Body []byte
}

// IsNudge reports whether the report only asks the coordinator to check storage again.
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
	// Build is the version of its program, and Format the latest message format that it reads; empty and 0
	// from builds that did not report them.
	Build  string `json:"build,omitempty"`
	Format int    `json:"format,omitempty"`
	// Unreadable reports whether its heartbeat, from another build, could not be read.
	Unreadable bool `json:"-"`
	// Kinds are the kinds of task that it can run, from ConsumerConfig.Kinds.
	Kinds []string `json:"kinds"`
	// Keys are the fingerprints of the secret keys that it holds.
	Keys []string `json:"keys,omitempty"`
	// Draining workers take no new tasks.
	Draining bool `json:"draining,omitempty"`
	// Memory is the memory of the process.
	Memory Memory `json:"memory,omitzero"`
	// Work is its finished work so far.
	Work Work `json:"work,omitzero"`
	// StartedUnix is the time when the worker began to serve, by its own clock.
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
	// Tokens were trained on, evaluated or scored; TokensPerSecond is their recent rate.
	Tokens          int64   `json:"tokens"`
	TokensPerSecond float64 `json:"tokens_per_second"`
	// CacheHits and CacheMisses count lookups of inputs in all caches.
	CacheHits   int64 `json:"cache_hits"`
	CacheMisses int64 `json:"cache_misses"`
}

// Memory is the memory of a worker's process, in bytes.
type Memory struct {
	// Used is the resident memory.
	Used int64 `json:"used_bytes"`
	// Limit is its limit; 0 if there is none.
	Limit int64 `json:"limit_bytes,omitempty"`
	// GroupUsed and GroupLimit describe its control group, such as a container, with all of its
	// processes; 0 if no group limits it.
	GroupUsed  int64 `json:"group_used_bytes,omitempty"`
	GroupLimit int64 `json:"group_limit_bytes,omitempty"`
}

// Tightest returns the used memory and the limit, of the process or its group, that are closest.
func (m Memory) Tightest() (used, limit int64) {
	if m.GroupLimit > 0 && (m.Limit == 0 || float64(m.GroupUsed)*float64(m.Limit) > float64(m.Used)*float64(m.GroupLimit)) {
		return m.GroupUsed, m.GroupLimit
	}
	return m.Used, m.Limit
}

// Running is one attempt in progress.
type Running struct {
	ID string `json:"id"`
	// Seconds is the time since it started.
	Seconds float64 `json:"seconds"`
	Progress
}

// Progress is the progress of an attempt: Done of Total units, where Total is
// 0 if unknown, the tokens handled so far, and the newest metrics of a training program.
type Progress struct {
	Done    int64              `json:"done,omitempty"`
	Total   int64              `json:"total,omitempty"`
	Tokens  int64              `json:"tokens,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
}
