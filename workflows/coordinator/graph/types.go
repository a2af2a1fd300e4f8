package graph

import (
	"cmp"
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"

	"coalmine/internal/queue"
	"coalmine/internal/tracing"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Graph holds all wants of live runs. It belongs to one goroutine. Exported fields,
// here and below, are for reading; the comment of a field names any other writer.
type Graph struct {
	log *slog.Logger

	runs     []*Run // by id
	nodes    nodeTable
	chains   map[storage.Key]*Chain // by recipe
	attempts map[string]*Attempt    // in flight, by id
	at       map[*Task][]*Attempt   // in flight, by task
	inFlight map[tasks.Class]int    // number in flight

	durations map[string]*Samples // of standing nodes, by kind

	dirty     bool     // the wants must be recounted
	withdrawn bool     // some attempts may have lost their last want
	scheduled []*Chain // chains that may be able to advance
	readySeq  int
	requests  Requests
}

// Requests are the requests and events of a graph since the last TakeRequests.
type Requests struct {
	// LookUp lists wanted standing nodes in an unknown state.
	LookUp []*Node
	// Survey lists wanted chains at an unknown position.
	Survey []*Chain
	// Recounted reports that wants were recounted: earlier offers are void.
	Recounted bool
	// Offer lists, in order, tasks that became ready and ready tasks that other runs now want.
	Offer []*Task
	// Recall lists attempts that are no longer needed.
	Recall []*Attempt
	// Joined lists committed steps, Left the positions of abandoned passes, and
	// Dropped abandoned steps, all in order.
	Joined  []Joined
	Left    []Left
	Dropped []*Step
	// Read lists standing nodes that read checkpoints and are now available or no longer wanted: the
	// checkpoints may have become superfluous.
	Read []*Node
	// Ending lists runs in which all cells may have ended.
	Ending []*Run
	// Changed reports whether anything visible changed.
	Changed bool
}

// Joined is a step that has just been committed.
type Joined struct {
	Step *Step
	// Ended reports whether the pass has reached its last checkpoint.
	Ended bool
}

// Left is the last position of a pass that was abandoned before its end.
type Left struct {
	Chain *Chain
	// Step is the position of the pass, -1 if there was none.
	Step int
	// Begun reports whether the tasks of the next step existed.
	Begun bool
}

// Run is a run in the graph. Its cells and nodes exist only while it is live: from the making of its plan
// until its end.
type Run struct {
	ID string
	// State is the fold of its log, including entries not stored yet. SetState sets it.
	State runs.State
	// Plan is nil before its first part has been added. Its nodes belong to the graph.
	Plan  *plan.Plan
	Nodes []*Node // the standing nodes of the plan
	Cells []*Cell
	// InFlight is the number of attempts in flight that are charged to the run.
	InFlight int
	// Progressed is the time of the last commit that the run wanted.
	Progressed time.Time

	live bool
	// held holds the nodes of the run while parts are added.
	held   map[*Node]struct{}
	ending bool   // in the requests, because all cells may have ended
	alone  []*Run // only the run itself: the Wants of most of its nodes
}

// Live reports whether the graph holds the nodes of the run's plan.
func (r *Run) Live() bool { return r.live }

// Active reports whether the run wants anything.
func (r *Run) Active() bool {
	return r.Live() && (r.State.Phase == runs.Queued || r.State.Phase == runs.Running)
}

// Cell is one point of a live run's grid.
type Cell struct {
	Run     *Run
	Plan    *plan.Cell
	Targets []Dependency
	// Failed cells want nothing.
	Failed bool
}

func (c *Cell) Done() bool { return allAvailable(c.Targets) }

// Dependency is a needed output: of a standing node, or a checkpoint of a chain.
type Dependency struct {
	Node       *Node
	Checkpoint *Checkpoint
}

// Available reports whether the output is available.
func (d Dependency) Available() bool {
	if d.Node != nil {
		return d.Node.Presence == Available
	}
	return d.Checkpoint.Available
}

// Key returns the key of the node that has the output.
func (d Dependency) Key() storage.Key {
	if d.Node != nil {
		return d.Node.Key
	}
	return d.Checkpoint.Chain.Shape.Key(d.Checkpoint.Step)
}

func (d Dependency) dependents() *dependents {
	if d.Node != nil {
		return &d.Node.dependents
	}
	return &d.Checkpoint.dependents
}

func allAvailable(all []Dependency) bool {
	return !slices.ContainsFunc(all, func(d Dependency) bool { return !d.Available() })
}

// Presence is the known state of a standing node's outputs.
type Presence uint8

// The known states of outputs.
const (
	Unknown  Presence = iota // not looked up yet
	Checking                 // being looked up
	Absent                   // the node must be run if it is wanted
	Available
)

// Node is a standing node, shared by all live runs that have it in their plans.
type Node struct {
	Task
	dependents
	// Needs are its inputs, in the order of their names in traits.
	Needs    []Dependency
	Presence Presence

	plans  int32 // number of live runs that hold the node
	params json.RawMessage
}

// Held reports whether some live run holds the node.
func (n *Node) Held() bool { return n.plans > 0 }

// Chain is a training with wanted checkpoints. It is always at one step with an
// available checkpoint, and works on the next; if older checkpoints are wanted
// as well, it makes several passes, one after the other.
type Chain struct {
	Recipe storage.Key
	Shape  *plan.Chain // of any live run; length and retention differ by run, class and terms are those of the newest
	Runs   []*Run      // runs that have the chain in their plans
	// Checkpoints are the steps that nodes and cells need, ascending.
	Checkpoints []*Checkpoint
	// Surveyed reports whether the chain's position is known: Frontier is the highest committed step, and
	// Have lists the steps with available checkpoints, ascending.
	Surveyed bool
	Frontier int
	Have     []int
	// At is the step that Current builds upon, or -1 if no pass is chosen.
	At      int
	Current *Step // nil between steps
	// Durations are the durations of its tasks, by kind.
	Durations map[string]*Samples
	// Span is the span of the newest round. The owner of the graph sets it.
	Span tracing.Span

	inputs    []Dependency // the inputs of the tasks of every step
	origin    Dependency
	linked    bool
	surveying bool
	scheduled bool
}

// checkpoint returns the needed checkpoint of a step, or nil.
func (ch *Chain) checkpoint(step int) *Checkpoint {
	if i, ok := ch.search(step); ok {
		return ch.Checkpoints[i]
	}
	return nil
}

func (ch *Chain) search(step int) (i int, found bool) {
	return slices.BinarySearchFunc(ch.Checkpoints, step, func(cp *Checkpoint, s int) int { return cp.Step - s })
}

// Checkpoint is a needed step of a chain.
type Checkpoint struct {
	Chain     *Chain
	Step      int
	Available bool
	wants     []*Run
	rank      int32
	dependents
}

// Step is the current step of a chain; only this step has tasks: its parts, and the join that runs when all
// parts are committed.
type Step struct {
	Chain  *Chain
	Number int
	Began  time.Time
	Parts  []*Task
	Join   *Task
	// Objects are the known objects of the parts, for deletion.
	Objects map[storage.Key][]storage.Blob
	// Span begins with the first attempt. The owner of the graph sets it.
	Span tracing.Span

	unfinished int // number of uncommitted parts
}

// Tasks are the parts and the join.
func (s *Step) Tasks() []*Task { return append(s.Parts[:len(s.Parts):len(s.Parts)], s.Join) }

// Task is a node to run: a standing node, or a part or the join of a step. There may be a million tasks, so
// it holds only the fields that most tasks need.
type Task struct {
	Key storage.Key
	// Node or Step is the owner of the task; the other is nil.
	Node *Node
	Step *Step
	// Wants are the runs that need the task; Rank and Seq order it among the work of a run.
	Wants []*Run
	Seq   int
	Rank  int32
	// Urgent tasks are sent before the backlog: they lost their worker, or were handed back.
	Urgent  bool
	offered bool  // in the requests
	state   State // see taskstate.go

	// Number is the number of the last attempt.
	Number int

	traits  unique.Handle[traits]
	trouble *Trouble // nil if nothing has gone wrong
}

// traits holds the fields common to many tasks. A large grid holds them once.
type traits struct {
	label     string
	kind      string
	version   int
	secretKey string
	class     tasks.Class
	terms     string // JSON
	inputs    string // names of a standing node's inputs, each followed by endOfName
}

const endOfName = "\n"

func newTraits(label string, s *tasks.Spec) unique.Handle[traits] {
	var names strings.Builder
	for _, in := range s.Inputs {
		names.WriteString(in.Name + endOfName)
	}
	return unique.Make(traits{label, s.Kind, s.Version, s.SecretKey, s.Class, string(s.Terms), names.String()})
}

// Label returns a text for display, such as "random sampling 3 of 9 at round 400".
func (x *Task) Label() string { return x.traits.Value().label }

// Kind returns the name of the task's kind.
func (x *Task) Kind() string { return x.traits.Value().kind }

// Version returns the version of the task's kind.
func (x *Task) Version() int { return x.traits.Value().version }

// SecretKey returns the fingerprint of the secret key that a worker must hold to run the task, or "".
func (x *Task) SecretKey() string { return x.traits.Value().secretKey }

// Class returns the queue that the task asks for, or "" for the queue of its kind.
func (x *Task) Class() tasks.Class { return x.traits.Value().class }

// Spec returns the task for a worker. Each call assembles it, because a graph may hold a million tasks and
// runs few at a time.
func (x *Task) Spec() tasks.Spec {
	if x.Node != nil {
		return x.Node.spec()
	}
	return x.Step.spec(x)
}

func (n *Node) spec() tasks.Spec {
	f := n.traits.Value()
	s := tasks.Spec{Key: n.Key, Kind: f.kind, Version: f.version, Params: n.params, SecretKey: f.secretKey, Class: f.class}
	if f.terms != "" {
		s.Terms = json.RawMessage(f.terms)
	}
	for name := range strings.SplitSeq(f.inputs, endOfName) {
		if i := len(s.Inputs); i < len(n.Needs) {
			s.Inputs = append(s.Inputs, tasks.Input{Name: name, Key: n.Needs[i].Key()})
		}
	}
	return s
}

func (s *Step) spec(x *Task) tasks.Spec {
	if x == s.Join {
		return s.Chain.Shape.JoinSpec(s.Number)
	}
	return s.Chain.Shape.PartSpec(s.Number, slices.Index(s.Parts, x))
}

func (x *Task) State() State { return x.state }

func (x *Task) Trouble() Trouble {
	if x.trouble == nil {
		return Trouble{}
	}
	return *x.trouble
}

// AddTrouble returns the task's trouble, for the owner of the graph to change.
func (x *Task) AddTrouble() *Trouble {
	if x.trouble == nil {
		x.trouble = &Trouble{}
	}
	return x.trouble
}

// Chain returns the chain of the task's step, or nil for a standing node.
func (x *Task) Chain() *Chain {
	if x.Step == nil {
		return nil
	}
	return x.Step.Chain
}

func (x *Task) WantedBy(r *Run) bool { return slices.Contains(x.Wants, r) }

// RunIDs returns the ids of the runs that want the task.
func (x *Task) RunIDs() []string {
	var ids []string
	for _, r := range x.Wants {
		ids = append(ids, r.ID)
	}
	return ids
}

// Trouble records the failures of a task since its output was last available.
type Trouble struct {
	Tries    int // attempts that ended in retryable errors since the last progress
	Returned int // attempts that were handed back untried
	// HandedBack is the reason if the last attempt was handed back, else "".
	HandedBack string
	Deaths     []runs.Death // of workers that ran it
	Error      string       // of the last attempt that failed
	Exit       string       // Outcome.Exit of that attempt
	Store      StoreTrouble // whether the store failed the last attempt
	Until      time.Time    // end of its pause
}

// StoreAnswered notes that the store did not fail the last attempt.
func (x *Task) StoreAnswered() {
	if x.trouble != nil {
		x.trouble.Store = StoreFine
	}
}

// StoreTrouble tells how the store failed an attempt.
type StoreTrouble int

const (
	StoreFine StoreTrouble = iota
	StoreAway
	StoreFull
)

// Attempt is an attempt in flight: sent and not reported. The owner of the graph updates it.
type Attempt struct {
	Task   *Task
	Number int
	ID     string
	Class  tasks.Class
	Run    *Run // the run that it is charged to
	Sent   time.Time
	// Stopping reports whether the attempt is no longer needed.
	Stopping bool

	Acked bool // the queue has accepted it
	// Worker is the worker that runs the attempt, from heartbeats. Memory is the worker's memory in the
	// last heartbeat, Running the duration so far in seconds.
	Worker   string
	Memory   queue.Memory
	Running  float64
	Progress queue.Progress
	Checked  time.Time // when its outcome was last looked up
	Checking bool      // its outcome is being looked up
	Misses   int       // consecutive times that the queue did not have it
	Span     tracing.Span
}

// Runs returns the runs in the graph, in the order of their ids.
func (g *Graph) Runs() []*Run { return g.runs }

// Node returns a standing node, or nil if no live run holds it.
func (g *Graph) Node(key storage.Key) *Node { return g.nodes.get(key) }

// Nodes returns the standing nodes of live runs, in the order of their keys.
func (g *Graph) Nodes() []*Node {
	return slices.SortedFunc(g.nodes.all, func(a, b *Node) int { return a.Key.Compare(b.Key) })
}

// Chain returns a chain by its recipe, or nil if no live run holds it.
func (g *Graph) Chain(recipe storage.Key) *Chain { return g.chains[recipe] }

// Chains returns the chains of live runs, in the order of their recipes.
func (g *Graph) Chains() []*Chain {
	var chains []*Chain
	for _, recipe := range plan.SortedKeys(g.chains) {
		chains = append(chains, g.chains[recipe])
	}
	return chains
}

// Attempt returns the attempt in flight with an id, or nil.
func (g *Graph) Attempt(id string) *Attempt { return g.attempts[id] }

// Attempts yields the attempts in flight, in no order.
func (g *Graph) Attempts() iter.Seq[*Attempt] { return maps.Values(g.attempts) }

// AttemptsInOrder returns the attempts in flight, ordered by id.
func (g *Graph) AttemptsInOrder() []*Attempt {
	return slices.SortedFunc(maps.Values(g.attempts), func(a, b *Attempt) int { return cmp.Compare(a.ID, b.ID) })
}

// AttemptsAt returns the attempts in flight at a task, the oldest first.
func (g *Graph) AttemptsAt(x *Task) []*Attempt { return g.at[x] }

func (g *Graph) AnyInFlight() bool { return len(g.attempts) > 0 }

// InFlight returns the number of attempts of a class in flight.
func (g *Graph) InFlight(class tasks.Class) int { return g.inFlight[class] }

// Tasks yields all tasks, in no order: those of standing nodes and of each chain's current step.
func (g *Graph) Tasks() iter.Seq[*Task] { return g.tasks(g.nodes.all, maps.Keys(g.chains)) }

// TasksOf yields the tasks of a live run's plan that exist, in no order, whether the
// run wants them at the moment or not.
func (g *Graph) TasksOf(r *Run) iter.Seq[*Task] {
	return g.tasks(slices.Values(r.Nodes), maps.Keys(r.Plan.Chains))
}

func (g *Graph) tasks(nodes iter.Seq[*Node], recipes iter.Seq[storage.Key]) iter.Seq[*Task] {
	return func(yield func(*Task) bool) {
		for n := range nodes {
			if !yield(&n.Task) {
				return
			}
		}
		for recipe := range recipes {
			s := g.chains[recipe].Current
			if s != nil && slices.ContainsFunc(s.Tasks(), func(x *Task) bool { return !yield(x) }) {
				return
			}
		}
	}
}

// Settled reports whether Settle has nothing to do.
func (g *Graph) Settled() bool { return !g.dirty && len(g.scheduled) == 0 }

// TakeRequests returns the requests since its last call.
func (g *Graph) TakeRequests() Requests {
	requests := g.requests
	g.requests = Requests{}
	for _, x := range requests.Offer {
		x.offered = false
	}
	for _, r := range requests.Ending {
		r.ending = false
	}
	return requests
}
