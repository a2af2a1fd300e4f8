package graph

import (
	"fmt"
	"slices"
	"time"

	"coalmine/internal/build"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/attempts"
	"coalmine/workflows/coordinator/policy"
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
// A task without trouble goes from idle to ready, in flight, finished. It lands when its last attempt is
// over without an output; then it becomes ready again at once, or pauses first. A straggler is sent a
// second time. A dropped task is finished; later commits of its attempts are deleted.

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
	becomeReady event = "ready"   // it is wanted, and its inputs are available
	park        event = "park"    // its turn has come, but no live worker can run it
	unpark      event = "unpark"  // the live workers have changed
	send        event = "send"    // an attempt begins
	land        event = "land"    // its last attempt is over without an output
	pause       event = "pause"   // it is tried again, but not at once
	resume      event = "resume"  // the pause is over
	giveUp      event = "give up" // it has failed for all runs that want it
	finish      event = "finish"  // its output is available, or it is dropped
	lose        event = "lose"    // its output is missing
)

// moves lists all transitions.
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

// next returns the state after an event, or false if the event cannot happen in this state.
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
		g.log.Error("impossible transition of a task; its state is unchanged",
			"node", x.Key.Short(), "label", x.Label(), "state", x.state.String(), "event", string(e))
		return
	}
	x.state = to
	g.requests.Changed = true
}

// Park sets a ready task aside because no live worker can run it.
func (g *Graph) Park(x *Task) { g.move(x, park) }

// Pause keeps an idle task from being tried again until Resume.
func (g *Graph) Pause(x *Task) { g.move(x, pause) }

// AttemptID returns the name of an attempt in the queue.
func AttemptID(key storage.Key, number int) string {
	a := attempts.Attempt{Spec: tasks.Spec{Key: key}, Number: number}
	return a.ID()
}

// Launch begins an attempt at a task, charged to a run. Its number is at least the
// given one, and higher than that of the task's last attempt.
func (g *Graph) Launch(x *Task, r *Run, class tasks.Class, number int, now time.Time) *Attempt {
	x.Number = max(x.Number+1, number)
	a := &Attempt{Task: x, Number: x.Number, ID: AttemptID(x.Key, x.Number), Class: class, Run: r, Sent: now, Checked: now}
	g.move(x, send)
	x.Urgent = false
	g.at[x] = append(g.at[x], a)
	g.attempts[a.ID] = a
	g.inFlight[class]++
	r.InFlight++
	return a
}

// RemoveAttempt removes an attempt that was reported or is lost.
func (g *Graph) RemoveAttempt(a *Attempt) {
	delete(g.attempts, a.ID)
	g.inFlight[a.Class]--
	a.Run.InFlight--
	x := a.Task
	g.at[x] = slices.DeleteFunc(g.at[x], func(b *Attempt) bool { return b == a })
	if len(g.at[x]) == 0 {
		delete(g.at, x)
		if x.state == InFlight {
			g.move(x, land)
		}
	}
	g.requests.Changed = true
}

// end finishes a task, unless it has finished, and recalls its attempts.
func (g *Graph) end(x *Task) {
	if x.state != Finished {
		g.move(x, finish)
	}
	for _, a := range g.at[x] {
		g.recall(a)
	}
}

func (g *Graph) recall(a *Attempt) {
	if !a.Stopping {
		a.Stopping = true
		g.requests.Recall = append(g.requests.Recall, a)
	}
}

// recallUnwanted recalls the attempts at tasks that have no wants left.
func (g *Graph) recallUnwanted() {
	for _, a := range g.AttemptsInOrder() {
		if len(a.Task.Wants) == 0 && a.Task.state != Finished {
			g.recall(a)
		}
	}
}

// Samples are the last durations of one kind of task, in seconds. The zero value is empty.
type Samples struct {
	last [32]float64
	n    int
	// middle is the median unless stale.
	middle float64
	stale  bool
}

// Add adds a duration.
func (s *Samples) Add(seconds float64) {
	s.last[s.n%len(s.last)] = seconds
	s.n++
	s.stale = true
}

// Median returns the median of the last durations in seconds, and their number.
func (s *Samples) Median() (seconds float64, n int) {
	n = min(s.n, len(s.last))
	if s.stale {
		sorted := s.last
		slices.Sort(sorted[:n])
		s.middle, s.stale = sorted[n/2], false
	}
	return s.middle, n
}

// Mean returns the mean of the last durations in seconds, or false if there are none.
func (s *Samples) Mean() (seconds float64, ok bool) {
	n := min(s.n, len(s.last))
	for _, d := range s.last[:n] {
		seconds += d / float64(n)
	}
	return seconds, n > 0
}

// Durations returns the durations of a task's siblings: the tasks of the same
// kind in its chain, or all standing nodes of its kind.
func (g *Graph) Durations(x *Task) *Samples {
	durations := g.durations
	if ch := x.Chain(); ch != nil {
		durations = ch.Durations
	}
	if durations[x.Kind()] == nil {
		durations[x.Kind()] = &Samples{}
	}
	return durations[x.Kind()]
}

// Straggles reports whether an attempt takes far longer than its siblings did, and returns their median in
// seconds. Nodes that run commands of experiments have no siblings: the duration of one does not predict
// another, and a second attempt would run the command twice at once.
func (g *Graph) Straggles(a *Attempt) (median float64, straggles bool) {
	if a.Task.Chain() == nil && a.Task.traits.Value().terms != "" {
		return 0, false
	}
	median, siblings := g.Durations(a.Task).Median()
	return median, a.Worker != "" && policy.Straggles(a.Running, median, siblings)
}
