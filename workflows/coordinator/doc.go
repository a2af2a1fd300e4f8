// Package coordinator decides which outputs are wanted, which tasks are ready,
// and which attempts are sent next. One coordinator leads at a time; it may be
// killed at any moment, and the next one rebuilds everything from storage.
//
// # From wants to tasks
//
// A run wants its cells' targets: each cell's report and final checkpoint. From
// a target the coordinator walks back to the nearest outputs that storage has,
// and replays forward from there:
//
//	report --> audit at 400 --> checkpoint 400 --> ... --> checkpoint 300 (kept)
//	                       \-> references (cached)
//
// A node is available if it is committed and its blobs can be read. An
// unavailable node is expanded: its inputs are wanted too, for the same runs. A
// node is scheduled once for all runs and cells that want it, and only while at
// least one wants it; pausing a run only removes its wants.
//
// # Chains
//
// A training is a chain of steps, of which only the current one exists in memory: its
// parts, and the join that follows them. The position of a chain is found without listing:
// the boundaries of its segments are bisected, then the open segment. See package
// availability for that, package retention for the outputs that stay stored.
//
// # Parts
//
// Packages use those above them in this list, never those below:
//
//	policy       every rule with its value and reason
//	graph        the wants of live runs and their progress; pure, asks are data
//	dispatch     which ready task goes next
//	observe      statuses, waits, the time left, metrics, spans of traces; reads only
//	coordinator  the term: events come in, the graph settles, its asks are carried out
//
// For example, a report ends an attempt (reports.go, outcomes.go) and is applied to the
// graph ([graph.Graph.Commit]); [graph.Graph.Settle] finds the tasks that are ready now;
// the term passes them to the dispatcher and carries out the other asks (settle.go);
// launched attempts are sent (attempts.go). liveness.go finds attempts that are never
// reported, records.go keeps the runs' logs, following.go carries them out, ending.go
// ends runs, and deletions.go deletes behind trainings.
//
// # One goroutine
//
// A term is one period of leadership. All its state belongs to one goroutine;
// slow work (storage, queue) runs in the background as a job and returns a
// function that the loop applies. Nothing in a term reads a clock, waits, or
// blocks, so a test can run it step by step, in any order of events, by a seed.
//
// # Source of truth
//
// Reports of workers are hints, storage is authoritative: attempts in flight
// are looked up there every few seconds, an input that turns out to be missing
// is planned again, and an unexpected report changes nothing. Two leaders at
// once do no harm either, because a node commits once, and a process checks
// that its epoch is the newest before it deletes.
package coordinator
