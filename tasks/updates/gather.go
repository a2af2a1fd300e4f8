package updates

import (
	"context"
	"fmt"

	"coalmine/tasks"
)

// GatherParams are the parameters of updates/gather.
type GatherParams struct {
	// Chunks is the number of shards per round, one for each task of its cohort.
	Chunks int `json:"chunks"`
}

// RoundInput returns the input name of a round, counted from 1: an aggregation/server node with the
// round's shards ShardBlob(0) to ShardBlob(Chunks-1). Inputs must be in the order of rounds.
func RoundInput(round int) string { return fmt.Sprintf("round-%d", round) }

// ShardBlob returns the name of shard i of a node, counted from 0.
func ShardBlob(i int) string { return fmt.Sprintf("updates-%d", i) }

// ShardBytes is roughly the largest size of a shard that a gather makes: it begins a new shard at
// this size, so the excess is less than one update. Readers keep at most that much of a shard in
// memory.
const ShardBytes = 16 << 20

// keptBytes is the least size of a shard that a gather keeps unchanged. A commit has room for a few
// thousand shards.
const keptBytes = 4 << 20

// NodeBytes is roughly the largest size of one gather node.
const NodeBytes = 4 << 30

// Gathered are the metrics of updates/gather.
type Gathered struct {
	Layout Layout `json:"layout"`
	// Rounds counts the rounds of the inputs, Updates their updates.
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
	// Shards holds the number of updates in each blob.
	Shards []int `json:"shards"`
	// Bytes is the size of all shards.
	Bytes int64 `json:"bytes"`
}

// Gather puts the recorded updates of some rounds into permanent shards. The rounds' own shards
// belong to checkpoints, which are deleted after their last reader. Large shards are kept
// unchanged, small ones are merged.
var Gather = tasks.Kind{Name: "updates/gather", Version: 2, Class: tasks.Compute, Run: tasks.WithParams(runGather)}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Gather} }

