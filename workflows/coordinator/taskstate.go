package coordinator

import (
	"fmt"
	"slices"

	"coalmine/internal/invariants"
)

// The states of a task, and what moves it from one to the next. Each line is a row of
// the table below; a test compares the two.
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
// The way of a task that meets no trouble is idle, ready, in flight, finished. It lands
// when its last attempt is over and its output is not there; then it is made ready
// again at once, or pauses first. A straggler is sent a second time. A task that was
// dropped is finished; what its attempts still commit is deleted again.

// taskState is where a task stands.
type taskState int

const (
	idle     taskState = iota // not wanted, or not yet possible
	parked                    // no live worker knows its kind, or holds its key
	ready                     // could run now
	pausing                   // will be tried again after a pause
	inFlight                  // has attempts in the queue or at workers
	finished                  // its output is there, or nobody needs it any more
)

func (s taskState) String() string {
	return [...]string{"idle", "parked", "ready", "pausing", "in flight", "finished"}[s]
}

// taskEvent is what moves a task.
type taskEvent string

const (
	becomeReady taskEvent = "ready"   // it is wanted, and all that it reads is there
	park        taskEvent = "park"    // its turn has come, and no live worker can run it
	unpark      taskEvent = "unpark"  // the live workers have changed
	send        taskEvent = "send"    // an attempt begins
	land        taskEvent = "land"    // its last attempt is over without an output
	pause       taskEvent = "pause"   // it is tried again, but not at once
	resume      taskEvent = "resume"  // the pause is over
	giveUp      taskEvent = "give up" // it has failed for all that wanted it
	finish      taskEvent = "finish"  // its output is there, or it is dropped
	lose        taskEvent = "lose"    // its output turned out to be gone
)

// taskMoves are all moves that there are.
var taskMoves = []struct {
	from  []taskState
	event taskEvent
	to    taskState
}{
	{[]taskState{idle}, becomeReady, ready},
	{[]taskState{ready}, park, parked},
	{[]taskState{parked}, unpark, idle},
	{[]taskState{ready, inFlight}, send, inFlight},
	{[]taskState{inFlight}, land, idle},
	{[]taskState{idle}, pause, pausing},
	{[]taskState{pausing}, resume, idle},
	{[]taskState{ready, pausing}, giveUp, idle},
	{[]taskState{idle, parked, ready, pausing, inFlight}, finish, finished},
	{[]taskState{finished}, lose, idle},
}

// next is the state that an event leads to, false if it cannot happen in this one.
func (s taskState) next(e taskEvent) (taskState, bool) {
	for _, m := range taskMoves {
		if m.event == e && slices.Contains(m.from, s) {
			return m.to, true
		}
	}
	return s, false
}

// move is the only function that changes the state of a task. An event that cannot
// happen is a bug: it changes nothing, and ends a build with invariants.
func (t *term) move(x *task, e taskEvent) {
	to, ok := x.state.next(e)
	if !ok {
		if invariants.Enabled {
			panic(fmt.Sprintf("task %q is %s: it cannot %s", x.label, x.state, e))
		}
		t.logOf(x).Error("a task cannot make this move; it stays as it is", "state", x.state.String(), "event", string(e))
		return
	}
	x.state = to
}

// finishTask ends a task that may have ended.
func (t *term) finishTask(x *task) {
	if x.state != finished {
		t.move(x, finish)
	}
}
