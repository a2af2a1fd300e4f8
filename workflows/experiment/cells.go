package experiment

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"coalmine/internal/goroutines"

	"coalmine/storage"
)

// candidate is a cell before the decision whether the grid keeps it.
type candidate struct {
	Cell
	point    int // of the grid
	problems problems
}

// cells expands the grid. It also returns cells with mistakes, as far as they could be read.
func (g *grid) cells(limit int, ps *problems) []Cell {
	count := g.cellCount(limit)
	if count > limit {
		ps.add(g.at, "grid", "has more than %d cells; use fewer values, or raise the limit (--max-cells)", limit)
		return nil
	}
	var kept []*candidate
	used := make([]bool, len(g.exclude))
	for _, c := range g.candidates(count) {
		if !g.excludes(c, used) {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 && len(g.exclude) > 0 {
		ps.add(g.at, "grid", "is empty: exclude removes every cell")
	}
	g.nameRows(kept)
	cells := make([]Cell, len(kept))
	for i, c := range kept {
		c.Index, c.Cell.Name = i, cellName(i, len(kept))
		cells[i] = c.Cell
		ps.addCell(&c.Cell, &c.problems)
	}
	if len(ps.found) == 0 {
		g.unused(used, ps)
		g.duplicates(cells, ps)
	}
	return cells
}

// candidates builds and checks the first cells concurrently. All points with the first seed precede
// those with the second: a further seed adds cells at the end.
func (g *grid) candidates(count int) []*candidate {
	all, points := make([]*candidate, count), count/max(1, len(g.replicates))
	group := goroutines.NewGroup()
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all {
		group.Go(func() error {
			all[i] = g.candidate(i%points, i/points)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		panic(err) // Parse returns it; mistakes of candidates are recorded elsewhere
	}
	return all
}

// candidate builds and checks the cell of a point and a replicate.
func (g *grid) candidate(point, replicate int) *candidate {
	c := &candidate{Cell: Cell{Axes: Axes{}, tree: g.body}, point: point}
	values := g.point(point)
	if len(g.replicates) > 0 {
		values = append(slices.Clip(values), g.replicates[replicate])
	}
	for _, v := range values {
		c.tree = merge(c.tree, nest(v.path, v.at, v.value))
		c.Axes = append(c.Axes, Axis{v.path, v.json})
	}
	c.tree = implied(c.tree)
	d := newDecoder(&c.problems)
	d.bad = slices.Clip(g.refused)
	d.block(c.tree, reflect.ValueOf(&c.Experiment).Elem(), experimentType, "")
	d.complete(&c.Experiment)
	d.relations(&c.Experiment, c.tree)
	return c
}

// excludes reports whether the grid excludes a cell, and marks the rule as used.
func (g *grid) excludes(c *candidate, used []bool) bool {
	if len(g.exclude) == 0 {
		return false
	}
	values, excluded := leafValues(&c.Experiment), false
	for i := range g.exclude {
		if g.exclude[i].matchesAll(values) {
			used[i], excluded = true, true
		}
	}
	return excluded
}

func (g *grid) unused(used []bool, ps *problems) {
	for i, x := range g.exclude {
		if !used[i] {
			ps.add(x.at, "grid.exclude", "matches no cell; remove it, or correct its values")
		}
	}
}

// duplicates finds cells with equal experiments: a value without effect would produce two equal
// rows.
func (g *grid) duplicates(cells []Cell, ps *problems) {
	first := make(map[storage.Digest]*Cell, len(cells))
	for i := range cells {
		c := &cells[i]
		digest := c.Experiment.Digest()
		if same := first[digest]; same != nil {
			ps.add(g.at, "grid", "gives the same cell twice: %s and %s; exclude one of them", same.describe(), c.describe())
			continue
		}
		first[digest] = c
	}
}

// describe names a cell with the values that define it.
func (c *Cell) describe() string {
	if len(c.Axes) == 0 {
		return c.Name
	}
	return fmt.Sprintf("%s: %s", c.Name, c.Axes)
}

// addCell adds the problems of one cell.
func (ps *problems) addCell(c *Cell, list *problems) {
	for _, f := range list.found {
		ps.record(f.Problem, c.describe())
	}
}
