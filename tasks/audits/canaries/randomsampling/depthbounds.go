package randomsampling

import "coalmine/models"

// typicalReferences is the number of references, spread over the set, whose states are
// typical of a model after a prefix and so many words. It changes no result.
const typicalReferences = 128

// depthBounds are the bounds of the normaliser after one prefix, others at each depth of
// the prefix tree: tight near the states that are typical there.
type depthBounds struct {
	tables     *models.Tables
	typical    []*models.States           // by depth: the prefix's state, then those of some references
	normaliser []*models.NormaliserBounds // by depth; nil until needed
}

// newDepthBounds finds the typical states among those that references make of a state.
func newDepthBounds(tables *models.Tables, state *models.States, references *References) (*depthBounds, error) {
	b := &depthBounds{tables: tables, typical: []*models.States{state}, normaliser: make([]*models.NormaliserBounds, references.length)}
	n := min(typicalReferences, references.Count())
	from, words := make([]int, n), make([]int32, n)
	for depth := range references.length - 1 {
		next := new(models.States)
		if err := next.Gather(b.typical[depth], from); err != nil {
			return nil, err
		}
		for i := range words {
			words[i] = references.row(i * references.Count() / n)[depth]
		}
		if err := tables.Scorer().Step(next, words); err != nil {
			return nil, err
		}
		b.typical = append(b.typical, next)
		for i := range from {
			from[i] = i
		}
	}
	return b, nil
}

// at returns the bounds after so many words.
func (b *depthBounds) at(depth int) (*models.NormaliserBounds, error) {
	if b.normaliser[depth] == nil {
		made, err := b.tables.NormaliserBounds(b.typical[depth])
		if err != nil {
			return nil, err
		}
		b.normaliser[depth] = made
	}
	return b.normaliser[depth], nil
}
