package results

import (
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/all"
	"coalmine/workflows/experiment"
)

// Row is the outcome of the cells that differ only in the seed, as far as they have finished.
type Row struct {
	// Name is the name within the run, such as "r01"; Label is for people.
	Name  string `json:"row"`
	Label string `json:"label"`
	// Axes are the axes of its cells, without the seed.
	Axes experiment.Axes `json:"axes"`
	// Cells are the names of all its cells; Seeds are the seeds of the finished cells, ascending.
	Cells []string `json:"cells"`
	Seeds []uint64 `json:"seeds"`
	// Measures are keyed by name, which is a column of the cells' rows.
	Measures map[string]RowMeasure `json:"measures"`
}

// RowMeasure is an estimate of a number over the seeds.
type RowMeasure struct {
	audits.Estimate
	// Pooled is the fraction of all seeds' canaries, if the number counts canaries.
	Pooled *audits.Share `json:"pooled,omitempty"`
}

// within returns the bounds of a number of the row. A count is at most the number of canaries.
func (m *RowMeasure) within(measure *audits.Measure) (least, most float64) {
	least, most = measure.Range()
	if m.Pooled != nil {
		most = float64(m.Pooled.Of) / float64(m.N)
	}
	return least, most
}

// viewRow is a row with all its cells, and the finished ones by seed.
type viewRow struct {
	Row
	cells []*viewCell
	done  map[uint64]*viewCell
}

// newViewRows returns the rows of the cells, ordered by name, or nil without replicates.
func newViewRows(cells []viewCell) []*viewRow {
	byName := map[string]*viewRow{}
	var rows []*viewRow
	for i := range cells {
		c := &cells[i]
		if c.Row == nil {
			continue
		}
		row := byName[c.Row.Name]
		if row == nil {
			axes, _, _ := c.Axes.Replicate()
			row = &viewRow{Row: Row{Name: c.Row.Name, Label: c.Row.Label, Axes: axes, Seeds: []uint64{}}, done: map[uint64]*viewCell{}}
			byName[c.Row.Name], rows = row, append(rows, row)
		}
		row.add(c)
	}
	slices.SortFunc(rows, func(a, b *viewRow) int { return strings.Compare(a.Name, b.Name) })
	for _, row := range rows {
		row.measure()
	}
	return rows
}

func (r *viewRow) add(c *viewCell) {
	r.cells, r.Cells = append(r.cells, c), append(r.Cells, c.Cell.Cell)
	if _, seed, ok := c.Axes.Replicate(); ok && c.Report != nil {
		r.done[seed] = c
	}
}

// measure computes the measures over the finished cells.
func (r *viewRow) measure() {
	r.Measures = map[string]RowMeasure{}
	for seed := range r.done {
		r.Seeds = append(r.Seeds, seed)
	}
	slices.Sort(r.Seeds)
	for _, m := range measures() {
		values := r.each(func(c *viewCell) (float64, bool) { return c.number(m.place, m.Name) })
		if estimate := audits.NewEstimate(values); estimate != nil {
			over := RowMeasure{*estimate, r.pooled(&m)}
			if over.Pooled != nil {
				over.Pool(*over.Pooled)
			}
			over.Clip(over.within(m.Measure))
			r.Measures[m.Name] = over
		}
	}
}

// pooled returns the counted fraction of all seeds' canaries. Canaries of one seed share a training.
func (r *viewRow) pooled(m *tableColumn) *audits.Share {
	if m.Among == "" {
		return nil
	}
	var ratio audits.Ratio
	for _, seed := range r.Seeds {
		count, counted := r.done[seed].number(m.place, m.Name)
		if total, ok := r.done[seed].number(m.place, m.Among); ok && counted {
			ratio.Add(int(count), int(total))
		}
	}
	return new(ratio.ShareOfCanaries())
}

// number returns an outcome's number in a column of its row, or false if it has none.
func (v *viewCell) number(place int, column string) (float64, bool) {
	return ofAudits().outcomes[place].number(v.outcomes[place], column)
}

// measures returns the measures with means over replicates: table columns with a unit, in the order of the
// columns of rows. Derived numbers are excluded, because the mean of guarantees is not a guarantee.
func measures() (list []tableColumn) {
	for _, place := range inColumnOrder() {
		d := &all.Audits()[place]
		for _, m := range d.TableMeasures() {
			if m.Scale != "" && d.Derive == nil {
				list = append(list, tableColumn{place: place, Measure: m})
			}
		}
	}
	return list
}

// Pairing compares two models by pairs of values for the same canary.
type Pairing struct {
	// Pairs is the number of pairs. In More of them the value of the first model is greater, in Fewer of
	// them that of the second.
	Pairs int `json:"pairs"`
	More  int `json:"more"`
	Fewer int `json:"fewer"`
	// P is the p-value of the exact sign test, which assumes independent pairs.
	P float64 `json:"p"`
	// Censored is the number of pairs with a value that is a lower bound, at the limit of the references.
	// It is nil if the values have no limit.
	Censored *int `json:"censored,omitempty"`
	// Difference is the difference of the means, first minus second, with its interval over seeds.
	Difference *audits.Estimate `json:"difference"`
}

// add counts the differences of one seed.
func (p *Pairing) add(differences []float64) {
	p.Pairs += len(differences)
	for _, d := range differences {
		switch {
		case d > 0:
			p.More++
		case d < 0:
			p.Fewer++
		}
	}
}

// NewPairing compares models by the differences of pairs, first minus second, for each seed. It returns nil
// without a pair.
func NewPairing(seeds [][]float64) *Pairing {
	var p Pairing
	var means []float64
	for _, differences := range seeds {
		if len(differences) > 0 {
			p.add(differences)
			means = append(means, stat.Mean(differences, nil))
		}
	}
	if p.Pairs == 0 {
		return nil
	}
	p.P, p.Difference = SignTest(p.More, p.Fewer), audits.NewEstimate(means)
	return &p
}

// SignTest returns the two-sided p-value if both signs are equally likely: twice the binomial tail, at most 1.
func SignTest(more, fewer int) float64 {
	return min(1, 2*audits.NewShare(max(more, fewer), more+fewer).AtLeast(0.5))
}
