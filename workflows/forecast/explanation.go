// This file determines which nodes of a plan would run if it were submitted now, and why. It queries
// storage as a coordinator does, in the same order: from the cells' targets back to the nearest available
// outputs (invariant 6). It changes nothing.

package forecast

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/storage"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs/retention"
)

// Explanation tells which nodes of a plan would run.
type Explanation struct {
	Cells []Cell
	// Nodes are the plan's standing nodes by key.
	Nodes map[storage.Key]Node
	// Chains are the plan's trainings by recipe.
	Chains map[storage.Key]*Chain
}

// Disposition is the treatment of a node when its plan is run.
type Disposition string

// Dispositions of nodes.
const (
	// Cached nodes do not run.
	Cached Disposition = "cached"
	// ToRun nodes run, or run again.
	ToRun Disposition = "run"
	// NotNeeded nodes have outputs that no node reads, because their readers' outputs are cached. Storage
	// was not asked for them.
	NotNeeded Disposition = "not needed"
)

// Node is a standing node.
type Node struct {
	Kind, Label string
	Disposition Disposition
	// Why is the reason why the node runs: it is not committed, or its blobs are evicted.
	Why string
}

// Chain is a training.
type Chain struct {
	// Frontier is the highest step reached so far, or 0.
	Frontier int
	// Steps is the number of steps that the plan's cells need.
	Steps int
	// StepRounds is the number of rounds, or steps of SGD, in one step.
	StepRounds int
	// Width is the number of parts that run in parallel before the last task of a step.
	Width int
	// Passes are the steps to run, ascending. The list is empty if the training is cached.
	Passes []Pass
}

// Pass is the range of steps From+1 to To, which run from the checkpoint at From; 0 is the initial model.
type Pass struct{ From, To int }

// StepsToRun returns the number of steps in all passes.
func (c *Chain) StepsToRun() int {
	n := 0
	for _, p := range c.Passes {
		n += p.To - p.From
	}
	return n
}

// TasksToRun returns the number of distinct tasks to run.
func (p *Explanation) TasksToRun() int {
	total := 0
	for _, n := range p.Nodes {
		if n.Disposition == ToRun {
			total++
		}
	}
	for _, c := range p.Chains {
		total += c.StepsToRun() * (c.Width + 1)
	}
	return total
}

// PassText describes the training from one round, or step of SGD, to another.
func PassText(from, to int) string {
	if from == 0 {
		return readable.Count(to, "step") + " from scratch"
	}
	return fmt.Sprintf("to %d from the checkpoint at %d", to, from)
}

// Reasons describes the trainings to run and why. It returns nil if there are none.
func (c *Chain) Reasons() []string {
	var why []string
	for _, p := range c.Passes {
		verb := "train"
		if p.To <= c.Frontier {
			verb = "replay"
		}
		why = append(why, verb+" "+PassText(p.From*c.StepRounds, p.To*c.StepRounds))
	}
	return why
}

// Cell is a cell with its nodes in groups.
type Cell struct {
	Name, Label string
	// Cached reports whether the cell needs no run.
	Cached bool
	// Groups count the cell's standing nodes by kind, ordered by the names of the kinds.
	Groups []Group
	// Training is the cell's chain, or nil without training.
	Training *Chain
	// Apart are the chains that produce the cell's data or on which its audits depend.
	Apart []*Chain
}

// Group counts the nodes of one kind in a cell.
type Group struct {
	Kind     string `json:"kind"`
	Cached   int    `json:"cached"`
	ToRun    int    `json:"to_run"`
	Unneeded int    `json:"unneeded"`
	// Why holds the distinct reasons of the nodes to run.
	Why []string `json:"why"`
}

// Explain determines which nodes would run if a plan were submitted now. It queries storage only about relevant
// nodes.
func Explain(ctx context.Context, p *plan.Plan, archive *storage.Archive) (*Explanation, error) {
	x := explainer{archive: archive, plan: p, out: &Explanation{
		Nodes: make(map[storage.Key]Node), Chains: make(map[storage.Key]*Chain),
	}, have: make(map[storage.Key][]int), wanted: make(map[storage.Key]map[int]bool)}
	if err := x.walk(ctx); err != nil {
		return nil, fmt.Errorf("explaining the plan: %w", err)
	}
	x.passes()
	x.out.Cells = lists.Map(p.Cells, x.cell)
	return x.out, nil
}

type explainer struct {
	archive *storage.Archive
	plan    *plan.Plan
	out     *Explanation
	have    map[storage.Key][]int        // available steps of surveyed chains
	wanted  map[storage.Key]map[int]bool // needed steps
}

// walk visits the nodes that the targets need, level by level.
func (x *explainer) walk(ctx context.Context) error {
	var level []plan.Ref
	for _, c := range x.plan.Cells {
		level = append(level, c.Report, c.Model)
	}
	for len(level) > 0 {
		next, err := x.level(ctx, level)
		if err != nil {
			return err
		}
		level = next
	}
	return nil
}

// level queries the new nodes of a level, and returns the needs of the nodes to run.
func (x *explainer) level(ctx context.Context, refs []plan.Ref) ([]plan.Ref, error) {
	next, err := x.standing(ctx, refs)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref.Chain == nil {
			continue
		}
		needs, err := x.step(ctx, ref)
		if err != nil {
			return nil, err
		}
		next = append(next, needs...)
	}
	return next, nil
}

