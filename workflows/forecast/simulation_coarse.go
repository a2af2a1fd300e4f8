package forecast

import (
	"math"

	"coalmine/storage"
	"coalmine/workflows/coordinator/graph"
	"coalmine/workflows/plan"
)

// coarsePlan is a plan in which one step stands for several steps of a training.
type coarsePlan struct {
	plan *plan.Plan
	// of holds the chains of the original plan, by recipe.
	of     map[storage.Key]*plan.Chain
	chains map[storage.Key]*plan.Chain
	each   int // original steps per step
}

// coarsen copies a plan; the copy has at most about the given number of training tasks.
func coarsen(p *plan.Plan, most int) coarsePlan {
	number := 0.0
	for _, ch := range p.Chains {
		number += float64(ch.Steps) * float64(ch.Width+1)
	}
	c := coarsePlan{of: p.Chains, chains: map[storage.Key]*plan.Chain{}, each: max(1, int(math.Ceil(number/float64(most))))}
	for recipe, ch := range p.Chains {
		c.chains[recipe] = &plan.Chain{Recipe: recipe, Steps: c.round(ch.Steps), StepRounds: ch.StepRounds, Width: ch.Width}
	}
	c.plan = &plan.Plan{Nodes: map[storage.Key]*plan.Node{}, Chains: c.chains}
	for recipe, ch := range p.Chains {
		c.chains[recipe].Origin = c.ref(ch.Origin)
		c.chains[recipe].Part, c.chains[recipe].Join = c.template(ch.Part), c.template(ch.Join)
		for _, step := range ch.Keep {
			c.chains[recipe].Keep = append(c.chains[recipe].Keep, c.round(step))
		}
	}
	for key, n := range p.Nodes {
		c.plan.Nodes[key] = &plan.Node{Spec: n.Spec, Label: n.Label, Needs: c.refs(n.Needs)}
	}
	for i := range p.Cells {
		cell := p.Cells[i]
		cell.Report, cell.Model = c.ref(cell.Report), c.ref(cell.Model)
		c.plan.Cells = append(c.plan.Cells, cell)
	}
	return c
}

// round returns the coarse step that contains a step.
func (c *coarsePlan) round(step int) int { return (step + c.each - 1) / c.each }

func (c *coarsePlan) ref(r plan.Ref) plan.Ref {
	if r.Chain == nil {
		return r
	}
	return c.chains[r.Chain.Recipe].At(c.round(r.Step))
}

func (c *coarsePlan) refs(all []plan.Ref) []plan.Ref {
	out := make([]plan.Ref, len(all))
	for i, r := range all {
		out[i] = c.ref(r)
	}
	return out
}

func (c *coarsePlan) template(t plan.Template) plan.Template {
	t.Needs = c.refs(t.Needs)
	return t
}

// repeats returns the number of original tasks that a task represents.
func (c *coarsePlan) repeats(x *graph.Task) float64 {
	ch := x.Chain()
	if ch == nil {
		return 1
	}
	return float64(c.of[ch.Recipe].Steps) / float64(c.chains[ch.Recipe].Steps)
}
