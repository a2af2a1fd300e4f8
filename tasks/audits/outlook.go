package audits

import "coalmine/models"

// typicalReferences is how many references, spread over the set, show what a model
// typically thinks after a prefix and so many words. It shows in no result.
const typicalReferences = 128

// outlook holds the bounds for the prices after one prefix: at every depth other
// ones, tight where the model typically is by then.
type outlook struct {
	tables  *models.Tables
	typical []*models.States           // by depth: the prefix's state, then what some references make of it
	bounds  []*models.NormaliserBounds // nil until needed
}

// newOutlook looks at references after a state.
func newOutlook(tables *models.Tables, state *models.States, references *References) (*outlook, error) {
	o := &outlook{tables: tables, typical: []*models.States{state}, bounds: make([]*models.NormaliserBounds, references.length)}
	n := min(typicalReferences, references.Count())
	from, words := make([]int, n), make([]int32, n)
	for depth := range references.length - 1 {
		next := new(models.States)
		if err := next.Gather(o.typical[depth], from); err != nil {
			return nil, err
		}
		for i := range words {
			words[i] = references.row(i * references.Count() / n)[depth]
		}
		if err := tables.Scorer().Step(next, words); err != nil {
			return nil, err
		}
		o.typical = append(o.typical, next)
		for i := range from {
			from[i] = i
		}
	}
	return o, nil
}

// at returns the bounds for what follows so many words.
func (o *outlook) at(depth int) (*models.NormaliserBounds, error) {
	if o.bounds[depth] == nil {
		made, err := o.tables.NormaliserBounds(o.typical[depth])
		if err != nil {
			return nil, err
		}
		o.bounds[depth] = made
	}
	return o.bounds[depth], nil
}
