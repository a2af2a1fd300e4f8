package plan

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sort"
	"strings"

	"coalmine/internal/goroutines"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/external"
)

// StoredChain is the state of a chain in storage.
type StoredChain struct {
	// Frontier is the highest committed step found, or 0.
	Frontier int
	// Checkpoints lists steps with available checkpoints, ascending: the requested ones or, if they are
	// unavailable, the nearest below.
	Checkpoints []int
}

// Surveyor finds the position of a chain without listing objects.
//
// Every boundary up to the frontier, and every step of the open segment up to the frontier, has a record.
// Both sequences have no gaps, so they can be bisected. A replay leaves the same records in its segment.
// Other deleted outputs are only work: the steps found are available, even if later ones are overlooked.
type Surveyor struct {
	// LookUp looks up a node in storage; Has looks up only its record. LookUp is called concurrently.
	LookUp func(context.Context, storage.Key) (Stored, error)
	Has    func(context.Context, storage.Key) (bool, error)
	Chain  *Chain
	// Kept returns the steps with checkpoints that are kept at a frontier, and so are likely to exist.
	Kept func(frontier int) []int
}

func NewSurveyor(archive *storage.Archive, chain *Chain, kept func(frontier int) []int) Surveyor {
	return Surveyor{
		LookUp: func(ctx context.Context, key storage.Key) (Stored, error) { return LookUp(ctx, archive, key) },
		Has:    archive.HasCommit, Chain: chain, Kept: kept,
	}
}

// Survey looks for the frontier up to the end of the segment of step limit, and for the nearest available
// checkpoint at or below each goal.
func (s Surveyor) Survey(ctx context.Context, limit int, goals []int) (StoredChain, error) {
	x := &search{Surveyor: s, ctx: ctx, seen: make(map[int]Stored), near: make(map[int]int)}
	out := StoredChain{Frontier: x.frontier(limit)}
	wanted := []int{out.Frontier}
	for _, goal := range goals {
		wanted = append(wanted, min(goal, out.Frontier))
	}
	wanted = ascending(wanted)
	x.lookAhead(wanted)
	x.candidates = ascending(append(s.Kept(out.Frontier), wanted...))
	for _, step := range wanted {
		x.near[step] = x.nearest(step)
		if x.near[step] > 0 {
			out.Checkpoints = append(out.Checkpoints, x.near[step])
		}
	}
	out.Checkpoints = ascending(out.Checkpoints)
	return out, x.err
}

// ascending returns the distinct steps in order.
func ascending(steps []int) []int { return slices.Compact(slices.Sorted(slices.Values(steps))) }

// search is one survey. It makes no requests after an error of storage.
type search struct {
	Surveyor
	ctx        context.Context
	candidates []int          // steps at which to look first, ascending
	seen       map[int]Stored // by step
	near       map[int]int    // results of nearest, by step
	err        error
}

// frontier bisects the boundaries, then the segment above the last of them. The boundary at the end of limit's
// segment counts, because a longer run that has closed the segment has deleted the records before it.
func (x *search) frontier(limit int) int {
	closed := x.bisect(Segment(SegmentEnd(limit)), func(segment int) int { return segment * tasks.SegmentSteps })
	boundary := closed * tasks.SegmentSteps
	return x.lastOf(boundary, min(boundary+tasks.SegmentSteps-1, limit))
}

// lastOf returns the last of the recorded steps that follow from without a gap, at most to. It returns from
// if there are none.
func (x *search) lastOf(from, to int) int {
	return from + x.bisect(to-from, func(i int) int { return from + i })
}

// bisect returns the highest i of 1..n for which step(i) has a record, or 0. All steps below it must have
// records, too.
func (x *search) bisect(n int, step func(i int) int) int {
	return sort.Search(max(n, 0), func(i int) bool { return !x.committed(step(i + 1)) })
}

func (x *search) committed(step int) bool {
	if x.err != nil {
		return false
	}
	there, err := x.Has(x.ctx, x.Chain.Key(step))
	x.err = err
	return there
}

func (x *search) available(step int) bool {
	if x.err != nil {
		return false
	}
	n, ok := x.seen[step]
	if !ok {
		n, x.err = x.LookUp(x.ctx, x.Chain.Key(step))
		x.seen[step] = n
	}
	return n.Available()
}

