// Package taskstest runs task kinds in tests without a queue, a worker or a
// store: a Graph keeps the outputs of every node in memory and feeds them to
// the nodes after it.
//
//	g := taskstest.NewGraph(t)
//	source := g.Import(data)
//	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: source})
//	parts := g.Run(datasets.Encode, params, taskstest.In("corpus", corpus))
//	parts.Blob("vocabulary")
//
// Golden compares everything that a node wrote with a digest kept in testdata,
// so that a kind whose bytes change must raise its version.
package taskstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
)

// Graph is a set of nodes that ran in one test. It is a tasks.Source for the
// nodes that follow, and may be used by several goroutines.
type Graph struct {
	t testing.TB

	mu      sync.Mutex
	nodes   map[storage.Key]*Node
	sources map[storage.Digest][]byte
	reads   map[string]int64
	memo    map[string]any
}

// Node is one finished node.
type Node struct {
	tasks.Spec
	// Blobs are the outputs by name.
	Blobs map[string][]byte
	// Metrics is what the task recorded, nil if nothing.
	Metrics json.RawMessage

	t testing.TB
}

// Edge is a named input of a node.
type Edge struct {
	Name string
	Node *Node
}

// In names node as an input.
func In(name string, node *Node) Edge { return Edge{name, node} }

// NewGraph returns an empty graph that reports its failures to t.
func NewGraph(t testing.TB) *Graph {
	return &Graph{
		t:       t,
		nodes:   map[storage.Key]*Node{},
		sources: map[storage.Digest][]byte{},
		reads:   map[string]int64{},
		memo:    map[string]any{},
	}
}

// Import adds a source and returns its digest.
func (g *Graph) Import(data []byte) storage.Digest {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := storage.DigestOf(data)
	g.sources[d] = data
	return d
}

// Run executes a standing node and fails the test if it fails. Equal nodes are
// executed again, so that a test may compare the two; the graph keeps the last.
func (g *Graph) Run(kind tasks.Kind, params any, inputs ...Edge) *Node {
	g.t.Helper()
	n, err := g.Try(kind, params, inputs...)
	if err != nil {
		g.t.Fatalf("%s: %v", kind.Name, err)
	}
	return n
}

// Try executes a standing node and returns its error.
func (g *Graph) Try(kind tasks.Kind, params any, inputs ...Edge) (*Node, error) {
	g.t.Helper()
	var named []tasks.Input
	for _, in := range inputs {
		named = append(named, tasks.Input{Name: in.Name, Key: in.Node.Key})
	}
	spec, err := tasks.NewSpec(kind, params, named...)
	if err != nil {
		g.t.Fatalf("spec of %s: %v", kind.Name, err)
	}
	return g.TrySpec(kind, spec)
}

// TrySpec executes a spec that the test made itself, such as a step of a chain.
func (g *Graph) TrySpec(kind tasks.Kind, spec tasks.Spec) (*Node, error) {
	g.t.Helper()
	node := &Node{Spec: spec, Blobs: map[string][]byte{}, t: g.t}
	task := tasks.NewTask(spec, g, nodeSink{node}, graphMemo{g}, nil)
	if err := kind.Run(g.t.Context(), task); err != nil {
		return nil, err
	}
	node.Metrics = task.Metrics()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[spec.Key] = node
	return node, nil
}

// Task binds a throw-away task to inputs, for tests of the readers that tasks use.
func (g *Graph) Task(inputs ...Edge) *tasks.Task {
	spec := tasks.Spec{Kind: "test/read"}
	for _, in := range inputs {
		spec.Inputs = append(spec.Inputs, tasks.Input{Name: in.Name, Key: in.Node.Key})
	}
	return tasks.NewTask(spec, g, nil, graphMemo{g}, nil)
}

// Put adds a node whose blobs the test wrote by hand.
func (g *Graph) Put(name string, blobs map[string][]byte) *Node {
	h := tasks.NewHasher("by hand")
	h.String(name)
	n := &Node{Spec: tasks.Spec{Key: h.Sum(), Kind: "test/" + name}, Blobs: blobs, t: g.t}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes[n.Key] = n
	return n
}

