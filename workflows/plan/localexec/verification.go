// This file executes nodes of a run again and compares their outputs with the stored ones. It tests on real
// runs that a task is a pure function.
//
// A node is executed in this process, from inputs that are read from the store. Inputs that are evicted or
// damaged are recomputed in memory. Verification stores nothing.

package localexec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"coalmine/internal/goroutines"

	"coalmine/internal/secrets"
	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/clientprograms"
	"coalmine/workflows/plan"
)

// Verdict is the result of executing a node again.
type Verdict string

// The verdicts on a node. All but Same, Incomparable and MayDiffer are faults.
const (
	// Same means that all digests and metrics equal those of the commit.
	Same Verdict = "same"
	// Differs means that the node's bytes differ from the committed ones.
	Differs Verdict = "differs"
	// Damaged means that the commit or a blob has changed since it was stored.
	Damaged Verdict = "damaged"
	// Failed means that the node cannot be executed.
	Failed Verdict = "failed"
	// Incomparable means that the commit is of another architecture, which need not give the same bytes.
	// The node was not executed.
	Incomparable Verdict = "incomparable"
	// MayDiffer means that the node's bytes differ from the committed ones, but it is an external command
	// that was not declared deterministic.
	MayDiffer Verdict = "may-differ"
)

// Fault reports whether the verdict is a fault.
func (v Verdict) Fault() bool { return v != Same && v != Incomparable && v != MayDiffer }

// Node is the verdict on one node.
type Node struct {
	Key     storage.Key `json:"key"`
	Kind    string      `json:"kind"`
	Label   string      `json:"label"`
	Verdict Verdict     `json:"verdict"`
	// Why describes the difference, with both digests, or another fault.
	Why string `json:"why,omitempty"`
	// Attempt and Committed are the attempt and the provenance of the commit.
	Attempt   string             `json:"attempt,omitempty"`
	Committed storage.Provenance `json:"committed"`
	// Executed is the number of tasks that ran for the verdict, including replays.
	Executed int     `json:"executed"`
	Seconds  float64 `json:"seconds"`
}

// Verifier executes nodes of one run.
type Verifier struct {
	Archive *storage.Archive
	Plan    *plan.Plan
	Kinds   tasks.Registry
	// Keys holds the keys of trainings with secret randomness. It may be nil.
	Keys *secrets.Keyring
	// Clients runs the programs that train clients; nil disables them.
	Clients clientprograms.Runner
	// Write names directories that commands may write to, in addition to their own.
	Write []string
	// Here is the provenance of this process, to compare with that of the commits.
	Here storage.Provenance
	// Parallel is the number of nodes executed at once. Default: one per core.
	Parallel int
	// Begin, if not nil, is called as each task of a node begins. Done, if not nil, is called with each
	// verdict. Calls do not overlap.
	Begin func(task, node string)
	Done  func(Node)
}

// Candidates returns the committed nodes of the run in a fixed order: standing nodes by key, then the steps
// of each training with records that last.
func (v *Verifier) Candidates(ctx context.Context) ([]plan.Ref, error) {
	var refs []plan.Ref
	for _, key := range plan.SortedKeys(v.Plan.Nodes) {
		refs = append(refs, plan.Ref{Key: key})
	}
	for _, recipe := range plan.SortedKeys(v.Plan.Chains) {
		c := v.Plan.Chains[recipe]
		for _, step := range c.LastingSteps() {
			refs = append(refs, c.At(step))
		}
	}
	committed := make([]bool, len(refs))
	err := goroutines.Each(ctx, len(refs), 16, func(ctx context.Context, i int) (err error) {
		committed[i], err = v.Archive.HasCommit(ctx, refs[i].Key)
		return err
	})
	if err != nil {
		return nil, err
	}
	var found []plan.Ref
	for i, r := range refs {
		if committed[i] {
			found = append(found, r)
		}
	}
	return found, nil
}

