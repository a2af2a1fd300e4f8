package experiment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/internal/readable"
)

// grid is the part of a file that expands one experiment into several cells.
//
// Axes multiply in the file's order, the last one fastest. Each value is merged into the file's body: a
// block field by field, other values replace, null removes. Each item of include adds a cell, the body with
// these values merged in. Each item of exclude removes the cells whose resolved fields equal all of its
// values. Replicates repeat all cells for each seed.
type grid struct {
	at         position
	body       *node
	axes       []axis
	include    [][]pathValue
	exclude    []exclusion
	replicates []pathValue // one per seed; nil without replicates
	refused    []string    // paths of mistakes in the body
}

// axis is a path and its values.
type axis struct {
	path   string
	at     position
	values []pathValue
}

type pathValue struct {
	path  string
	at    position
	value *node
	json  json.RawMessage // value in canonical form
}

// exclusion is a condition on the fields of a resolved experiment.
type exclusion struct {
	at      position
	matches []leafValue // "null" means that the field is absent
}

// gridReader reads the grid and checks each value separately.
type gridReader struct {
	*decoder
	grid   grid
	layer  layer
	listed bool // whether replicates is a list of seeds
}

// readGrid removes the grid from the tree. It checks the form of the body and of each value, even if no cell uses it.
func readGrid(root *node, ps *problems) *grid {
	d := newDecoder(ps)
	d.patch = true
	r := gridReader{decoder: d, layer: gridLayer}
	r.grid.body = root.without("grid")
	d.block(r.grid.body, reflect.New(experimentType).Elem(), experimentType, "")
	r.grid.refused = d.bad
	if g := root.get("grid"); g != nil && g.kind != nullNode && g.kind != brokenNode {
		r.read(g)
	}
	r.conflicts()
	return &r.grid
}

func (r *gridReader) read(g *node) {
	r.grid.at = g.at
	if g.kind != mappingNode {
		r.fail(g.at, "grid", "is %s; expected a block with axes, include and exclude", g.describe())
		return
	}
	known := []string{"axes", "include", "exclude", "replicates"}
	for _, e := range g.entries {
		switch e.key {
		case "axes":
			r.axes(e)
		case "include":
			for _, item := range r.list(e, "a list of blocks such as {training.cohort: 50}") {
				r.grid.include = append(r.grid.include, r.overrides(item, "grid.include"))
			}
		case "exclude":
			for _, item := range r.list(e, "a list of blocks such as {training.cohort: 50}") {
				r.exclusion(item)
			}
		case "replicates":
			r.replicates(e.value)
		default:
			r.fail(e.at, "grid."+e.key, "unknown field; expected one of %s%s", strings.Join(known, ", "), readable.DidYouMean(cmp.Or(foreign[e.key], readable.Nearest(e.key, known))))
		}
	}
	misnamed := func(e entry) bool { return !slices.Contains(known, e.key) } // reported already
	if !slices.ContainsFunc(g.entries, misnamed) && !slices.ContainsFunc([]string{"axes", "include", "replicates"}, func(key string) bool { return holdsSomething(g.get(key)) }) {
		r.fail(g.at, "grid", "is empty; expected axes or include with at least one value, or replicates, or no grid for a single cell")
	}
}

// holdsSomething reports whether a node has content. A broken node counts, because its mistake was reported already.
func holdsSomething(n *node) bool {
	return n != nil && (n.kind == brokenNode || n.kind == scalarNode || len(n.entries) > 0 || len(n.items) > 0)
}

func (r *gridReader) list(e entry, expected string) []*node {
	if e.value.kind != sequenceNode {
		if e.value.kind != brokenNode {
			r.fail(e.value.at, "grid."+e.key, "is %s; expected %s", e.value.describe(), expected)
		}
		return nil
	}
	return e.value.items
}

func (r *gridReader) axes(e entry) {
	if e.value.kind != mappingNode {
		r.fail(e.value.at, "grid.axes", "is %s; expected fields with lists of values, such as training.cohort: [50, 500]", e.value.describe())
		return
	}
	for _, e := range e.value.entries {
		r.axis(e)
	}
}

