// Package graph holds what live runs want, and how far it is: runs with their cells,
// standing nodes, chains with their checkpoints and current steps, the tasks that have
// to be run, and the attempts at them. All of it is rebuilt from storage when a
// coordinator begins to lead (invariant 1), and all of it is pure: the graph reads no
// store, sends no message and has no clock.
//
// # Events and asks
//
// Whoever owns a graph (the coordinator's term) tells it what has happened: a run has
// a plan ([Graph.AddPart], [Graph.Begin]), storage holds a node ([Graph.Found]), an attempt has
// committed ([Graph.Commit]). [Graph.Settle] then works out what follows. What the graph
// needs done it leaves as data, [Asks]: nodes to look up, chains to survey, tasks that
// became ready, attempts to recall, steps that have been joined. The owner takes the
// asks and carries them out.
//
// # Wants
//
// A run wants its cells' targets. A node that is wanted and not available has what it
// needs wanted too, for the same runs; a checkpoint that is wanted has its chain make a
// pass to it from the nearest checkpoint below. Who wants what follows from the open
// cells of the active runs and from what is available, and from nothing else: it is
// counted anew whenever one of these changes for the worse.
//
// # Reading the files
//
// types.go says what there is, with nodes.go and dependents.go for how it is held in
// little memory, and taskstate.go how a task moves. attempt.go begins and
// ends attempts, notify.go follows what becomes available or is lost, want.go counts
// wants, pass.go and step.go advance chains, and adopt.go takes plans up and lets go of
// them. Each uses those before it only; settle.go and commit.go stand on top.
package graph

import (
	"log/slog"

	"coalmine/storage"
	"coalmine/tasks"
)

// New returns a graph without runs. It logs bugs: moves of tasks that cannot be.
func New(log *slog.Logger) *Graph {
	return &Graph{
		log:       log,
		nodes:     newNodeTable(),
		chains:    make(map[storage.Key]*Chain),
		attempts:  make(map[string]*Attempt),
		at:        make(map[*Task][]*Attempt),
		inFlight:  make(map[tasks.Class]int),
		durations: make(map[string]*Samples),
	}
}
