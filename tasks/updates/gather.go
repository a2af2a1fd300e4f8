package updates

import (
	"context"
	"fmt"

	"coalmine/tasks"
)

// GatherParams are the parameters of updates/gather.
type GatherParams struct {
	// Chunks is the number of shards that each round has: that of the tasks its cohort is
	// split into.
	Chunks int `json:"chunks"`
}

// RoundInput is the name under which a gather finds a round, counted from 1: the node
// aggregation/server, whose shards ShardBlob(0) to ShardBlob(Chunks-1) are the round's.
// Inputs are to be in the order of rounds.
func RoundInput(round int) string { return fmt.Sprintf("round-%d", round) }

// ShardBlob is shard i of a node, counted from 0.
func ShardBlob(i int) string { return fmt.Sprintf("updates-%d", i) }

// ShardBytes is about the most of a shard that a gather puts: one begins a new shard when
// it is reached, so that it is exceeded by less than an update. A worker has a few of them
// in memory while they are stored.
const ShardBytes = 16 << 20

// Gathered are the metrics of updates/gather.
type Gathered struct {
	Layout Layout `json:"layout"`
	// Rounds are those of the inputs, Updates what their devices have sent, and Shards
	// the blobs that hold them.
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
	Shards  int `json:"shards"`
	// Bytes is the size of all shards.
	Bytes int64 `json:"bytes"`
}

// Gather puts the recorded updates of some rounds into shards that last. The rounds' own
// are parts of checkpoints, which go when everything that reads them has run.
var Gather = tasks.Kind{Name: "updates/gather", Version: 1, Class: tasks.Compute, Run: runGather}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Gather} }

func runGather(ctx context.Context, t *tasks.Task) error {
	var p GatherParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	w := gathering{task: t, limit: ShardBytes, chunks: p.Chunks}
	for i, in := range t.Inputs {
		for chunk := range p.Chunks {
			if err := w.read(ctx, in.Name, chunk); err != nil {
				return err
			}
		}
		w.Rounds++
		t.Progress(tasks.Progress{Done: int64(i + 1), Total: int64(len(t.Inputs))})
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	return t.SetMetrics(w.Gathered)
}

// gathering copies updates from one list of shards into another.
type gathering struct {
	Gathered
	task  *tasks.Task
	limit int
	// chunks is the number of shards of a round.
	chunks int
	open   *Encoder // nil without an update since the last shard was put
}

// read copies the updates of a chunk.
func (w *gathering) read(ctx context.Context, input string, chunk int) error {
	s, err := readShard(ctx, w.task, input, ShardBlob(chunk))
	if err != nil {
		return err
	}
	if w.Layout.Layers == nil {
		w.Layout = s.Layout
	}
	if !s.Layout.equal(&w.Layout) {
		return tasks.Permanent(fmt.Errorf("chunk %d of input %q records %v, expected the layout of the first, %v", chunk, input, s.Layout, w.Layout))
	}
	for i := range s.Len() {
		if err := w.add(ctx, s, i); err != nil {
			return err
		}
	}
	return nil
}

// add copies one update.
func (w *gathering) add(ctx context.Context, s *Shard, i int) (err error) {
	if w.open == nil {
		if w.open, err = NewEncoder(w.Layout); err != nil {
			return err
		}
		w.open.Reserve(min(s.Len()*len(w.task.Inputs)*w.chunks, 1+w.limit/w.Layout.UpdateBytes()))
	}
	w.open.copy(s, i)
	w.Updates++
	if len(w.open.data) < w.limit {
		return nil
	}
	return w.flush(ctx)
}

// flush puts the open shard, if there is one.
func (w *gathering) flush(ctx context.Context) error {
	if w.open == nil {
		return nil
	}
	data := w.open.Bytes()
	w.open = nil
	w.Bytes += int64(len(data))
	w.Shards++
	return w.task.Put(ctx, ShardBlob(w.Shards-1), data)
}

// copy appends update i of a shard of the same layout.
func (e *Encoder) copy(s *Shard, i int) {
	e.data = append(e.data, s.record(i)...)
}

func readShard(ctx context.Context, t *tasks.Task, input, name string) (*Shard, error) {
	data, err := t.Blob(ctx, input, name)
	if err != nil {
		return nil, err
	}
	s, err := Decode(data)
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("%s of input %q: %w", name, input, err))
	}
	return s, nil
}

// ReadLayout says what the updates of a gather node hold.
func ReadLayout(ctx context.Context, t *tasks.Task, input string) (Layout, error) {
	g, err := ReadGathered(ctx, t, input)
	return g.Layout, err
}

// ReadGathered reads what a gather node says of its updates, without reading them.
func ReadGathered(ctx context.Context, t *tasks.Task, input string) (Gathered, error) {
	var g Gathered
	err := t.InputMetrics(ctx, input, &g)
	return g, err
}

// Ref names a shard: its place among those of the gather node under the name Input.
type Ref struct {
	Input string
	Shard int
}

// Refs lists the shards of the gather nodes under the names inputs, in the order of the
// names and, within a node, of rounds and then of devices.
func Refs(ctx context.Context, t *tasks.Task, inputs []string) ([]Ref, error) {
	var refs []Ref
	for _, input := range inputs {
		g, err := ReadGathered(ctx, t, input)
		if err != nil {
			return nil, err
		}
		for i := range g.Shards {
			refs = append(refs, Ref{input, i})
		}
	}
	return refs, nil
}

// Each calls do with the updates of the shard, in the order of rounds and then of devices. The
// values of an update are overwritten by the next: do MUST copy what it keeps. An error of do
// ends it and is returned.
func (r Ref) Each(ctx context.Context, t *tasks.Task, do func(Update) error) error {
	s, err := readShard(ctx, t, r.Input, ShardBlob(r.Shard))
	if err != nil {
		return err
	}
	for i := range s.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(s.At(i)); err != nil {
			return err
		}
	}
	return nil
}