// lookAhead looks up the steps that nearest will ask for, concurrently: a training with recorded updates
// has thousands of them.
func (x *search) lookAhead(steps []int) {
	steps = slices.DeleteFunc(slices.Clone(steps), func(step int) bool { return step < 1 })
	if x.err != nil {
		return
	}
	keys := make([]storage.Key, len(steps))
	for i, step := range steps {
		keys[i] = x.Chain.Key(step)
	}
	found, err := lookUpAll(x.ctx, keys, x.LookUp)
	if x.err = err; err != nil {
		return
	}
	for i, step := range steps {
		x.seen[step] = found[i]
	}
}

// nearest returns the highest step up to t at which it finds an available checkpoint, or 0 for the origin. The step
// is t itself, the last of a sequence of records (left by an interrupted training or replay), a candidate, or a
// boundary. A sequence ends below the next candidate or boundary, which may have a record from an earlier pass.
func (x *search) nearest(t int) int {
	if t < 1 || x.available(t) {
		return max(t, 0)
	}
	for top := t; top > 0 && x.err == nil; {
		for _, start := range x.startsBelow(top) {
			// In the open segment all records existed before a replay, so only the checkpoints tell its position.
			for step := x.lastOf(start, top-1); step > start; step-- {
				if x.available(step) {
					return step
				}
			}
			if near, known := x.near[start]; known {
				return near
			}
			if start > 0 && x.available(start) {
				return start
			}
			top = start
		}
	}
	return 0
}

// startsBelow returns the steps of top's segment at which a sequence of records may begin, descending:
// candidates below top, and the boundary.
func (x *search) startsBelow(top int) []int {
	boundary := Segment(top-1) * tasks.SegmentSteps
	var starts []int
	for _, c := range slices.Backward(x.candidates) {
		if boundary < c && c < top {
			starts = append(starts, c)
		}
	}
	return append(starts, boundary)
}

// Stored is the state of a node in storage.
type Stored struct {
	// Commit is the node's record, or nil if the record is missing or torn.
	Commit *storage.Commit
	// Torn reports whether the record is invalid because its writer was interrupted.
	Torn bool
	// Evicted names the blobs that are missing.
	Evicted []string
}

// Available reports whether the node is committed with all its blobs.
func (n Stored) Available() bool { return n.Commit != nil && len(n.Evicted) == 0 }

// Reason explains why the node is or isn't cached, for display.
func (n Stored) Reason() string {
	switch {
	case n.Torn:
		return "its commit is torn"
	case n.Commit == nil:
		return "no cached result"
	case len(n.Evicted) > 0:
		return "evicted: " + strings.Join(n.Evicted, ", ")
	}
	return "cached"
}

// LookUp looks up a node in storage. A missing, torn or evicted node is not an error.
func LookUp(ctx context.Context, archive *storage.Archive, key storage.Key) (Stored, error) {
	c, err := archive.Committed(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return Stored{}, nil
	case errors.Is(err, storage.ErrCorrupt):
		return Stored{Torn: true}, nil
	case err != nil:
		return Stored{}, err
	}
	evicted, err := archive.Missing(ctx, c)
	return Stored{Commit: c, Evicted: evicted}, err
}

// lookUpsAtOnce is the number of concurrent lookups of LookUpAll.
const lookUpsAtOnce = 16

// LookUpAll looks up nodes in storage, and returns their states in the order of the keys.
func LookUpAll(ctx context.Context, archive *storage.Archive, keys []storage.Key) ([]Stored, error) {
	return lookUpAll(ctx, keys, func(ctx context.Context, key storage.Key) (Stored, error) { return LookUp(ctx, archive, key) })
}

func lookUpAll(ctx context.Context, keys []storage.Key, lookUp func(context.Context, storage.Key) (Stored, error)) ([]Stored, error) {
	found := make([]Stored, len(keys))
	err := goroutines.Each(ctx, len(keys), lookUpsAtOnce, func(ctx context.Context, i int) (err error) {
		found[i], err = lookUp(ctx, keys[i])
		return err
	})
	return found, err
}

