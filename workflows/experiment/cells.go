package experiment

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strconv"

	"coalmine/internal/goroutines"
	"coalmine/internal/readable"
	"coalmine/storage"
)

// candidate is a cell that exclude may still remove.
type candidate struct {
	Cell
	point    int // of the grid
	problems problems
}

// cells expands the grid. It also returns cells with mistakes, without the invalid values.
func (g *grid) cells(limit int, ps *problems) []Cell {
	count := g.cellCount(limit)
	if count > limit {
		ps.add(g.at, "grid", "has more than %d cells; use fewer values, or raise --max-cells", limit)
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
		ps.add(g.at, "grid", "has no cells: exclude removes all of them")
	}
	g.nameRows(kept)
	cells := make([]Cell, len(kept))
	for i, c := range kept {
		c.Index, c.Cell.Name = i, cellName(i, len(kept))
		cells[i] = c.Cell
		ps.addCell(&c.Cell, &c.problems)
	}
	if len(ps.found) == 0 {
		for i, x := range g.exclude {
			if !used[i] {
				ps.add(x.at, "grid.exclude", "matches no cell; remove it, or correct its values")
			}
		}
		g.duplicates(cells, ps)
	}
	return cells
}

// candidates concurrently builds and checks the first count cells. All points with one seed precede those with the
// next, so that a further seed adds cells at the end.
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
		panic(err) // Parse recovers it; candidates record their own mistakes
	}
	return all
}

// candidate builds and checks the cell of one point and seed.
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

// excludes reports whether a rule excludes a cell, and marks every rule that does as used.
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

// duplicates reports cells with equal experiments, which would give equal rows.
func (g *grid) duplicates(cells []Cell, ps *problems) {
	first := make(map[storage.Digest]*Cell, len(cells))
	for i := range cells {
		c := &cells[i]
		digest := c.Experiment.Digest()
		if same := first[digest]; same != nil {
			ps.add(g.at, "grid", "has two equal cells: %s and %s; exclude one of them", same.describe(), c.describe())
			continue
		}
		first[digest] = c
	}
}

// describe names a cell and the values that define it.
func (c *Cell) describe() string {
	if len(c.Axes) == 0 {
		return c.Name
	}
	return fmt.Sprintf("%s: %s", c.Name, c.Axes)
}

func (ps *problems) addCell(c *Cell, list *problems) {
	for _, f := range list.found {
		ps.record(f.Problem, c.describe())
	}
}

// Difference is a field with different values in two resolved experiments.
type Difference struct {
	// Path is the path of the field, such as training.client.learning_rate.
	Path string `json:"path"`
	// Before and After are the values, null if the field is absent.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	// Derived reports whether both values follow from other fields: a file without the field would get the same value.
	Derived bool `json:"derived,omitempty"`
}

// String returns a text such as "training.rounds: 40 -> 60".
func (d Difference) String() string {
	return readable.Text(d.Path) + ": " + plainOrNone(d.Before) + " -> " + plainOrNone(d.After)
}

func plainOrNone(value json.RawMessage) string {
	if string(value) == "null" {
		return "none"
	}
	return plain(value)
}

// Differences returns the fields that differ, in the order of the experiment file. Fields of free blocks
// come last, sorted by path.
func Differences(before, after *Experiment) []Difference {
	values := func(e *Experiment) map[string]string {
		out := make(map[string]string)
		for _, leaf := range leafValues(e) {
			out[leaf.path] = leaf.json
		}
		return out
	}
	old, now := values(before), values(after)
	out := []Difference{}
	add := func(path string) {
		if old[path] != now[path] {
			derived := before.derives(path, old[path]) && after.derives(path, now[path])
			out = append(out, Difference{path, orNull(old[path]), orNull(now[path]), derived})
		}
		delete(old, path)
		delete(now, path)
	}
	for _, path := range allPaths() {
		add(path)
	}
	free := append(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(now))...)
	slices.Sort(free)
	for _, path := range slices.Compact(free) {
		add(path)
	}
	return out
}

// derives reports whether a file without the field at path would get this JSON value for it.
func (e *Experiment) derives(path, value string) bool {
	if path == "training.rounds" && e.Training.Epochs > 0 {
		return true // they follow from the epochs and the data
	}
	root, err := nodeOf(e.asFile().Canonical(), e.Name)
	if err != nil {
		return false
	}
	if root.find(path) != nil {
		root = merge(root, nest(path, root.at, &node{kind: nullNode, at: root.at}))
	}
	var ps problems
	again := completed(root, &ps)
	leaves := leafValues(again)
	i := slices.IndexFunc(leaves, func(l leafValue) bool { return l.path == path })
	if i < 0 {
		return value == "" && len(ps.found) == 0
	}
	return leaves[i].json == value && len(ps.found) == 0
}

// completed decodes an experiment and sets its defaults.
func completed(root *node, ps *problems) *Experiment {
	d, e := newDecoder(ps), new(Experiment)
	d.block(root, reflect.ValueOf(e).Elem(), experimentType, "")
	d.complete(e)
	return e
}

func orNull(value string) json.RawMessage {
	if value == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(value)
}

// comparedCells limits the cells that SpecDifferences compares.
const comparedCells = 1000

// SpecDifferences returns the distinct differences between cells at the same point of the grid. If two grids of one
// size share no point, as after a change of the seed of replicates, it compares their cells in order. It omits derived
// fields. If the numbers of cells or only some of the points differ, a difference of the grid comes last.
func SpecDifferences(before, after *Spec) []Difference {
	out, known := []Difference{}, map[string]bool{}
	at := map[string]*Experiment{}
	for i := range before.Cells {
		at[before.point(i)] = before.Cells[i].Experiment.asFile()
	}
	moved := 0
	for i := range after.Cells {
		if at[after.point(i)] == nil {
			moved++
		}
	}
	inOrder := moved == len(after.Cells) && moved == len(before.Cells)
	for i := range min(len(after.Cells), comparedCells) {
		old := at[after.point(i)]
		if inOrder {
			old = before.Cells[i].Experiment.asFile()
		}
		if old == nil {
			continue
		}
		for _, d := range Differences(old, after.Cells[i].Experiment.asFile()) {
			if text := d.String(); !known[text] && !d.Derived {
				known[text] = true
				out = append(out, d)
			}
		}
	}
	switch old, now := len(before.Cells), len(after.Cells); {
	case old != now:
		out = append(out, gridDifference(old, readable.Count(now, "cell")))
	case moved > 0 && !inOrder:
		out = append(out, gridDifference(old, fmt.Sprintf("%s, %d at other points", readable.Count(now, "cell"), moved)))
	}
	return out
}

func gridDifference(before int, after string) Difference {
	return Difference{Path: "grid", Before: json.RawMessage(strconv.Quote(readable.Count(before, "cell"))), After: json.RawMessage(strconv.Quote(after))}
}

// point identifies a cell's point of the grid.
func (s *Spec) point(cell int) string { return s.Cells[cell].Axes.String() }
