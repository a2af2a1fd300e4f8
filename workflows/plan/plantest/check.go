package plantest

import (
	"errors"
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/workflows/plan"
)

// Check returns the inconsistencies of a plan: a reference to a node or chain that it lacks, needs that
// differ from a spec's inputs, a step beyond its chain, a cycle.
func Check(p *plan.Plan) error {
	c := checker{Plan: p, state: make(map[storage.Key]visit)}
	for key, n := range p.Nodes {
		if n.Key != key {
			c.report("node %s is filed under another key", n.Label)
		}
		c.needs(n.Label, n.Inputs, n.Needs)
	}
	for recipe, ch := range p.Chains {
		if ch.Recipe != recipe || ch.Steps < 1 {
			c.report("chain %s has %d steps and recipe %s", recipe.Short(), ch.Steps, ch.Recipe.Short())
		}
		c.ref("the first step of a chain", ch.Origin)
		c.needs("the join of a chain", ch.Join.Inputs, ch.Join.Needs)
		if ch.Width > 0 {
			c.needs("the parts of a chain", ch.Part.Inputs, ch.Part.Needs)
		}
	}
	names := make(map[string]bool)
	for _, cell := range p.Cells {
		if names[cell.Name] {
			c.report("two cells are named %q", cell.Name)
		}
		names[cell.Name] = true
		c.ref(cell.Name, cell.Report)
		c.ref(cell.Name, cell.Model)
		if tail := cell.Tail; tail.Rounds > 0 {
			c.ref(cell.Name, tail.Node)
		}
		if after := cell.Tail.After; after > 0 && (cell.Chain == nil || after > cell.Chain.Steps) {
			c.report("the training of cell %s ends after step %d, which its chain does not have", cell.Name, after)
		}
	}
	if len(c.problems) == 0 {
		for key := range p.Nodes {
			c.visit(plan.Ref{Key: key})
		}
		for _, ch := range p.Chains {
			c.visit(plan.Ref{Chain: ch, Step: 1})
		}
	}
	return errors.Join(c.problems...)
}

type checker struct {
	*plan.Plan
	problems []error
	state    map[storage.Key]visit // by key of a node or recipe of a chain
}

type visit int

const (
	unseen visit = iota
	open
	closed
)

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf("plan: "+format, args...))
}

func (c *checker) needs(of string, inputs []tasks.Input, needs []plan.Ref) {
	if len(inputs) != len(needs) {
		c.report("%s has %d inputs and %d needs", of, len(inputs), len(needs))
		return
	}
	for i, need := range needs {
		if inputs[i].Key != need.Key {
			c.report("input %q of %s is node %s, its need is %s", inputs[i].Name, of, inputs[i].Key.Short(), need.Key.Short())
		}
		c.ref(of, need)
	}
}

func (c *checker) ref(of string, r plan.Ref) {
	switch {
	case r.Chain == nil && c.Nodes[r.Key] == nil, r.Chain != nil && c.Chains[r.Chain.Recipe] == nil:
		c.report("%s needs %s, which the plan does not hold", of, r.Key.Short())
	case r.Chain != nil && (r.Step < 1 || r.Step > r.Chain.Steps || r.Key != r.Chain.Key(r.Step)):
		c.report("%s needs step %d of a chain of %d steps, with key %s", of, r.Step, r.Chain.Steps, r.Key.Short())
	}
}

// visit walks a chain as if it were one node, as the other nodes use it.
func (c *checker) visit(r plan.Ref) {
	self := r.Key
	var needs []plan.Ref
	if r.Chain == nil {
		needs = c.Nodes[self].Needs
	} else {
		self = r.Chain.Recipe
		needs = c.Chains[self].StandingNeeds()
	}
	switch c.state[self] {
	case unseen:
	case closed:
		return
	case open:
		c.report("node %s needs itself in the end", r.Key.Short())
		return
	}
	c.state[self] = open
	for _, need := range needs {
		c.visit(need)
	}
	c.state[self] = closed
}
