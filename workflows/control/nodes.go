package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/goroutines"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/training"
	"coalmine/workflows/plan"
)

// Node is a node of a run's plan and its outputs.
type Node struct {
	Key     storage.Key `json:"key"`
	Kind    string      `json:"kind"`
	Version int         `json:"version"`
	Label   string      `json:"label"`
	// Cells lists the requested cells that need the node.
	Cells []string `json:"cells"`
	// Params and Inputs determine, with kind and version, the outputs of the node. The key of a training's
	// step does not depend on them: it follows from the step's place; see package plan.
	Params json.RawMessage `json:"params"`
	Inputs []NodeInput     `json:"inputs"`
	// Step and Part are the place of the node in a training; both are 0 for a standing node.
	Step int `json:"step,omitempty"`
	Part int `json:"part,omitempty"`
	// Committed nodes have blobs; some have metrics.
	Committed bool            `json:"committed"`
	Blobs     []NodeBlob      `json:"blobs"`
	Metrics   json.RawMessage `json:"metrics,omitempty"`
	// Attempt is the attempt that committed the node, or nil.
	Attempt *NodeAttempt `json:"attempt,omitempty"`

	secret bool // whether it draws from a secret key
}

// NodeAttempt is the attempt that committed a node.
type NodeAttempt struct {
	ID string `json:"id"`
	storage.Provenance
}

// NodeInput is an input of a node, with its name.
type NodeInput struct {
	Name string      `json:"name"`
	Key  storage.Key `json:"key"`
}

// NodeBlob is an output of a node.
type NodeBlob struct {
	Name   string         `json:"name"`
	Bytes  int64          `json:"bytes"`
	SHA256 storage.Digest `json:"sha256"`
	// Stored is false if the blob was deleted since. It is recomputed when a node needs it.
	Stored bool `json:"stored"`
}

// NodeQuery selects nodes of a run.
type NodeQuery struct {
	// Cell is the name of a cell, or "" for all cells.
	Cell string
	// Changes drops nodes without changes since an earlier request, if not nil.
	Changes *NodeChanges
}

// NodeChanges drops nodes without changes since an earlier request: standing nodes, except those with keys
// that begin with one of Keys, and the steps up to After of the cell's training.
type NodeChanges struct {
	Keys  []string
	After int
}

// MaxNodeKeys is the maximum number of keys in a request.
const MaxNodeKeys = 100

func (q *NodeQuery) check() error {
	if q.Changes == nil {
		return nil
	}
	if q.Cell == "" {
		return fmt.Errorf("keys %w without a cell: name a cell", ErrInput)
	}
	if n := len(q.Changes.Keys); n > MaxNodeKeys {
		return fmt.Errorf("a list of %d keys %w: expected at most %d", n, ErrInput, MaxNodeKeys)
	}
	return nil
}

// wants reports whether a standing node is requested.
func (q *NodeQuery) wants(key storage.Key) bool {
	return q.Changes == nil || slices.ContainsFunc(q.Changes.Keys, func(begin string) bool { return strings.HasPrefix(key.String(), begin) })
}

// after returns the step of a cell's training after which steps are requested.
func (q *NodeQuery) after(c *plan.Cell, chain *plan.Chain) int {
	if q.Changes == nil || chain != c.Chain {
		return 0
	}
	return q.Changes.After
}

func (l *Local) Nodes(ctx context.Context, name string, which NodeQuery) ([]Node, error) {
	if err := which.check(); err != nil {
		return nil, err
	}
	run, p, err := l.planOf(ctx, name)
	if err != nil {
		return nil, err
	}
	list, found := nodeList{nodes: []Node{}, index: map[storage.Key]int{}}, false
	for i := range p.Cells {
		if c := &p.Cells[i]; which.Cell == "" || which.Cell == c.Name {
			if err := l.listCell(ctx, &list, p, c, &which); err != nil {
				return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, c.Name, err)
			}
			found = true
		}
	}
	if !found {
		return nil, noCell(run, p, which.Cell)
	}
	return list.nodes, l.lookUp(ctx, list.nodes)
}

// nodeList collects nodes, each once.
type nodeList struct {
	nodes []Node
	index map[storage.Key]int
}