// Sample draws n of the candidates without replacement, and returns them in their order. The same seed and
// candidates give the same sample.
func Sample(candidates []plan.Ref, n int, seed uint64) []plan.Ref {
	drawn := seeds.Stream(seed, seeds.Verification).Perm(len(candidates))
	drawn = drawn[:min(n, len(drawn))]
	slices.Sort(drawn)
	var sample []plan.Ref
	for _, i := range drawn {
		sample = append(sample, candidates[i])
	}
	return sample
}

// Verify executes the nodes and returns the verdicts in their order. Its errors come from the store or ctx.
func (v *Verifier) Verify(ctx context.Context, nodes []plan.Ref) ([]Node, error) {
	out := make([]Node, len(nodes))
	var mu sync.Mutex
	err := goroutines.Each(ctx, len(nodes), max(1, cmp.Or(v.Parallel, runtime.GOMAXPROCS(0))), func(ctx context.Context, i int) (err error) {
		begun := time.Now()
		out[i], err = v.verify(ctx, nodes[i], &mu)
		out[i].Seconds = time.Since(begun).Seconds()
		if err == nil && v.Done != nil {
			mu.Lock()
			defer mu.Unlock()
			v.Done(out[i])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (v *Verifier) verify(ctx context.Context, r plan.Ref, mu *sync.Mutex) (Node, error) {
	out := Node{Key: r.Key, Kind: v.kind(r), Label: v.label(r)}
	commit, err := v.Archive.Committed(ctx, r.Key)
	if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrNotFound) {
		out.Verdict, out.Why = Damaged, err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Attempt, out.Committed = commit.Attempt, commit.Provenance
	if !commit.Provenance.Comparable(v.Here) {
		out.Verdict, out.Why = Incomparable, fmt.Sprintf("committed on %s, this is %s", commit.Provenance.Arch, v.Here.Arch)
		return out, nil
	}
	damage, err := v.damage(ctx, commit)
	if err != nil {
		return out, err
	}
	x := New(v.Plan, v.Kinds)
	x.Runner.Keys, x.Runner.Clients, x.Runner.Writable = v.Keys, v.Clients, v.Write
	x.UseStored(v.Archive)
	x.Begin = func(s tasks.Spec) {
		out.Executed++
		if v.Begin != nil {
			mu.Lock()
			defer mu.Unlock()
			v.Begin(describe(s), out.Label)
		}
	}
	again, err := x.Execute(ctx, r)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case errors.Is(err, tasks.ErrNoKind):
		out.Verdict, out.Why = Failed, fmt.Sprintf("%v; verify with coalmine %s, the version that committed it", err, cmp.Or(commit.Provenance.Version, "of another version"))
	case err != nil:
		out.Verdict, out.Why = Failed, err.Error()
	case commit.Differs(again) != "" && commit.Provenance.MayDiffer:
		out.Verdict, out.Why = MayDiffer, "executed again, "+commit.Differs(again)
	case commit.Differs(again) != "":
		out.Verdict, out.Why = Differs, "executed again, "+commit.Differs(again)
	case damage != "":
		out.Verdict, out.Why = Damaged, damage
	default:
		out.Verdict = Same
	}
	return out, nil
}

// damage describes a stored blob of a node that differs from its commit, or returns "".
func (v *Verifier) damage(ctx context.Context, commit *storage.Commit) (string, error) {
	for _, b := range commit.Blobs {
		_, err := v.Archive.ReadBlob(ctx, commit.Key, b)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			return err.Error(), nil
		case err != nil && !errors.Is(err, storage.ErrNotFound): // evicted
			return "", err
		}
	}
	return "", nil
}

func (v *Verifier) kind(r plan.Ref) string {
	if r.Chain != nil {
		return r.Chain.Join.Kind.Name
	}
	return v.Plan.Nodes[r.Key].Kind
}

func (v *Verifier) label(r plan.Ref) string {
	if r.Chain != nil {
		return fmt.Sprintf("step %d of training %s", r.Step, r.Chain.Recipe.Short())
	}
	return v.Plan.Nodes[r.Key].Label
}

// describe names a task that begins.
func describe(s tasks.Spec) string {
	if s.Step > 0 {
		return fmt.Sprintf("%s at step %d", s.Kind, s.Step)
	}
	return s.Kind
}
