// Package retention decides which nodes of a chain stay, so that a training of any length takes bounded work and
// stores a hundredth of an object a step (invariant 9). It also collects objects that no run needs ([Collector]).
//
// A training's nodes are deleted by these rules:
//
//   - When a step is joined, its parts (commits and blobs) are deleted, and
//     the checkpoint of the step before.
//   - When the boundary of a segment is joined, the records of the other
//     steps of the segment are deleted; the boundary holds their metric rows.
//   - A replay leaves the same objects; they are deleted in the same way.
//   - A checkpoint stays until all standing nodes have read it, and is deleted with
//     its record, if its segment is closed ([Read]).
//   - Claimed checkpoints stay whole ([Claim]), and so do the frontier and the step
//     that the chain is at.
//
// Nodes to delete are first listed as [Retirement]s; just before the deletion, [Chain.Deletions] drops those that are
// kept after all. Deletions run behind the training, in order, so a leader leaves at most the newest few steps; its
// successor finds them ([Residue]). A deletion may be repeated, and an unneeded one only costs a replay.
package retention

import (
	"context"
	"slices"
	"time"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// Retirement is a part of a chain to delete unless Deletions finds that it is kept.
type Retirement struct {
	What Retired
	Step int
	// Objects holds the known objects of the step's parts, which saves reading their records.
	Objects map[storage.Key][]storage.Blob
}

// Retired is the part of a step to delete.
type Retired int

// The parts of a step that may be deleted.
const (
	Parts     Retired = iota // its parts, with their records
	Blobs                    // its checkpoint; its record stays
	Records                  // the records of its segment's steps below it
	WholeStep                // its checkpoint, and its record if its segment is closed
)

// Chain is the state of a chain that retention needs.
type Chain struct {
	Shape *plan.Chain
	// Frontier is the highest committed step, 0 if there is none.
	Frontier int
	// Running is the step with tasks that may be running, 0 if there is none. Its parts stay.
	Running int
	// Keeps reports whether the checkpoint of a step is needed.
	Keeps func(step int) bool
}

// Closed reports whether the boundary of the step's segment is committed.
func (c *Chain) Closed(step int) bool { return plan.SegmentEnd(step) <= c.Frontier }

// AfterStep returns the nodes that are superfluous once a step is joined. objects holds the known objects
// of its parts; ended reports whether the pass has reached its last checkpoint.
func (c *Chain) AfterStep(step int, objects map[storage.Key][]storage.Blob, ended bool, claims Claims) []Retirement {
	out := []Retirement{{What: Blobs, Step: step - 1}, {Parts, step, objects}}
	if plan.Boundary(step) || ended && c.Closed(step) {
		out = append(out, Retirement{What: Records, Step: step})
	}
	if step == c.Frontier {
		for _, claim := range claims {
			if first, last := claim.window(step); last == step {
				out = append(out, Retirement{What: WholeStep, Step: first - claim.every})
			}
		}
	}
	return possible(c.Shape, out)
}

// AfterPass returns the nodes to delete when a pass is given up at a step: the step, unless it is the
// frontier, and the parts of the next step if its tasks existed.
func (c *Chain) AfterPass(step int, begun bool) []Retirement {
	var out []Retirement
	if begun {
		out = append(out, Retirement{What: Parts, Step: step + 1})
	}
	if step != c.Frontier {
		out = append(out, Retirement{What: WholeStep, Step: step})
		if step > 0 && c.Closed(step) {
			out = append(out, Retirement{What: Records, Step: step})
		}
	}
	return possible(c.Shape, out)
}

// possible drops nodes that cannot exist: steps before the first, and parts of a chain without parts.
func possible(chain *plan.Chain, all []Retirement) []Retirement {
	return slices.DeleteFunc(all, func(r Retirement) bool { return r.Step < 1 || r.What == Parts && chain.Width == 0 })
}

// Deletion is a node to delete, or its blobs.
type Deletion struct {
	Key storage.Key
	// Step is the step of a checkpoint, 0 for a part.
	Step int
	// Whole reports whether the record is deleted too.
	Whole bool
	// Objects holds the node's objects, or is nil if its record must be read for them.
	Objects []storage.Blob
}

// Deletions returns the nodes to delete now, each once.
func (c *Chain) Deletions(all ...Retirement) []Deletion {
	var out []Deletion
	at := make(map[storage.Key]int)
	for _, r := range all {
		for _, d := range c.deletions(r) {
			if i, twice := at[d.Key]; twice {
				out[i].Whole = out[i].Whole || d.Whole
				continue
			}
			at[d.Key] = len(out)
			out = append(out, d)
		}
	}
	return out
}

func (c *Chain) deletions(r Retirement) []Deletion {
	var out []Deletion
	switch r.What {
	case Parts:
		if c.Running == r.Step {
			return nil // it is running again
		}
		for j := range c.Shape.Width {
			key := c.Shape.PartKey(r.Step, j)
			out = append(out, Deletion{Key: key, Whole: true, Objects: r.Objects[key]})
		}
	case Blobs, WholeStep:
		if !c.Keeps(r.Step) {
			whole := r.What == WholeStep && c.Closed(r.Step) && !plan.Boundary(r.Step)
			out = append(out, Deletion{Key: c.Shape.Key(r.Step), Step: r.Step, Whole: whole})
		}
	case Records:
		for step := plan.Segment(r.Step-1)*tasks.SegmentSteps + 1; step < r.Step; step++ {
			if !c.Keeps(step) {
				out = append(out, Deletion{Key: c.Shape.Key(step), Step: step, Whole: true})
			}
		}
	}
	return out
}

// Recent remembers the nodes retired with the last two joined steps, because an overtaken attempt may
// commit one again.
type Recent [2]map[storage.Key]Retirement // newest first

// Remember records the nodes retired with a step.
func (x *Recent) Remember(shape *plan.Chain, step int) {
	newest := make(map[storage.Key]Retirement)
	if step > 1 {
		newest[shape.Key(step-1)] = Retirement{What: WholeStep, Step: step - 1}
	}
	for j := range shape.Width {
		newest[shape.PartKey(step, j)] = Retirement{What: Parts, Step: step}
	}
	*x = Recent{newest, x[0]}
}

// Late returns the nodes to retire again because an overtaken attempt has committed a node.
func (x *Recent) Late(key storage.Key) []Retirement {
	var again []Retirement
	for _, retired := range x {
		if r, ok := retired[key]; ok {
			again = append(again, r)
		}
	}
	return again
}

// inventory lists the collectable objects of a store. It takes about 200 bytes per object.
type inventory struct {
	nodes map[storage.Key]*storedNode
	// others are logs, records and sources.
	others []storage.Object
}

// storedNode holds the objects of a node in the store. Its age is that of its youngest object, because that
// may belong to an attempt that is about to commit.
type storedNode struct {
	commit *storage.Object
	blobs  []storage.Object
	// unfinished holds the partial state of a running task.
	unfinished []storage.Object
	newest     time.Time
}

func (n *storedNode) objects() []storage.Object {
	var all []storage.Object
	if n.commit != nil {
		all = append(all, *n.commit) // first, so that a done node never lacks blobs
	}
	return slices.Concat(all, n.blobs, n.unfinished)
}

// collectedKinds are the kinds of objects in the order in which they are listed. Blobs come before commits,
// so that a node committed in between looks younger than it is, not older.
var collectedKinds = []storage.ObjectKind{
	storage.BlobObject, storage.UnfinishedObject, storage.CommitObject, storage.LogObject, storage.RecordObject, storage.SourceObject,
}

func (c *Collector) takeInventory(ctx context.Context) (*inventory, error) {
	inv := &inventory{nodes: make(map[storage.Key]*storedNode)}
	for _, kind := range collectedKinds {
		for o, err := range c.Archive.Objects(ctx, kind) {
			if err != nil {
				return nil, err
			}
			inv.add(o)
		}
	}
	return inv, nil
}

func (inv *inventory) add(o storage.Object) {
	if !o.OfNode() {
		inv.others = append(inv.others, o)
		return
	}
	n := inv.nodes[o.Key]
	if n == nil {
		n = &storedNode{}
		inv.nodes[o.Key] = n
	}
	if o.Modified.After(n.newest) {
		n.newest = o.Modified
	}
	switch o.Kind { //nolint:exhaustive // other kinds belong to no node
	case storage.CommitObject:
		n.commit = &o
	case storage.UnfinishedObject:
		n.unfinished = append(n.unfinished, o)
	default:
		n.blobs = append(n.blobs, o)
	}
}
