// Package taskstest runs task kinds in tests without a queue, a worker or a
// store: a Graph keeps the outputs of every node in memory and feeds them to later nodes.
//
//	g := taskstest.NewGraph(t)
//	source := g.Import(data)
//	corpus := g.Run(datasets.Import, datasets.ImportParams{Sources: []storage.Digest{source}})
//	parts := g.Run(datasets.Encode, params, taskstest.In("corpus", corpus))
//	parts.Blob("vocabulary")
//
// Golden compares everything that a node wrote with a digest kept in testdata,
// so that a kind whose bytes change must raise its version.
package taskstest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"coalmine/storage"
	"coalmine/tasks"
)

// Graph is a set of nodes that ran in one test. It is a tasks.Source for later nodes, and safe for
// concurrent use.
type Graph struct {
	*tasks.Runner
	t testing.TB

	mu    sync.Mutex
	reads map[string]int64
}

// Node is one finished node.
type Node struct {
	*tasks.RunnerNode
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
	g := &Graph{Runner: tasks.NewRunner(), t: t, reads: map[string]int64{}}
	g.Source = g
	return g
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

// TrySpec executes a given spec, such as a step of a chain.
func (g *Graph) TrySpec(kind tasks.Kind, spec tasks.Spec) (*Node, error) {
	g.t.Helper()
	n, err := g.Runner.Run(g.t.Context(), kind, spec)
	if err != nil {
		return nil, err
	}
	return &Node{n, g.t}, nil
}

// Task returns a task with the inputs, for tests of readers.
func (g *Graph) Task(inputs ...Edge) *tasks.Task {
	spec := tasks.Spec{Kind: "test/read"}
	for _, in := range inputs {
		spec.Inputs = append(spec.Inputs, tasks.Input{Name: in.Name, Key: in.Node.Key})
	}
	return g.Runner.Task(spec, nil)
}

// Put adds a node with the given blobs.
func (g *Graph) Put(name string, blobs map[string][]byte) *Node {
	h := tasks.NewHasher("by hand")
	h.String(name)
	n := &tasks.RunnerNode{Spec: tasks.Spec{Key: h.Sum(), Kind: "test/" + name}, Blobs: blobs}
	g.Give(n)
	return &Node{n, g.t}
}

// BytesRead returns the number of bytes that tasks have read of a node's blob.
func (g *Graph) BytesRead(node *Node, blob string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reads[node.Key.String()+"/"+blob]
}

// Blob implements tasks.Source.
func (g *Graph) Blob(ctx context.Context, key storage.Key, name string) ([]byte, error) {
	data, err := g.Runner.Blob(ctx, key, name)
	g.count(key, name, len(data))
	return data, err
}

// BlobRange implements tasks.Source.
func (g *Graph) BlobRange(ctx context.Context, key storage.Key, name string, offset, length int64) ([]byte, error) {
	data, err := g.Runner.BlobRange(ctx, key, name, offset, length)
	g.count(key, name, len(data))
	return data, err
}

func (g *Graph) count(key storage.Key, name string, bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reads[key.String()+"/"+name] += int64(bytes)
}

// Blob returns an output and fails the test if there is no such output.
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

// Text returns a source of the given number of examples, as JSON lines: 19 users write sentences of
// 6 to 12 words out of 97.
func Text(examples int) []byte {
	var b strings.Builder
	for i := range examples {
		words := make([]string, 6+i%7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7+i/11)%97)
		}
		fmt.Fprintf(&b, `{"user":"u%d","text":"%s ."}`+"\n", i*i%37, strings.Join(words, " "))
	}
	return []byte(b.String())
}
