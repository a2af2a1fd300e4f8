// Package queue carries tasks from the coordinator to the workers, and their
// reports back, over asynq on Redis.
//
// Nothing here is the truth: Redis may be flushed, restarted or replaced at any
// moment, and both sides go on as soon as it answers again. Messages and
// reports are opaque bytes.
//
//	conn, err := queue.Open(ctx, "redis://localhost:6379") // or queue.Embedded(ctx)
//	broker := conn.Broker()                                // the coordinator's side
//	broker.Enqueue(ctx, queue.Message{ID: "k.1", Class: "compute", Payload: p})
//	reports, err := broker.Reports(ctx, time.Second)
//
//	conn.Serve(ctx, queue.ConsumerConfig{...})             // the worker's side
//
// What is built upon asynq, and why:
//
//   - Waking. An idle asynq server polls; here it waits in BLPOP for a wake token
//     instead, which Enqueue pushes (see dequeueHook). A wait ends by itself every
//     two seconds, so that a lost token only costs time.
//   - Batches. asynq takes a round trip for each task that it enqueues, takes or
//     ends. Here the tasks of one call are enqueued in one, a backlog is taken in
//     batches up to the free slots, and a report ends its task, with those of others
//     that end meanwhile.
//   - Liveness. asynq notices a dead server after one to two minutes. Workers here
//     write a heartbeat every second that expires after three, and lists the
//     attempts that they run.
//   - Reports. A handler's result travels on a list of its own, so that the
//     coordinator reacts at once and asynq need not keep finished tasks.
//   - Retries belong to the coordinator: asynq's own are off. What a worker had when
//     Redis was set back to an old snapshot, and has ended since, asynq finds after a
//     minute and puts into its archive, where nobody looks: at most a task for each
//     slot, of which it keeps 10,000 in all, for 90 days. Sent again, a task leaves it.
//
// Each class of tasks has a queue and an asynq server of its own: with two
// queues in one server, a wait on the first would starve the second.
//
// Redis must be 6.2 or newer, and must not evict keys.
package queue

import "encoding/json"

// Message is one attempt on its way to a worker.
type Message struct {
	// ID names the attempt; enqueuing it twice conflicts harmlessly. It holds
	// neither spaces nor line breaks.
	ID string
	// Class names the queue.
	Class string
	// Payload is opaque to this package.
	Payload []byte
}

// Report is what a handler returned for a message.
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
	// it runs at once.
	Classes []string `json:"classes"`
	Slots   int      `json:"slots"`
	// Kinds are the kinds of task that it knows, as the consumer's owner wrote them.
	Kinds []string `json:"kinds"`
	// Keys are the fingerprints of the secret keys that it holds.
	Keys []string `json:"keys,omitempty"`
	// Draining workers take no new tasks.
	Draining bool `json:"draining,omitempty"`
	// Memory is what the process has.
	Memory Memory `json:"memory,omitzero"`
	// StartedUnix is when the worker began to serve, by its own clock.
	StartedUnix int64 `json:"started_unix"`
	// Running are the attempts in progress, ordered by ID.
	Running []Running `json:"running,omitempty"`
}

// Memory is what a worker's process has of it, in bytes.
type Memory struct {
	// Used is what is resident.
	Used int64 `json:"used_bytes"`
	// Limit is what it may have; 0 where nothing limits it.
	Limit int64 `json:"limit_bytes,omitempty"`
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
