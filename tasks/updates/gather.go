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

// ShardBytes is about the most of a shard that a gather makes: one begins a new shard when
// it is reached, so that it is exceeded by less than an update. Readers have no more of any
// shard in memory at once.
const ShardBytes = 16 << 20

// keptBytes is the least of a shard that a gather keeps as it is. A commit has room for a
// few thousand of them.
const keptBytes = 4 << 20

// NodeBytes is about the most that one gather node should hold.
const NodeBytes = 4 << 30

// Gathered are the metrics of updates/gather.
type Gathered struct {
	Layout Layout `json:"layout"`
	// Rounds are those of the inputs, Updates the number of updates in them.
	Rounds  int `json:"rounds"`
	Updates int `json:"updates"`
	// Shards are the blobs that hold them: the number of updates in each.
	Shards []int `json:"shards"`
	// Bytes is the size of all shards.
	Bytes int64 `json:"bytes"`
}

// Gather puts the recorded updates of some rounds into shards that last. The rounds' own
// are parts of checkpoints, which go when everything that reads them has run. Large shards
// are kept as they are, small ones are put together.
var Gather = tasks.Kind{Name: "updates/gather", Version: 2, Class: tasks.Compute, Run: runGather}

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Gather} }

func runGather(ctx context.Context, t *tasks.Task) error {
	var p GatherParams
	if err := t.Decode(&p); err != nil {
		return err
	}
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
	open   *Encoder // nil without an update since the last shard was put
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

// fits compares a layout with that of the first shard.
func (w *gathering) fits(layout *Layout, input, name string) error {
	if w.Layout.Layers == nil {
		w.Layout = *layout
	}
	if !layout.equal(&w.Layout) {
		return tasks.Permanent(fmt.Errorf("%s of input %q records %v, expected the layout of the first, %v", name, input, *layout, w.Layout))
	}
	return nil
}

// keep makes a shard of an input one of the outputs.
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

// next counts one more shard and names it.
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

// flush puts the open shard, if there is one.
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

// ofShard says which shard an error is about, if there is one: no other try reads it better.
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

// Ref names a part of a shard that a reader has in memory at once: some of the updates of
// the gather node under the name Input.
type Ref struct {
	Input string
	Shard int
	// layout is that of the node; of the shard's updates, all of them in number, the part
	// has those from from to before to.
	layout        *Layout
	from, to, all int
}

// Refs lists the updates of the gather nodes under the names inputs, in the order of the
// names and, within a node, of rounds and then of devices. None of the parts has ShardBytes
// and an update or more.
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

// Each calls do with the updates of the part, in the order of rounds and then of devices. The
// values of an update are overwritten by the next: do must copy those that it keeps. An error
// of do ends it and is returned.
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
