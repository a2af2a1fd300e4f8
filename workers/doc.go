// Package workers executes tasks: it takes attempts from the queue, reads their inputs from the
// archive, runs their kinds, commits their outputs, and reports the outcome.
//
//	w := &workers.Worker{Archive: archive, Queue: conn, Registry: registry}
//	err := w.Run(ctx) // until ctx is done
//
// One attempt goes through these steps:
//
//	same store? a coordinator with another store ends the worker (attempts.ErrOtherStore)
//	known?      a kind, version or secret key that the worker lacks is returned untried
//	committed?  if the node is done and its blobs are there, nothing is left to do
//	run         the kind reads through a Source, writes through a Sink
//	commit      blobs first, then one record, created only if there is none
//	report      a hint to the coordinator; storage holds the truth
//
// An attempt that finds the node committed by another compares digests: tasks are
// pure, so a difference is a fault to report. A node with evicted blobs takes the
// same path, which restores the blobs.
//
// The same Worker runs as a process of a cluster and inside the process of
// "coalmine run", with queue.Embedded.
package workers
