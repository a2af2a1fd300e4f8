// Package graph holds the wants of live runs and their progress: runs with their
// cells, standing nodes, chains with their checkpoints and current steps, the tasks to
// run, and the attempts at them. It is rebuilt from storage when a coordinator begins
// to lead (invariant 1). It is pure: the graph reads no store, sends no message and
// has no clock.
//
// # Events and asks
//
// The owner of a graph (the coordinator's term) reports events: a run has a plan
// ([Graph.AddPart], [Graph.Begin]), storage holds a node ([Graph.Found]), an attempt has
// committed ([Graph.Commit]). [Graph.Settle] then works out the consequences. The graph leaves
// its requests as data, [Asks]: nodes to look up, chains to survey, tasks that became ready,
// attempts to recall, steps that have been joined. The owner carries out the asks.
//
// # Wants
//
// A run wants its cells' targets. A node that is wanted and not available has its needs
// wanted too, for the same runs; a wanted checkpoint makes its chain make a pass to it
// from the nearest checkpoint below. The wants follow only from the open cells of the
// active runs and from the available outputs. They are recounted when these change.
//
// # Reading the files
//
// types.go defines the types, nodes.go and dependents.go store them in little memory,
// and taskstate.go has the states of a task. attempt.go begins and ends attempts,
// notify.go propagates gained and lost outputs, want.go counts wants, pass.go and
// step.go advance chains, and adopt.go adds and releases plans. Each file uses only the
// files before it; settle.go and commit.go use all of them.
package graph

import (
	"log/slog"

	"coalmine/storage"
	"coalmine/tasks"
)

// New returns a graph without runs. It logs impossible moves of tasks, which are bugs.
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
