package plan

import (
	"io"
	"slices"

	"coalmine/storage"
)

// Parts yields a plan in parts, and io.EOF after the last. Each part is the complete
// plan of some cells: nodes common to several parts are in each. So a reader of the
// parts never holds all of a large plan.
type Parts func() (*Plan, error)

// Whole yields a plan as a single part.
func Whole(p *Plan) Parts {
	return func() (part *Plan, err error) {
		part, p = p, nil
		if part == nil {
			err = io.EOF
		}
		return part, err
	}
}

// Add adds the cells and the chains of another part of the same plan, without its
// standing nodes.
func (p *Plan) Add(part *Plan) {
	if p.Chains == nil {
		p.Chains = make(map[storage.Key]*Chain, len(part.Chains))
	}
	for recipe, ch := range part.Chains {
		if known := p.Chains[recipe]; known != nil {
			known.Extend(ch)
		} else {
			p.Chains[recipe] = ch
		}
	}
	p.Sources = append(p.Sources, part.Sources...)
	for _, cell := range part.Cells {
		cell.moveTo(p.Chains)
		p.Cells = append(p.Cells, cell)
	}
}

// moveTo makes the cell refer to the chains of another plan, which must have its training.
func (c *Cell) moveTo(chains map[storage.Key]*Chain) {
	if c.Chain != nil {
		c.Chain = chains[c.Chain.Recipe]
	}
	for _, ref := range []*Ref{&c.Report, &c.Model, &c.Final, &c.Initial, &c.Prepared, &c.Vocabulary, &c.Population, &c.Shards, &c.Devices} {
		if ref.Chain != nil {
			ref.Chain = chains[ref.Chain.Recipe]
		}
	}
}

// Extend merges another cell's chain of the same recipe: the longer of the two,
// with the checkpoints that either keeps.
func (c *Chain) Extend(other *Chain) {
	if other.Steps > c.Steps {
		c.Steps, c.Every, c.KeepLast = other.Steps, other.Every, other.KeepLast
	}
	c.Keep = slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Keep, other.Keep))))
}