func (x *nodeList) add(cell, label string, s *tasks.Spec) {
	i, there := x.index[s.Key]
	if !there {
		i = len(x.nodes)
		x.index[s.Key] = i
		x.nodes = append(x.nodes, newNode(label, s))
	}
	if cells := &x.nodes[i].Cells; !slices.Contains(*cells, cell) {
		*cells = append(*cells, cell)
	}
}

func newNode(label string, s *tasks.Spec) Node {
	n := Node{secret: s.SecretKey != "", Key: s.Key, Kind: s.Kind, Version: s.Version, Label: label, Params: s.Params, Step: s.Step, Part: s.Part, Inputs: []NodeInput{}, Blobs: []NodeBlob{}}
	for _, in := range s.Inputs {
		n.Inputs = append(n.Inputs, NodeInput{in.Name, in.Key})
	}
	return n
}

// stepLabel and partLabel name tasks of a training.
func stepLabel(chain *plan.Chain, step int) string {
	return fmt.Sprintf("training step %d of %d", step, chain.Steps)
}

func partLabel(chain *plan.Chain, step, part int) string {
	return fmt.Sprintf("training step %d, part %d of %d", step, part+1, chain.Width)
}

// listCell adds the nodes of a cell: the standing nodes in the order of execution, then the recorded steps
// of its training, each with its parts.
func (l *Local) listCell(ctx context.Context, list *nodeList, p *plan.Plan, c *plan.Cell, which *NodeQuery) error {
	nodes, chains := p.Needed(c.Report, c.Model)
	for _, n := range nodes {
		if which.wants(n.Key) {
			list.add(c.Name, n.Label, &n.Spec)
		}
	}
	for _, chain := range chains {
		steps, err := l.recordedSteps(ctx, c, chain, which.after(c, chain))
		if err != nil {
			return err
		}
		for _, step := range steps {
			for part := range chain.Width {
				spec := chain.PartSpec(step, part)
				list.add(c.Name, partLabel(chain, step, part), &spec)
			}
			spec := chain.JoinSpec(step)
			list.add(c.Name, stepLabel(chain, step), &spec)
		}
	}
	return nil
}

// recordedSteps returns the committed steps of a training of a cell after a step that still have records. Pass 0
// for all steps.
func (l *Local) recordedSteps(ctx context.Context, c *plan.Cell, chain *plan.Chain, after int) ([]int, error) {
	steps, err := l.checkpointSteps(ctx, c, chain)
	if err != nil {
		return nil, err
	}
	steps = slices.DeleteFunc(steps, func(step int) bool { return step <= after })
	committed := make([]bool, len(steps))
	err = goroutines.Each(ctx, len(steps), lookupsAtOnce, func(ctx context.Context, i int) (err error) {
		committed[i], err = l.archive.HasCommit(ctx, chain.Key(steps[i]))
		return err
	})
	var recorded []int
	for i, step := range steps {
		if committed[i] {
			recorded = append(recorded, step)
		}
	}
	return recorded, err
}

// lookUp sets the outputs of the nodes.
func (l *Local) lookUp(ctx context.Context, nodes []Node) error {
	return goroutines.Each(ctx, len(nodes), lookupsAtOnce, func(ctx context.Context, i int) error {
		n := &nodes[i]
		found, err := plan.LookUp(ctx, l.archive, n.Key)
		if err != nil || found.Commit == nil {
			return err
		}
		n.Committed, n.Metrics = true, found.Commit.Metrics
		n.Attempt = &NodeAttempt{found.Commit.Attempt, found.Commit.Provenance}
		for _, b := range found.Commit.Blobs {
			n.Blobs = append(n.Blobs, NodeBlob{b.Name, b.Size, b.Digest, !slices.Contains(found.Evicted, b.Name)})
		}
		if n.secret {
			n.withhold()
		}
		return nil
	})
}

// withhold removes values that would reveal a secret cohort, as results do: counts, and the digests of sums without
// noise and of metric rows, because a reader with the data could compute those digests for every cohort.
func (n *Node) withhold() {
	if n.Kind == training.Clients.Name {
		n.Metrics = nil
	}
	n.Blobs = slices.DeleteFunc(n.Blobs, func(b NodeBlob) bool {
		return slices.Contains([]string{training.SumBlob, tasks.RowsBlob, tasks.SegmentBlob}, b.Name)
	})
}

// lookupsAtOnce is the number of concurrent requests to the store.
const lookupsAtOnce = 16
