package experiment

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"coalmine/internal/readable"
)

// seedPath is the path of the field in which replicates differ.
const seedPath = "seed"

// maxReplicates is the maximum number of seeds of a grid.
const maxReplicates = 10_000

// replicates reads the seeds of all cells: a list, or their number, beginning with the file's seed.
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
			r.fail(item.at, "grid.replicates", "has the seed %s twice; expected distinct seeds, because equal seeds give equal results", plain(value.json))
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
			return // all later seeds are invalid, too
		}
		r.grid.replicates = append(r.grid.replicates, pathValue{seedPath, n.at, seed.in(r.layer), canonicalValue(seed, &f)})
	}
}

// firstSeed returns the file's seed. Mistakes in it are reported elsewhere.
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

// seedsAlone rejects axes and other values of the seed together with replicates.
func (r *gridReader) seedsAlone() {
	if len(r.grid.replicates) == 0 {
		return
	}
	const reason = "is given together with grid.replicates, and both set the seed: an axis compares seeds, replicates are averaged over them; remove one of the two"
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
		r.fail(n.at, seedPath, "grid.replicates overrides this field with its list of seeds; change that list, as in --set 'grid.replicates=[4, 5]'")
	}
}

// nameRows assigns cells to rows, one for each point with cells, in the order of the points.
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
		rows[i].Name = numbered("r", i, len(rows))
	}
	for _, c := range kept {
		at, _ := slices.BinarySearch(points, c.point)
		c.Row = &rows[at]
	}
}

// labelCells labels all cells and, with replicates, all rows. The label of a row lacks the seed.
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

// firstsOfRows returns copies of the first cells of all rows, with seed 0, in the order of the rows. It
// returns nil without replicates.
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
	slices.SortFunc(firsts, func(a, b Cell) int { return cmp.Compare(a.Row.Name, b.Row.Name) }) // the names have the same length
	return firsts
}

var rowPattern = regexp.MustCompile(`^r[0-9]{2,6}$`)

// checkRow reports a mistake in the row of a recorded cell.
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
		return fmt.Errorf("it has a row, but its seed, %d, is not its last axis", c.Experiment.Seed)
	}
	return nil
}

// Replicate splits the axes of a cell with a row into the axes of the row and the seed. It returns false if
// the last axis is not a seed.
func (a Axes) Replicate() (row Axes, seed uint64, ok bool) {
	last := len(a) - 1
	if last < 0 || a[last].Path != seedPath {
		return a, 0, false
	}
	err := json.Unmarshal(a[last].Value, &seed)
	return a[:last:last], seed, err == nil
}

//go:embed experiment.schema.json
var schemaText []byte

// Schema returns the JSON Schema of experiment files.
func Schema() []byte { return slices.Clone(schemaText) }

// Page describes a field or block, as in the reference.
type Page struct {
	Path string `json:"path"`
	// Value describes the allowed values.
	Value string `json:"value"`
	// Default is the text of the default, "required", "depends" (on fields that Meaning names), "absent",
	// or "by field" for a block that always exists.
	Default string `json:"default"`
	Meaning string `json:"meaning"`
	// Fields are the fields of a block, in the order of the reference.
	Fields []*Page `json:"fields,omitempty"`
}

// described is a part of the schema with descriptions.
type described struct {
	Description string                `json:"description"`
	Properties  map[string]*described `json:"properties"`
	AnyOf       []*described          `json:"anyOf"`
	Definitions map[string]*described `json:"$defs"`
}

// property returns a field of a block, which may be optional or a list item. For an unknown field it is empty.
func (d *described) property(name string) *described {
	for _, form := range append([]*described{d}, d.AnyOf...) {
		if p := form.Properties[name]; p != nil {
			return p
		}
	}
	return &described{}
}