// BytesRead is the number of bytes that tasks have read of a node's blob.
func (g *Graph) BytesRead(node *Node, blob string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reads[node.Key.String()+"/"+blob]
}

// Commit implements tasks.Source.
func (g *Graph) Commit(_ context.Context, key storage.Key) (*storage.Commit, error) {
	n, err := g.node(key)
	if err != nil {
		return nil, err
	}
	c := &storage.Commit{Key: n.Key, Kind: n.Kind, KindVersion: n.Version, Metrics: n.Metrics}
	for _, name := range n.Names() {
		data := n.Blobs[name]
		c.Blobs = append(c.Blobs, storage.Blob{Name: name, Digest: storage.DigestOf(data), Size: int64(len(data))})
	}
	return c, nil
}

// Blob implements tasks.Source.
func (g *Graph) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	return g.BlobRange(ctx, key, name, 0, -1)
}

// BlobRange implements tasks.Source; a negative length means to the end.
func (g *Graph) BlobRange(_ context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	n, err := g.node(key)
	if err != nil {
		return nil, err
	}
	data, ok := n.Blobs[name]
	if !ok {
		return nil, &tasks.MissingError{Node: key, Blob: name, Err: storage.ErrNotFound}
	}
	if length < 0 {
		length = int64(len(data)) - offset
	}
	if offset < 0 || offset+length > int64(len(data)) {
		return nil, fmt.Errorf("blob %q has %d bytes; [%d, %d) asked", name, len(data), offset, offset+length)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads[key.String()+"/"+name] += length
	return data[offset : offset+length : offset+length], nil
}

// Imported implements tasks.Source.
func (g *Graph) Imported(_ context.Context, d storage.Digest) (io.ReadCloser, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	data, ok := g.sources[d]
	if !ok {
		return nil, fmt.Errorf("source %s: %w", d.Short(), storage.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (g *Graph) node(key storage.Key) (*Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.nodes[key]
	if !ok {
		return nil, &tasks.MissingError{Node: key, Err: storage.ErrNotFound}
	}
	return n, nil
}

// Names lists the blobs, sorted.
func (n *Node) Names() []string {
	var names []string
	for name := range n.Blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Blob returns an output and fails the test if there is none of that name.
func (n *Node) Blob(name string) []byte {
	n.t.Helper()
	data, ok := n.Blobs[name]
	if !ok {
		n.t.Fatalf("%s wrote no blob %q, only %s", n.Kind, name, strings.Join(n.Names(), ", "))
	}
	return data
}

// DecodeMetrics reads the node's metrics and fails the test if it cannot.
func (n *Node) DecodeMetrics(into any) {
	n.t.Helper()
	if err := json.Unmarshal(n.Metrics, into); err != nil {
		n.t.Fatalf("metrics of %s: %v", n.Kind, err)
	}
}

// Digest hashes everything that the node wrote: blobs by name, and metrics.
func (n *Node) Digest() storage.Digest {
	h := tasks.NewHasher("golden")
	for _, name := range n.Names() {
		h.String(name)
		h.String(string(n.Blobs[name]))
	}
	h.String(string(n.Metrics))
	return h.Sum().Digest
}

// nodeSink collects the blobs of one task.
type nodeSink struct{ node *Node }

func (s nodeSink) Put(_ context.Context, name string, data []byte, _ storage.Durability) error {
	if _, twice := s.node.Blobs[name]; twice {
		return fmt.Errorf("blob %q written twice", name)
	}
	s.node.Blobs[name] = data
	return nil
}

// graphMemo keeps every memoized value for as long as the graph lives.
type graphMemo struct{ g *Graph }

func (m graphMemo) Get(key string, load func() (any, int64, error)) (any, error) {
	m.g.mu.Lock()
	v, ok := m.g.memo[key]
	m.g.mu.Unlock()
	if ok {
		return v, nil
	}
	v, _, err := load()
	if err != nil {
		return nil, err
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	m.g.memo[key] = v
	return v, nil
}