func (r *gridReader) axis(e entry) {
	name := "grid.axes." + e.key
	if e.value.kind != sequenceNode || len(e.value.items) == 0 {
		r.fail(e.value.at, name, "is %s; expected a list of at least one value", e.value.describe())
		return
	}
	a := axis{path: e.key, at: e.at}
	r.layer++
	for _, item := range e.value.items {
		value, ok := r.pathValue(e.key, e.at, item, name)
		if !ok {
			continue
		}
		if slices.ContainsFunc(a.values, func(v pathValue) bool { return string(v.json) == string(value.json) }) {
			r.fail(item.at, name, "has the value %s twice", plain(value.json))
			continue
		}
		a.values = append(a.values, value)
	}
	if len(a.values) > 0 {
		r.grid.axes = append(r.grid.axes, a)
	}
}

// overrides reads a block of values by path.
func (r *gridReader) overrides(n *node, name string) []pathValue {
	if n.kind != mappingNode || len(n.entries) == 0 {
		r.fail(n.at, name, "is %s; expected a block such as {training.cohort: 50}", n.describe())
		return nil
	}
	r.layer++
	var out []pathValue
	for _, e := range n.entries {
		if value, ok := r.pathValue(e.key, e.at, e.value, name+"."+e.key); ok {
			out = append(out, value)
		}
	}
	return out
}

// pathValue checks that a path names a field and that the value fits it.
func (r *gridReader) pathValue(path string, at position, n *node, name string) (pathValue, bool) {
	f, ok := lookup(path)
	if !ok {
		r.fail(at, name, "no field of the experiment has this path%s", readable.DidYouMean(suggestPath(path)))
		return pathValue{}, false
	}
	if path == "name" {
		r.fail(at, name, "all cells have the same name; remove it from the grid")
		return pathValue{}, false
	}
	mistakes := len(r.bad)
	r.value(n, reflect.New(f.typ).Elem(), &f, path)
	if len(r.bad) > mistakes {
		return pathValue{}, false
	}
	return pathValue{path, at, n.in(r.layer), canonicalValue(n, &f)}, true
}

func (r *gridReader) exclusion(n *node) {
	x := exclusion{at: n.at}
	for _, v := range r.overrides(n, "grid.exclude") {
		for _, path := range v.value.leaves(v.path) {
			leaf := nest(v.path, v.at, v.value).find(path)
			f, _ := lookup(path)
			x.matches = append(x.matches, leafValue{path, string(canonicalValue(leaf, &f))})
		}
	}
	if len(x.matches) > 0 {
		r.grid.exclude = append(r.grid.exclude, x)
	}
}

// canonicalValue returns a valid value as JSON in the form of a resolved experiment.
func canonicalValue(n *node, f *field) json.RawMessage {
	if n.kind == nullNode {
		return json.RawMessage("null")
	}
	t, ok := f.block()
	if !ok {
		v := reflect.New(f.typ).Elem()
		newDecoder(new(problems)).value(n, v, f, "")
		return mustMarshal(v.Interface())
	}
	var members Axes
	for _, inner := range fieldsOf(t) {
		if value := n.get(inner.name); value != nil {
			members = append(members, Axis{inner.name, canonicalValue(value, &inner)})
		}
	}
	return mustMarshal(members)
}

// conflicts reports fields set by two axes, by an axis and an override, or twice in an item of include: one
// of the values would have no effect.
func (r *gridReader) conflicts() {
	r.seedsAlone()
	owners := make([][]string, len(r.grid.axes))
	for i, a := range r.grid.axes {
		for _, v := range a.values {
			owners[i] = append(owners[i], v.value.leaves(a.path)...)
		}
		for j := range i {
			if path, both := overlap(owners[j], owners[i]); both {
				r.fail(a.at, "grid.axes."+a.path, "sets %s, which the axis %s also sets; remove one of them", path, r.grid.axes[j].path)
			}
		}
	}
	for _, n := range r.grid.body.overridden("") {
		for i, a := range r.grid.axes {
			if path, both := overlap(owners[i], []string{n.path}); both {
				r.fail(n.at, path, "an axis of the grid overrides this field; change the axis, as in --set 'grid.axes.%s=[...]', or remove it with --set grid.axes.%s=null", a.path, a.path)
			}
		}
	}
	for _, include := range r.grid.include {
		for i, v := range include {
			for _, earlier := range include[:i] {
				if path, both := overlap(earlier.value.leaves(earlier.path), v.value.leaves(v.path)); both {
					r.fail(v.at, "grid.include."+v.path, "sets %s, which %s in the same item also sets", path, earlier.path)
				}
			}
		}
	}
}

