package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/availability"
	"coalmine/workflows/compile"
	"coalmine/workflows/plan"
)

// Node is a node of a run's plan and what it has made.
type Node struct {
	Key     storage.Key `json:"key"`
	Kind    string      `json:"kind"`
	Version int         `json:"version"`
	Label   string      `json:"label"`
	// Cells are those that need the node, of the cells asked for.
	Cells []string `json:"cells"`
	// Params and Inputs decide, with kind and version, what the node makes. Those
	// of a step of a training do not decide its key, which is the place in the
	// training; see package plan.
	Params json.RawMessage `json:"params"`
	Inputs []NodeInput     `json:"inputs"`
	// Step and Part place the node in a training; 0 and 0 for all others.
	Step int `json:"step,omitempty"`
	Part int `json:"part,omitempty"`
	// Committed nodes have blobs and, some of them, metrics.
	Committed bool            `json:"committed"`
	Blobs     []NodeBlob      `json:"blobs"`
	Metrics   json.RawMessage `json:"metrics,omitempty"`
	// Attempt is the one that committed: what it was, where and when it ran; nil of nodes
	// that are not committed.
	Attempt *NodeAttempt `json:"attempt,omitempty"`
}

// NodeAttempt is the attempt that committed a node.
type NodeAttempt struct {
	ID string `json:"id"`
	storage.Provenance
}

// NodeInput is a node that another reads, under the name that it has there.
type NodeInput struct {
	Name string      `json:"name"`
	Key  storage.Key `json:"key"`
}

// NodeBlob is an output of a node.
type NodeBlob struct {
	Name   string         `json:"name"`
	Bytes  int64          `json:"bytes"`
	SHA256 storage.Digest `json:"sha256"`
	// Stored is false where it was deleted since: a node that needs it makes it again.
	Stored bool `json:"stored"`
}

// Nodes implements API.
func (l *Local) Nodes(ctx context.Context, name, cell string) ([]Node, error) {
	run, err := l.find(ctx, name)
	if err != nil {
		return nil, err
	}
	p, err := compile.Run(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	list := nodeList{of: map[storage.Key]int{}}
	for i := range p.Cells {
		if c := &p.Cells[i]; cell == "" || cell == c.Name {
			if err := l.listCell(ctx, &list, p, c); err != nil {
				return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, c.Name, err)
			}
		}
	}
	if len(list.nodes) == 0 {
		return nil, noCell(run, p, cell)
	}
	return list.nodes, l.lookUp(ctx, list.nodes)
}

// nodeList collects nodes, each once.
type nodeList struct {
	nodes []Node
	of    map[storage.Key]int
}

func (x *nodeList) add(cell, label string, s *tasks.Spec) {
	i, there := x.of[s.Key]
	if !there {
		i = len(x.nodes)
		x.of[s.Key] = i
		n := Node{Key: s.Key, Kind: s.Kind, Version: s.Version, Label: label, Params: s.Params, Step: s.Step, Part: s.Part, Inputs: []NodeInput{}, Blobs: []NodeBlob{}}
		for _, in := range s.Inputs {
			n.Inputs = append(n.Inputs, NodeInput{in.Name, in.Key})
		}
		x.nodes = append(x.nodes, n)
	}
	if cells := &x.nodes[i].Cells; !slices.Contains(*cells, cell) {
		*cells = append(*cells, cell)
	}
}

// listCell adds the nodes of a cell: the standing ones in the order in which they
// can be made, then the steps of its training that have a record, each with its parts.
func (l *Local) listCell(ctx context.Context, list *nodeList, p *plan.Plan, c *plan.Cell) error {
	nodes, chains := p.Needed(c.Report, c.Model)
	for _, n := range nodes {
		list.add(c.Name, n.Label, &n.Spec)
	}
	for _, chain := range chains {
		steps, err := l.recordedSteps(ctx, chain)
		if err != nil {
			return err
		}
		for _, step := range steps {
			for part := range chain.Width {
				spec := chain.PartSpec(step, part)
				list.add(c.Name, fmt.Sprintf("training step %d, part %d of %d", step, part+1, chain.Width), &spec)
			}
			spec := chain.JoinSpec(step)
			list.add(c.Name, fmt.Sprintf("training step %d of %d", step, chain.Steps), &spec)
		}
	}
	return nil
}

// recordedSteps are the steps of a training that are committed, as far as their
// records were kept.
func (l *Local) recordedSteps(ctx context.Context, chain *plan.Chain) ([]int, error) {
	steps, err := l.checkpointSteps(ctx, chain)
	if err != nil {
		return nil, err
	}
	committed := make([]bool, len(steps))
	err = each(ctx, len(steps), func(ctx context.Context, i int) (err error) {
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

// lookUp fills in what the nodes have made.
func (l *Local) lookUp(ctx context.Context, nodes []Node) error {
	return each(ctx, len(nodes), func(ctx context.Context, i int) error {
		n := &nodes[i]
		found, err := availability.LookUp(ctx, l.archive, n.Key)
		if err != nil || found.Commit == nil {
			return err
		}
		n.Committed, n.Metrics = true, found.Commit.Metrics
		n.Attempt = &NodeAttempt{found.Commit.Attempt, found.Commit.Provenance}
		for _, b := range found.Commit.Blobs {
			n.Blobs = append(n.Blobs, NodeBlob{b.Name, b.Size, b.Digest, !slices.Contains(found.Evicted, b.Name)})
		}
		return nil
	})
}

// lookupsAtOnce is how many questions the store is asked at the same time.
const lookupsAtOnce = 16

func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookupsAtOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
