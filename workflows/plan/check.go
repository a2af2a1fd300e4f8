package plan

import (
	"errors"
	"fmt"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
)

// Check returns an error that lists every inconsistency of the plan: a reference to a node or a chain that
// it does not contain, needs that differ from a spec's inputs, a step beyond its chain, a cycle. It is nil
// for every plan that is built properly.
func (p *Plan) Check() error {
	c := checker{plan: p}
	for _, key := range SortedKeys(p.Nodes) {
		c.node(key, p.Nodes[key])
	}
	for _, recipe := range SortedKeys(p.Chains) {
		c.chain(recipe, p.Chains[recipe])
	}
	names := make(map[string]bool)
	for _, cell := range p.Cells {
		if names[cell.Name] {
			c.report("two cells are named %q", cell.Name)
		}
		names[cell.Name] = true
		c.ref(func() string { return "report of cell " + cell.Name }, cell.Report)
		c.ref(func() string { return "model of cell " + cell.Name }, cell.Model)
		c.tail(&cell)
	}
	if len(c.problems) == 0 {
		c.cycles()
	}
	return errors.Join(c.problems...)
}

type checker struct {
	plan     *Plan
	problems []error
	state    map[any]visit // by *Node or *Chain
}

type visit int

const (
	unseen visit = iota
	open
	closed
)

// naming returns the name of a problem's subject. It is called only for a problem, because a plan may have
// a million nodes.
type naming func() string

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf("plan: "+format, args...))
}

func (c *checker) node(key storage.Key, n *Node) {
	name := func() string { return fmt.Sprintf("node %s (%s)", key.Short(), n.Label) }
	if n.Key != key {
		c.report("%s is indexed by another key, %s", name(), n.Key.Short())
	}
	c.needs(name, n.Inputs, n.Needs)
}

func (c *checker) chain(recipe storage.Key, ch *Chain) {
	name := "chain " + recipe.Short()
	switch {
	case ch.Recipe != recipe:
		c.report("%s is indexed by another recipe, %s", name, ch.Recipe.Short())
	case ch.Steps < 1:
		c.report("%s has %d steps, want at least 1", name, ch.Steps)
	case ch.Width < 0 || ch.Every < 0 || ch.KeepLast < 0:
		c.report("%s has a negative width or retention: %d, %d, %d", name, ch.Width, ch.Every, ch.KeepLast)
	case !slices.IsSorted(ch.Keep):
		c.report("%s keeps steps %v, want them ascending", name, ch.Keep)
	}
	c.ref(func() string { return "origin of " + name }, ch.Origin)
	c.needs(func() string { return "join of " + name }, ch.Join.Inputs, ch.Join.Needs)
	if ch.Width > 0 {
		c.needs(func() string { return "parts of " + name }, ch.Part.Inputs, ch.Part.Needs)
	}
}

// tail checks that the tail of a training follows its chain, and is a separate node.
func (c *checker) tail(cell *Cell) {
	switch tail := cell.Tail; {
	case tail == Tail{}:
	case tail.Rounds < 0 || tail.After < 0 || cell.Model.Chain != nil:
		c.report("the training of cell %s ends with %d steps after step %d of its chain, want a node after it", cell.Name, tail.Rounds, tail.After)
	case tail.Rounds > 0 && c.plan.Nodes[tail.Node.Key] == nil:
		c.report("the training of cell %s ends with node %s, which the plan does not contain", cell.Name, tail.Node.Key.Short())
	case tail.After > 0 && (cell.Chain == nil || tail.After > cell.Chain.Steps):
		c.report("the training of cell %s ends after step %d, which its chain does not have", cell.Name, tail.After)
	}
}

func (c *checker) needs(name naming, inputs []tasks.Input, needs []Ref) {
	if len(inputs) != len(needs) {
		c.report("%s has %d inputs and %d needs", name(), len(inputs), len(needs))
		return
	}
	for i, need := range needs {
		if inputs[i].Key != need.Key {
			c.report("input %q of %s is node %s, but its need is %s", inputs[i].Name, name(), inputs[i].Key.Short(), need.Key.Short())
		}
		c.ref(func() string { return fmt.Sprintf("input %q of %s", inputs[i].Name, name()) }, need)
	}
}

func (c *checker) ref(name naming, r Ref) {
	switch {
	case r.Chain == nil && c.plan.Nodes[r.Key] == nil:
		c.report("%s is node %s, which the plan does not contain", name(), r.Key.Short())
	case r.Chain == nil:
	case c.plan.Chains[r.Chain.Recipe] == nil:
		c.report("%s is a step of chain %s, which the plan does not contain", name(), r.Chain.Recipe.Short())
	case r.Step < 1 || r.Step > r.Chain.Steps:
		c.report("%s is step %d of a chain of %d steps", name(), r.Step, r.Chain.Steps)
	case r.Key != r.Chain.Key(r.Step):
		c.report("%s has key %s, step %d has %s", name(), r.Key.Short(), r.Step, r.Chain.Key(r.Step).Short())
	}
}

func (c *checker) cycles() {
	c.state = make(map[any]visit)
	for _, key := range SortedKeys(c.plan.Nodes) {
		c.visit(Ref{Key: key})
	}
	for _, recipe := range SortedKeys(c.plan.Chains) {
		c.visit(Ref{Chain: c.plan.Chains[recipe], Step: 1})
	}
}

// visit walks a chain as if it were one node, because other nodes use it like one.
func (c *checker) visit(r Ref) {
	var self any
	var needs []Ref
	if r.Chain == nil {
		n := c.plan.Nodes[r.Key]
		self, needs = n, n.Needs
	} else {
		ch := c.plan.Chains[r.Chain.Recipe]
		self, needs = ch, ch.StandingNeeds()
	}
	switch c.state[self] {
	case unseen:
	case closed:
		return
	case open:
		c.report("node %s depends on itself", r.Key.Short())
		return
	}
	c.state[self] = open
	for _, need := range needs {
		c.visit(need)
	}
	c.state[self] = closed
}
