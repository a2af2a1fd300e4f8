// Package coordinator decides what is wanted, what is ready, and who tries it
// next. One coordinator leads at a time; it may be killed at any moment, and
// the next one rebuilds everything from storage.
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
// A node is available if it is committed and its blobs can be read. A node that
// isn't is expanded: what it needs is wanted too, for the same runs. A node is
// scheduled once for all runs and cells that want it, and only for as long as
// one does; pausing a run takes its wants away and nothing else.
//
// # Chains
//
// A training is a chain of steps, of which only the current one exists in
// memory: its parts, and the join that follows them. Where a chain stands is
// found without listing: the boundaries of its segments are bisected, then the
// open segment. See package availability for that, package retention for what stays stored.
//
// # Parts
//
// Packages use those above them in this list, never those below:
//
//	policy       every rule with its number and why
//	graph        what live runs want and how far it is; pure, asks are left as data
//	dispatch     which ready task goes next
//	observe      statuses, waits, the time left, metrics, spans of traces; reads only
//	coordinator  the term: events come in, the graph settles, its asks are carried out
//
// A report, say, ends an attempt (reports.go, outcomes.go); the graph is told
// ([graph.Graph.Commit]); [graph.Graph.Settle] finds what is ready now; the term hands
// that to the dispatcher and carries out the other asks (settle.go); what the dispatcher
// launches is sent (attempts.go). liveness.go finds attempts that are never reported,
// records.go keeps the runs' logs, following.go does what they say, ending.go ends runs,
// and deletions.go deletes behind trainings.
//
// # One goroutine
//
// A term is one period of leadership. All its state belongs to one goroutine;
// whatever takes time (storage, queue) runs aside as a job and hands back a
// function that the loop applies. Nothing in a term reads a clock, waits, or
// blocks, so a test can run one step by step, in any order of events, by a seed.
//
// # Trust
//
// Reports of workers are hints, storage is the truth: attempts in flight are
// looked up there every few seconds, an input that turns out to be missing is
// planned again, and a report that nobody expected changes nothing. Leading
// twice for a moment does no harm either, since a node commits once, and who
// deletes asks first whether its epoch is still the newest.
package coordinator