// reference returns the pages of all blocks and fields by path. The path of the experiment is "".
var reference = sync.OnceValue(func() map[string]*Page {
	var schema described
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		panic("experiment: the embedded schema: " + err.Error()) // TestEveryFieldHasAPage reads it
	}
	r := referenceBuilder{definitions: schema.Definitions, pages: map[string]*Page{}}
	root := &Page{Value: "a block of fields", Default: "by field", Meaning: schema.Description}
	r.pages[""] = root
	r.block(root, experimentType)
	r.grid(root, schema.property("grid"))
	return r.pages
})

type referenceBuilder struct {
	definitions map[string]*described
	pages       map[string]*Page
}

func (r *referenceBuilder) add(to, page *Page) {
	to.Fields = append(to.Fields, page)
	r.pages[page.Path] = page
}

// block adds the pages for the fields of a block.
func (r *referenceBuilder) block(to *Page, t reflect.Type) {
	for _, f := range fieldsOf(t) {
		page := &Page{Path: join(to.Path, f.name), Value: f.choices(), Meaning: r.meaning(to.Path, f.name)}
		page.Default = f.defaultText(page.Meaning)
		r.add(to, page)
		if inner, ok := f.block(); ok {
			r.block(page, inner)
		} else if inner, ok := f.blocks(); ok {
			r.block(page, inner)
		}
	}
}

// choices describes the values of a field, including lists.
func (f *field) choices() string {
	text := f.expected()
	_, blocks := f.blocks()
	switch {
	case f.typ.Kind() != reflect.Slice || f.typ == freeType || blocks:
		return text
	case len(f.oneOf) > 0:
		return "one or more of " + strings.TrimPrefix(text, "one of ")
	}
	return text + "; or a list of such values"
}

// meaning returns the description of a field of a block. Blocks in lists have their own descriptions or
// those of the block with the list.
func (r *referenceBuilder) meaning(block, name string) string {
	if d := r.definitions[join(block, name)]; d != nil {
		return d.Description
	}
	if list := r.definitions[block]; list != nil {
		if text := list.property(name).Description; text != "" {
			return text
		}
	}
	around, _ := cutLast(block)
	return r.pages[join(around, name)].Meaning
}

// gridFields contains the fields of the grid and descriptions of their values.
var gridFields = [][2]string{
	{"axes", "a block of lists of values, by path"}, {"include", "a list of blocks of values by path"},
	{"exclude", "a list of blocks of values by path"}, {"replicates", fmt.Sprintf("a whole number from 1 to %d, or a list of seeds", maxReplicates)},
}

func (r *referenceBuilder) grid(root *Page, schema *described) {
	grid := &Page{Path: "grid", Value: "a block of fields", Default: "absent", Meaning: schema.Description}
	r.add(root, grid)
	for _, f := range gridFields {
		r.add(grid, &Page{Path: "grid." + f[0], Value: f[1], Default: "absent", Meaning: schema.property(f[0]).Description})
	}
}

// defaultText returns the default of a field as in the reference. description is the field's description.
func (f *field) defaultText(description string) string {
	_, block := f.block()
	switch {
	case block && f.typ.Kind() != reflect.Pointer:
		return "by field"
	case f.required:
		return "required"
	case f.hasDef:
		return f.fallback
	case strings.Contains(description, "by default"):
		return "depends"
	}
	return "absent"
}

// Paths returns the paths of all fields and blocks, in the order of the reference.
func Paths() (paths []string) {
	var walk func(*Page)
	walk = func(p *Page) {
		for _, f := range p.Fields {
			paths = append(paths, f.Path)
			walk(f)
		}
	}
	walk(reference()[""])
	return paths
}

// Explain returns the page of the field or block at a path; "" is the whole experiment. The error for an
// unknown path suggests a similar one.
func Explain(path string) (*Page, error) {
	if page := reference()[path]; page != nil {
		return page, nil
	}
	return nil, fmt.Errorf("no field of an experiment has the path %.60q%s", path, readable.DidYouMean(suggestPath(path)))
}

// cutLast splits a path at its last dot.
func cutLast(path string) (before, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}