// Damaged reads the blobs of the available nodes in found for which read returns true, and adds the damaged
// ones to Evicted. It returns the nodes that have damaged blobs.
func Damaged(ctx context.Context, archive *storage.Archive, found []Stored, read func(storage.Key) bool) ([]*Stored, error) {
	var nodes []*Stored
	for i := range found {
		if n := &found[i]; n.Available() && read(n.Commit.Key) {
			nodes = append(nodes, n)
		}
	}
	err := goroutines.Each(ctx, len(nodes), lookUpsAtOnce, func(ctx context.Context, i int) (err error) {
		nodes[i].Evicted, err = archive.Damaged(ctx, nodes[i].Commit)
		return err
	})
	return slices.DeleteFunc(nodes, func(n *Stored) bool { return n.Available() }), err
}

// LastStep returns the step that a training has reached, or 0. Records of boundaries last, and records of
// steps last while their segment is open, so both can be bisected.
func LastStep(ctx context.Context, archive *storage.Archive, chain *Chain) (int, error) {
	var failed error
	missing := func(step int) bool {
		there, err := archive.HasCommit(ctx, chain.Key(step))
		if err != nil {
			failed = err
		}
		return !there
	}
	if !missing(chain.Steps) {
		return chain.Steps, failed
	}
	whole := sort.Search(Segment(chain.Steps), func(i int) bool { return missing((i + 1) * tasks.SegmentSteps) })
	from := whole * tasks.SegmentSteps
	open := sort.Search(min(tasks.SegmentSteps-1, chain.Steps-from), func(i int) bool { return missing(from + i + 1) })
	return from + open, failed
}

// Rows returns metric rows of a training's steps, in order: all rows of its open segment and, of its closed
// segments, the first, the last and others evenly between them. It reads about most segments, or all if
// most is 0, and omits rows without a record.
func Rows(ctx context.Context, archive *storage.Archive, chain *Chain, most int) ([]checkpoints.Row, error) {
	done, err := LastStep(ctx, archive, chain)
	if err != nil || done == 0 {
		return nil, err
	}
	whole, stride := Segment(done), 1
	if most > 0 {
		stride = max(1, (whole+most-1)/most)
	}
	var rows []checkpoints.Row
	for i := 1; i <= whole; i++ {
		if i%stride != 0 && i != 1 && i != whole {
			continue
		}
		segment, err := readRows(ctx, archive, chain.Key(i*tasks.SegmentSteps), tasks.SegmentBlob, checkpoints.DecodeSegment)
		if err != nil {
			return nil, err
		}
		rows = append(rows, segment...)
	}
	if Boundary(done) {
		return rows, nil
	}
	open, err := stepRows(ctx, archive, chain.Key(done))
	return append(rows, open...), err
}

// StepRow returns the metric row of a step, or nil if its record is gone.
func StepRow(ctx context.Context, archive *storage.Archive, chain *Chain, step int) (*checkpoints.Row, error) {
	name, decode := tasks.RowsBlob, checkpoints.DecodeRows
	if Boundary(step) {
		name, decode = tasks.SegmentBlob, checkpoints.DecodeSegment
	}
	rows, err := readRows(ctx, archive, chain.Key(step), name, decode)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[len(rows)-1], nil
}

// TailRows returns the metric rows of the tail of a training. For a running command, these are the rows
// reported so far.
func TailRows(ctx context.Context, archive *storage.Archive, key storage.Key) ([]checkpoints.Row, error) {
	rows, err := stepRows(ctx, archive, key)
	if len(rows) > 0 || err != nil {
		return rows, err
	}
	so, err := archive.ReadUnfinished(ctx, key)
	if so == nil || err != nil {
		return nil, err
	}
	var state external.State
	if err := json.Unmarshal(so.State, &state); err != nil {
		return nil, nil // of another version: the training begins again
	}
	return state.Rows, nil
}

// stepRows returns the rows in the record of a step of an open segment or of the tail of a training, or nil
// if the record is gone.
func stepRows(ctx context.Context, archive *storage.Archive, key storage.Key) ([]checkpoints.Row, error) {
	return readRows(ctx, archive, key, tasks.RowsBlob, checkpoints.DecodeRows)
}

func readRows(ctx context.Context, archive *storage.Archive, key storage.Key, name string, decode func([]byte) ([]checkpoints.Row, error)) ([]checkpoints.Row, error) {
	data, err := archive.ReadOutput(ctx, key, name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return decode(data)
}