// overlap returns the first path of b that is at, above or below a path of a.
func overlap(a, b []string) (string, bool) {
	for _, path := range b {
		if slices.ContainsFunc(a, func(other string) bool { return within(path, other) || within(other, path) }) {
			return path, true
		}
	}
	return "", false
}

// overridden returns the values that come from overrides, with their paths.
func (n *node) overridden(path string) []pathValue {
	if n.kind != mappingNode {
		if n.layer == overrideLayer {
			return []pathValue{{path: path, at: n.at}}
		}
		return nil
	}
	var out []pathValue
	for _, e := range n.entries {
		out = append(out, e.value.overridden(join(path, e.key))...)
	}
	return out
}

// size returns the number of points of the grid, but at most limit + 1.
func (g *grid) size(limit int) int {
	n := 1
	for _, a := range g.axes {
		if n *= len(a.values); n > limit {
			return limit + 1
		}
	}
	return min(n+len(g.include), limit+1)
}

// cellCount returns the number of cells before exclusion, but at most limit + 1.
func (g *grid) cellCount(limit int) int { return min(g.size(limit)*max(1, len(g.replicates)), limit+1) }

// point returns the values of point i. The points of the axes precede those of include.
func (g *grid) point(i int) []pathValue {
	product := 1
	for _, a := range g.axes {
		product *= len(a.values)
	}
	if i >= product {
		return g.include[i-product]
	}
	values := make([]pathValue, len(g.axes))
	for j, a := range slices.Backward(g.axes) {
		values[j] = a.values[i%len(a.values)]
		i /= len(a.values)
	}
	return values
}

func (x *exclusion) matchesAll(values []leafValue) bool {
	for _, want := range x.matches {
		found := slices.ContainsFunc(values, func(have leafValue) bool {
			return have == want || want.json == "null" && within(have.path, want.path)
		})
		if found == (want.json == "null") {
			return false
		}
	}
	return true
}

// cellName returns the name of a cell, such as c01. All names in a grid have equally many digits.
func cellName(index, count int) string { return numbered("c", index, count) }

func numbered(letter string, index, count int) string {
	return fmt.Sprintf("%s%0*d", letter, max(2, len(fmt.Sprint(count))), index+1)
}

// pathPattern matches a path in --set. Letters other than lower-case ones occur only in unknown fields and
// in training.job.
var pathPattern = regexp.MustCompile(`^[\w-]+(\.[\w-]+)*$`)

// applySets merges overrides such as training.cohort=50 into the tree, in order. Their mistakes have
// positions such as "--set training.cohort=50".
func applySets(root *node, sets []string, ps *problems) *node {
	for _, set := range sets {
		if patch := override(set, ps); patch != nil {
			root = merge(root, patch)
		}
	}
	return root
}

// override reads path=value. The value is YAML: a word, number, list or mapping in braces, or null to
// remove the field.
func override(set string, ps *problems) *node {
	at := position{source: "--set " + shorten(set)}
	path, text, ok := strings.Cut(set, "=")
	path = strings.TrimSpace(path)
	if !ok || !pathPattern.MatchString(path) {
		ps.add(at, "", "expected path=value, such as training.cohort=50")
		return nil
	}
	value := overrideValue(text, path, at, ps)
	if value == nil {
		return nil
	}
	value = value.standing(at).in(overrideLayer)
	if axis, ok := strings.CutPrefix(path, "grid.axes."); ok {
		// The name of an axis is a path: one key with dots.
		axes := &node{kind: mappingNode, at: at, layer: overrideLayer, entries: []entry{{axis, at, value}}}
		return nest("grid.axes", at, axes)
	}
	return nest(path, at, value)
}

// maxOverride is the maximum length of an override's value, in bytes.
const maxOverride = 16 << 10

func overrideValue(text, path string, at position, ps *problems) *node {
	if len(text) > maxOverride {
		ps.add(at, path, "the value has %d bytes; expected at most %d", len(text), maxOverride)
		return nil
	}
	file, err := encoding.ParseYAML([]byte(text))
	if bad, ok := errors.AsType[*encoding.YAMLError](err); ok {
		ps.add(at, path, "%s", bad.Message)
		return nil
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		ps.add(at, path, "expected one value after =, or null to remove the field")
		return nil
	}
	c := converter{source: at.source, problems: ps}
	return c.convert(file.Docs[0].Body, path)
}