func runGather(ctx context.Context, t *tasks.Task, p *GatherParams) error {
	w := gathering{task: t, chunks: p.Chunks, Gathered: Gathered{Shards: []int{}}}
	for i, in := range t.Inputs {
		for chunk := range p.Chunks {
			if err := w.take(ctx, in.Name, ShardBlob(chunk)); err != nil {
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
	task   *tasks.Task
	chunks int
	open   *Encoder // nil if there is no update since the last shard
}

// take keeps a shard of an input, or copies its updates.
func (w *gathering) take(ctx context.Context, input, name string) error {
	size, err := w.task.BlobSize(ctx, input, name)
	if err != nil {
		return err
	}
	if size >= keptBytes {
		return w.keep(ctx, input, name, size)
	}
	s, err := readShard(ctx, w.task, input, name, size)
	if err != nil {
		return err
	}
	if err := w.fits(&s.Layout, input, name); err != nil {
		return err
	}
	for i := range s.Len() {
		if err := w.add(ctx, s, i); err != nil {
			return err
		}
	}
	return nil
}

func (w *gathering) fits(layout *Layout, input, name string) error {
	if w.Layout.Layers == nil {
		w.Layout = *layout
	}
	if !layout.equal(&w.Layout) {
		return tasks.Permanent(fmt.Errorf("%s of input %q records %v, expected the layout of the first, %v", name, input, *layout, w.Layout))
	}
	return nil
}

// keep makes a shard of an input an output.
func (w *gathering) keep(ctx context.Context, input, name string, size int64) error {
	layout, updates, err := readHeader(ctx, w.task, input, name, size)
	if err != nil {
		return err
	}
	if err := w.fits(&layout, input, name); err != nil {
		return err
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	w.Updates += updates
	return w.task.Keep(ctx, input, name, w.next(updates, size))
}

// next counts a new shard and returns its name.
func (w *gathering) next(updates int, size int64) string {
	w.Bytes += size
	w.Shards = append(w.Shards, updates)
	return ShardBlob(len(w.Shards) - 1)
}

// add copies one update.
func (w *gathering) add(ctx context.Context, s *Shard, i int) (err error) {
	if w.open == nil {
		if w.open, err = NewEncoder(w.Layout); err != nil {
			return err
		}
		w.open.Reserve(min(s.Len()*len(w.task.Inputs)*w.chunks, 1+ShardBytes/w.Layout.UpdateBytes()))
	}
	w.open.copy(s, i)
	w.Updates++
	if len(w.open.data) < ShardBytes {
		return nil
	}
	return w.flush(ctx)
}

// flush stores the open shard, if there is one.
func (w *gathering) flush(ctx context.Context) error {
	if w.open == nil {
		return nil
	}
	data, updates := w.open.Bytes(), w.open.updates
	w.open = nil
	return w.task.Put(ctx, w.next(updates, int64(len(data))), data)
}

// copy appends update i of a shard of the same layout.
func (e *Encoder) copy(s *Shard, i int) {
	e.data = append(e.data, s.record(i)...)
	e.updates++
}

// readShard reads a shard of the given number of bytes, once.
func readShard(ctx context.Context, t *tasks.Task, input, name string, size int64) (*Shard, error) {
	data, err := t.BlobRange(ctx, input, name, 0, size)
	if err != nil {
		return nil, err
	}
	s, err := Decode(data)
	return s, ofShard(err, input, name)
}

// headerBytes has room for the layout of a shard.
const headerBytes = 64 << 10

// readHeader returns the layout of a shard of the given number of bytes, and the number
// of its updates.
func readHeader(ctx context.Context, t *tasks.Task, input, name string, size int64) (Layout, int, error) {
	data, err := t.BlobRange(ctx, input, name, 0, min(size, headerBytes))
	if err != nil {
		return Layout{}, 0, err
	}
	layout, header, err := decodeHeader(data)
	if err != nil {
		return layout, 0, ofShard(err, input, name)
	}
	return layout, int(size-int64(header)) / layout.UpdateBytes(), nil
}

// ofShard adds the shard to an error, if any, and marks it permanent: a retry reads the same bytes.
func ofShard(err error, input, name string) error {
	if err == nil {
		return nil
	}
	return tasks.Permanent(fmt.Errorf("%s of input %q: %w", name, input, err))
}

// ReadLayout returns the layout of a gather node's updates.
func ReadLayout(ctx context.Context, t *tasks.Task, input string) (Layout, error) {
	g, err := ReadGathered(ctx, t, input)
	return g.Layout, err
}

// ReadGathered reads the metrics of a gather node, without its updates.
func ReadGathered(ctx context.Context, t *tasks.Task, input string) (Gathered, error) {
	var g Gathered
	err := t.InputMetrics(ctx, input, &g)
	return g, err
}

// Ref names a part of a shard that a reader keeps in memory at once: updates of the gather node
// Input.
type Ref struct {
	Input string
	Shard int
	// layout is the node's layout. The part has the updates [from, to) of all updates of the shard.
	layout        *Layout
	from, to, all int
}

// Refs lists the updates of the gather nodes under the names inputs, in the order of the names and,
// within a node, of rounds and then of devices. Every part is smaller than ShardBytes plus one
// update.
func Refs(ctx context.Context, t *tasks.Task, inputs []string) ([]Ref, error) {
	var refs []Ref
	for _, input := range inputs {
		g, err := ReadGathered(ctx, t, input)
		if err != nil {
			return nil, err
		}
		most := 1 + ShardBytes/g.Layout.UpdateBytes()
		for i, all := range g.Shards {
			for from := 0; from < all; from += most {
				refs = append(refs, Ref{input, i, &g.Layout, from, min(from+most, all), all})
			}
		}
	}
	return refs, nil
}

// Each calls do with the updates of the part, in the order of rounds and then of devices. The next
// update overwrites the values of an update: do must copy values to keep them. Each returns the
// first error of do.
func (r Ref) Each(ctx context.Context, t *tasks.Task, do func(Update) error) error {
	s, err := r.read(ctx, t)
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

// read reads the part. A whole shard may be cached for the next reader.
func (r Ref) read(ctx context.Context, t *tasks.Task) (*Shard, error) {
	name := ShardBlob(r.Shard)
	if r.to-r.from == r.all {
		data, err := t.Blob(ctx, r.Input, name)
		if err != nil {
			return nil, err
		}
		s, err := Decode(data)
		return s, ofShard(err, r.Input, name)
	}
	size, err := t.BlobSize(ctx, r.Input, name)
	if err != nil {
		return nil, err
	}
	update := int64(r.layout.UpdateBytes())
	data, err := t.BlobRange(ctx, r.Input, name, size-int64(r.all-r.from)*update, int64(r.to-r.from)*update)
	if err != nil {
		return nil, err
	}
	s, err := newShard(*r.layout, data)
	return s, ofShard(err, r.Input, name)
}