// standing queries standing nodes concurrently.
func (x *explainer) standing(ctx context.Context, refs []plan.Ref) (needs []plan.Ref, err error) {
	var fresh []*plan.Node
	var keys []storage.Key
	for _, ref := range refs {
		if ref.Chain == nil && x.out.Nodes[ref.Key].Disposition == "" {
			n := x.plan.Nodes[ref.Key]
			fresh, keys = append(fresh, n), append(keys, n.Key)
			x.out.Nodes[ref.Key] = Node{n.Kind, n.Label, Cached, ""}
		}
	}
	found, err := plan.LookUpAll(ctx, x.archive, keys)
	if err != nil {
		return nil, err
	}
	for i, n := range fresh {
		if !found[i].Available() {
			x.out.Nodes[n.Key] = Node{n.Kind, n.Label, ToRun, found[i].Reason()}
			needs = append(needs, n.Needs...)
		}
	}
	return needs, nil
}

// step records a needed checkpoint, and returns the needs of its chain.
func (x *explainer) step(ctx context.Context, ref plan.Ref) ([]plan.Ref, error) {
	recipe := ref.Chain.Recipe
	if x.wanted[recipe] == nil {
		x.wanted[recipe] = make(map[int]bool)
		if err := x.survey(ctx, x.plan.Chains[recipe]); err != nil {
			return nil, err
		}
	}
	if x.wanted[recipe][ref.Step] {
		return nil, nil
	}
	x.wanted[recipe][ref.Step] = true
	base := nearestIn(x.have[recipe], ref.Step)
	switch {
	case base == ref.Step:
		return nil, nil
	case base > 0:
		return ref.Chain.StepNeeds(), nil
	}
	return ref.Chain.StandingNeeds(), nil
}

func (x *explainer) survey(ctx context.Context, c *plan.Chain) error {
	goals := map[int]bool{c.Steps: true}
	for _, cell := range x.plan.Cells {
		addGoal(goals, c, cell.Model, cell.Report)
	}
	for _, n := range x.plan.Nodes {
		addGoal(goals, c, n.Needs...)
	}
	surveyor := plan.NewSurveyor(x.archive, c, retention.ClaimOf(c).StepsKept)
	stored, err := surveyor.Survey(ctx, c.Steps, slices.Sorted(maps.Keys(goals)))
	x.have[c.Recipe] = stored.Checkpoints
	x.out.Chains[c.Recipe] = &Chain{Frontier: stored.Frontier, Steps: c.Steps, StepRounds: c.StepRounds, Width: c.Width}
	return err
}

func addGoal(goals map[int]bool, c *plan.Chain, refs ...plan.Ref) {
	for _, ref := range refs {
		if ref.Chain != nil && ref.Chain.Recipe == c.Recipe {
			goals[ref.Step] = true
		}
	}
}

// nearestIn returns the highest of the steps that is at most step, or 0.
func nearestIn(steps []int, step int) int {
	i, found := slices.BinarySearch(steps, step)
	switch {
	case found:
		return step
	case i == 0:
		return 0
	}
	return steps[i-1]
}

// passes determines the steps to run from the needed steps.
func (x *explainer) passes() {
	for recipe, c := range x.out.Chains {
		have := slices.Clone(x.have[recipe])
		for _, step := range slices.Sorted(maps.Keys(x.wanted[recipe])) {
			from := nearestIn(have, step)
			if from == step {
				continue
			}
			if last := len(c.Passes) - 1; last >= 0 && c.Passes[last].To == from {
				c.Passes[last].To = step
			} else {
				c.Passes = append(c.Passes, Pass{from, step})
			}
			have = slices.Compact(slices.Sorted(slices.Values(append(have, step))))
		}
	}
}

// cell summarizes the nodes of a cell.
func (x *explainer) cell(c plan.Cell) Cell {
	out := Cell{Name: c.Name, Label: c.Label, Cached: true}
	nodes, chains := x.plan.Needed(c.Report, c.Model)
	slices.SortFunc(nodes, func(a, b *plan.Node) int { return a.Key.Compare(b.Key) })
	slices.SortFunc(chains, func(a, b *plan.Chain) int { return a.Recipe.Compare(b.Recipe) })
	for _, chain := range chains {
		if ch := x.out.Chains[chain.Recipe]; ch != nil && (c.Chain == nil || chain.Recipe != c.Chain.Recipe) {
			out.Apart = append(out.Apart, ch)
		}
	}
	groups := make(map[string]*Group)
	for _, n := range nodes {
		if groups[n.Kind] == nil {
			groups[n.Kind] = &Group{Kind: n.Kind, Why: []string{}}
		}
		groups[n.Kind].add(x.out.Nodes[n.Key])
		out.Cached = out.Cached && x.out.Nodes[n.Key].Disposition != ToRun
		if x.out.Nodes[n.Key].Disposition == "" {
			x.out.Nodes[n.Key] = Node{n.Kind, n.Label, NotNeeded, ""}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		out.Groups = append(out.Groups, *groups[kind])
	}
	if c.Chain != nil {
		out.Training = x.out.Chains[c.Chain.Recipe]
		out.Cached = out.Cached && (out.Training == nil || len(out.Training.Passes) == 0)
	}
	return out
}

func (g *Group) add(n Node) {
	switch n.Disposition {
	case Cached:
		g.Cached++
	case ToRun:
		g.ToRun++
		if !slices.Contains(g.Why, n.Why) {
			g.Why = append(g.Why, n.Why)
		}
	case NotNeeded:
		g.Unneeded++
	}
}
