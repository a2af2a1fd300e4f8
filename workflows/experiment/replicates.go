package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
)

// seedPath is the field in which replicates differ.
const seedPath = "seed"

// maxReplicates is the maximum number of seeds of a grid.
const maxReplicates = 10_000

// replicates reads the seeds for every cell of the grid: a list, or their number, starting at the
// file's seed.
func (r *gridReader) replicates(n *node) {
	r.layer++
	switch n.kind {
	case nullNode, brokenNode:
	case sequenceNode:
		r.listed = true
		r.listedSeeds(n.items)
	case scalarNode, mappingNode:
		r.countedSeeds(n)
	}
}

func (r *gridReader) listedSeeds(items []*node) {
	for _, item := range items {
		value, ok := r.pathValue(seedPath, item.at, item, "grid.replicates")
		if !ok {
			continue
		}
		if slices.ContainsFunc(r.grid.replicates, func(v pathValue) bool { return string(v.json) == string(value.json) }) {
			r.fail(item.at, "grid.replicates", "has the seed %s twice; a cell that is run again with its seed gives the same bytes", plain(value.json))
			continue
		}
		r.grid.replicates = append(r.grid.replicates, value)
	}
}

func (r *gridReader) countedSeeds(n *node) {
	count, err := strconv.Atoi(n.text)
	if n.kind != scalarNode || n.quoted || err != nil || count < 1 || count > maxReplicates {
		r.fail(n.at, "grid.replicates", "is %s; expected the number of seeds, 1 to %d, or a list of them, such as [1, 2, 3]", n.describe(), maxReplicates)
		return
	}
	first := r.firstSeed()
	f, _ := lookup(seedPath)
	for i := range uint64(count) {
		seed := &node{kind: scalarNode, at: n.at, text: strconv.FormatUint(first+i, 10)}
		mistakes := len(r.bad)
		r.value(seed, reflect.New(f.typ).Elem(), &f, seedPath)
		if len(r.bad) > mistakes {
			return // so are all later ones
		}
		r.grid.replicates = append(r.grid.replicates, pathValue{seedPath, n.at, seed.in(r.layer), canonicalValue(seed, &f)})
	}
}

// firstSeed returns the file's seed. A mistake in it is reported with the body.
func (r *gridReader) firstSeed() uint64 {
	var e Experiment
	f, _ := lookup(seedPath)
	if n := r.grid.body.get(seedPath); n != nil && n.kind != nullNode {
		newDecoder(new(problems)).value(n, reflect.ValueOf(&e.Seed).Elem(), &f, seedPath)
		return min(e.Seed, math.MaxInt64)
	}
	first, _ := strconv.ParseUint(f.fallback, 10, 64) // default of the type
	return first
}

// seedsAlone rejects other ways to set the seed together with replicates.
func (r *gridReader) seedsAlone() {
	if len(r.grid.replicates) == 0 {
		return
	}
	const reason = "stands beside grid.replicates, and both set the seed: an axis compares seeds, replicates are averaged over them; remove one of the two"
	for _, a := range r.grid.axes {
		if a.path == seedPath {
			r.fail(a.at, "grid.axes.seed", reason)
		}
	}
	for _, v := range slices.Concat(r.grid.include...) {
		if v.path == seedPath {
			r.fail(v.at, "grid.include.seed", reason)
		}
	}
	if n := r.grid.body.get(seedPath); n != nil && n.layer == overrideLayer && r.listed {
		r.fail(n.at, seedPath, "grid.replicates lists the seeds, which would win; override that, as in --set 'grid.replicates=[4, 5]'")
	}
}

// nameRows assigns a row to the cells of each point, numbered in the order of the points.
func (g *grid) nameRows(kept []*candidate) {
	if len(g.replicates) == 0 {
		return
	}
	var points []int
	for _, c := range kept {
		points = append(points, c.point)
	}
	slices.Sort(points)
	points = slices.Compact(points)
	rows := make([]Row, len(points))
	for i := range rows {
		rows[i].Name = rowName(i, len(rows))
	}
	for _, c := range kept {
		at, _ := slices.BinarySearch(points, c.point)
		c.Row = &rows[at]
	}
}

func rowName(index, count int) string { return numbered("r", index, count) }

// labelCells labels every cell and, with replicates, every row with the label of its cells without
// their seeds.
func labelCells(cells []Cell) {
	rows := firstsOfRows(cells)
	if len(rows) == 0 {
		label(cells)
		return
	}
	label(rows)
	for i := range rows {
		rows[i].Row.Label = rows[i].Label
	}
	for i := range cells {
		c := &cells[i]
		c.Label = c.Row.Label
		addPart(c, wording(seedPath, strconv.FormatUint(c.Experiment.Seed, 10)))
	}
}

// firstsOfRows returns the first cells of all rows with equal seeds, in the order of the rows; nil
// without replicates.
func firstsOfRows(cells []Cell) []Cell {
	var firsts []Cell
	seen := make(map[string]bool)
	for _, c := range cells {
		if c.Row != nil && !seen[c.Row.Name] {
			seen[c.Row.Name] = true
			c.Experiment.Seed = 0
			firsts = append(firsts, c)
		}
	}
	slices.SortFunc(firsts, func(a, b Cell) int { return cmp.Compare(a.Row.Name, b.Row.Name) }) // names have equal length
	return firsts
}

var rowPattern = regexp.MustCompile(`^r[0-9]{2,6}$`)

// checkRow reports a row of a record that does not match any grid.
func (c *Cell) checkRow() error {
	if c.Row == nil {
		return nil
	}
	_, seed, ok := c.Axes.Replicate()
	switch {
	case !rowPattern.MatchString(c.Row.Name):
		return fmt.Errorf("its row is called %.40q; expected a name such as \"r01\"", c.Row.Name)
	case len(c.Row.Label) > maxLabel:
		return fmt.Errorf("the label of its row has %d bytes; expected at most %d", len(c.Row.Label), maxLabel)
	case !ok || seed != c.Experiment.Seed:
		return fmt.Errorf("it has a row, and its seed, %d, is not the last of its axes", c.Experiment.Seed)
	}
	return nil
}

// Replicate splits the axes of a cell with a row into the axes of the row and the seed; false for
// other axes.
func (a Axes) Replicate() (row Axes, seed uint64, ok bool) {
	last := len(a) - 1
	if last < 0 || a[last].Path != seedPath {
		return a, 0, false
	}
	err := json.Unmarshal(a[last].Value, &seed)
	return a[:last:last], seed, err == nil
}
