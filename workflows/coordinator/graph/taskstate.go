package graph

import (
	"fmt"
	"slices"

	"coalmine/internal/build"
)

// The states of a task, and the events that change them. Each line is a row of the
// table below; a test compares the two.
//
//	idle                                    --ready-->     ready
//	ready                                   --park-->      parked
//	parked                                  --unpark-->    idle
//	ready, in flight                        --send-->      in flight
//	in flight                               --land-->      idle
//	idle                                    --pause-->     pausing
//	pausing                                 --resume-->    idle
//	ready, pausing                          --give up-->   idle
//	idle, parked, ready, pausing, in flight --finish-->    finished
//	finished                                --lose-->      idle
//
// A task without trouble goes from idle to ready, in flight, finished. It lands when
// its last attempt is over without an output; then it is made ready again at once, or
// pauses first. A straggler is sent a second time. A dropped task is finished; later
// commits of its attempts are deleted again.

// State is the state of a task.
type State uint8

// The states of a task.
const (
	Idle     State = iota // not wanted, or not yet possible
	Parked                // no live worker supports its kind or holds its key
	Ready                 // could run now
	Pausing               // will be tried again after a pause
	InFlight              // has attempts in the queue or at workers
	Finished              // its output is available or no longer needed
)

func (s State) String() string {
	return [...]string{"idle", "parked", "ready", "pausing", "in flight", "finished"}[s]
}

// event is an event that changes a task's state.
type event string

const (
	becomeReady event = "ready"   // it is wanted, and all that it reads is there
	park        event = "park"    // its turn has come, and no live worker can run it
	unpark      event = "unpark"  // the live workers have changed
	send        event = "send"    // an attempt begins
	land        event = "land"    // its last attempt is over without an output
	pause       event = "pause"   // it is tried again, but not at once
	resume      event = "resume"  // the pause is over
	giveUp      event = "give up" // it has failed for all that wanted it
	finish      event = "finish"  // its output is there, or it is dropped
	lose        event = "lose"    // its output turned out to be gone
)

// moves are all moves that there are.
var moves = []struct {
	from  []State
	event event
	to    State
}{
	{[]State{Idle}, becomeReady, Ready},
	{[]State{Ready}, park, Parked},
	{[]State{Parked}, unpark, Idle},
	{[]State{Ready, InFlight}, send, InFlight},
	{[]State{InFlight}, land, Idle},
	{[]State{Idle}, pause, Pausing},
	{[]State{Pausing}, resume, Idle},
	{[]State{Ready, Pausing}, giveUp, Idle},
	{[]State{Idle, Parked, Ready, Pausing, InFlight}, finish, Finished},
	{[]State{Finished}, lose, Idle},
}

// next is the state that an event leads to, false if it cannot happen in this one.
func (s State) next(e event) (State, bool) {
	for _, m := range moves {
		if m.event == e && slices.Contains(m.from, s) {
			return m.to, true
		}
	}
	return s, false
}

// move is the only function that changes the state of a task. An event that cannot
// happen is a bug: it changes nothing, and ends a build with invariants.
func (g *Graph) move(x *Task, e event) {
	to, ok := x.state.next(e)
	if !ok {
		if build.Invariants {
			panic(fmt.Sprintf("task %q is %s: it cannot %s", x.Label(), x.state, e))
		}
		g.log.Error("a task cannot make this move; it stays as it is",
			"node", x.Key.Short(), "label", x.Label(), "state", x.state.String(), "event", string(e))
		return
	}
	x.state = to
	g.asks.Changed = true
}

// Park sets a ready task aside that no live worker can run.
func (g *Graph) Park(x *Task) { g.move(x, park) }

// Pause keeps an idle task from being tried again until Resume.
func (g *Graph) Pause(x *Task) { g.move(x, pause) }
