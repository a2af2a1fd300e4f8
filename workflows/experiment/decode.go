package experiment

import (
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
)

// decoder decodes a tree into the types. It continues after a mistake, to find all of them.
type decoder struct {
	problems *problems
	// patch reports whether the tree will be merged into another one. null is then allowed everywhere, and
	// no field is required.
	patch bool
	// present contains the decoded nodes by path.
	present map[string]*node
	// bad contains the paths with a mistake, so that each is reported once.
	bad []string
	// refused contains the paths of mistakes in single fields, found before defaults are set. No defaults
	// follow from these fields.
	refused []string
}

func newDecoder(ps *problems) *decoder {
	return &decoder{problems: ps, present: make(map[string]*node)}
}

func (d *decoder) fail(at position, path, format string, args ...any) {
	d.bad = append(d.bad, path)
	d.problems.add(at, path, format, args...)
}

// value decodes a node into a field.
func (d *decoder) value(n *node, v reflect.Value, f *field, path string) {
	d.present[path] = n
	switch {
	case n.kind == brokenNode:
		d.bad = append(d.bad, path)
	case n.kind == nullNode:
		if !d.patch && v.Kind() != reflect.Pointer {
			d.fail(n.at, path, "has no value; expected %s, or remove the field", f.expected())
		}
	case v.Type() == freeType:
		d.free(n, v, f, path)
	case v.Kind() == reflect.Pointer:
		inner := reflect.New(v.Type().Elem())
		d.value(n, inner.Elem(), f, path)
		v.Set(inner)
	case v.Kind() == reflect.Slice:
		d.list(n, v, f, path)
	default:
		if t, ok := f.block(); ok {
			d.block(n, v, t, path)
			return
		}
		d.leaf(n, v, f, path)
	}
}

// block decodes a mapping into a struct.
func (d *decoder) block(n *node, v reflect.Value, t reflect.Type, path string) {
	if n.kind != mappingNode {
		d.fail(n.at, path, "is %s; expected a block with the fields %s", n.describe(), fieldNames(t))
		return
	}
	for _, e := range n.entries {
		f, known := fieldNamed(t, e.key)
		if !known {
			d.unknown(e, t, path)
			continue
		}
		d.value(e.value, f.in(v), &f, join(path, e.key))
	}
	if !d.patch {
		d.missing(n, v, fieldsOf(t), path)
	}
}

// missing reports absent required fields, also in absent blocks.
func (d *decoder) missing(n *node, v reflect.Value, fields []field, path string) {
	for _, f := range fields {
		if n.get(f.name) != nil {
			continue
		}
		inner := join(path, f.name)
		if t, ok := f.block(); ok && f.typ.Kind() != reflect.Pointer {
			d.block(&node{kind: mappingNode, at: n.at}, f.in(v), t, inner)
		} else if f.required && f.neededIn(n) && !d.isBad(inner) {
			d.fail(n.at, inner, "missing; expected %s", f.expected())
		}
	}
}

// neededIn reports whether a block must have a required field. It need not if another choice in the block makes the
// field useless.
func (f *field) neededIn(block *node) bool {
	choice := block.get(f.when.field)
	return choice == nil || slices.Contains(f.when.values, choice.text)
}

func fieldNames(t reflect.Type) string {
	var names []string
	for _, f := range fieldsOf(t) {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// unknown reports a key that names no field. It marks the suggested field as bad, so that it is not also
// reported as missing.
func (d *decoder) unknown(e entry, t reflect.Type, path string) {
	meant := suggest(e.key, t, path)
	if path == "" && readable.Edits(e.key, "grid") <= readable.LikelyEdits(e.key) {
		meant = "grid"
	}
	if meant == "" {
		d.fail(e.at, join(path, e.key), "unknown field; expected one of %s", fieldNames(t))
		return
	}
	d.bad = append(d.bad, strings.Split(meant, " or ")...)
	d.fail(e.at, join(path, e.key), "unknown field%s", readable.DidYouMean(meant))
}

// itemPath returns the path of item i of a list, such as canaries.formats.1.
func itemPath(path string, i int) string { return join(path, strconv.Itoa(i)) }

// list decodes a list. A single value is a list of one.
func (d *decoder) list(n *node, v reflect.Value, f *field, path string) {
	items := []*node{n}
	if n.kind == sequenceNode {
		items = n.items
	}
	if len(items) == 0 {
		d.fail(n.at, path, "is an empty list; expected at least one value: %s", f.expected())
		return
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		if item.kind == nullNode {
			d.fail(item.at, path, "has an empty item; expected %s", f.expected())
			continue
		}
		if t, ok := f.blocks(); ok {
			d.present[itemPath(path, i)] = item
			d.block(item, out.Index(i), t, itemPath(path, i))
			continue
		}
		d.leaf(item, out.Index(i), f, path)
	}
	v.Set(out)
}

// leaf decodes a single value.
func (d *decoder) leaf(n *node, v reflect.Value, f *field, path string) {
	if n.kind == brokenNode {
		d.bad = append(d.bad, path)
		return
	}
	ok := n.kind == scalarNode
	if ok {
		switch {
		case v.Type() == probabilityType:
			ok = readProbability(n, v, f)
		case v.Type() == shareType:
			ok = readShare(n, v)
		case v.Kind() == reflect.String:
			ok = readText(n, v, f)
		case v.Kind() == reflect.Bool:
			ok = readBool(n, v)
		default:
			ok = readNumber(n, v, f)
		}
	}
	if !ok {
		d.fail(n.at, path, "is %s; expected %s%s", n.describe(), f.expected(), leafHint(n, f))
	}
}

// leafHint returns advice for common mistakes, or "".
func leafHint(n *node, f *field) string {
	t := f.element()
	switch {
	case n.kind == scalarNode && n.quoted && t.Kind() != reflect.String && number.MatchString(n.text):
		return "; remove the quotes"
	case n.kind == scalarNode && t.Kind() == reflect.String && len(f.oneOf) == 0:
		return "; put it in quotes"
	case n.kind == scalarNode && len(f.oneOf) > 0:
		for _, word := range f.oneOf {
			if readable.Edits(strings.ToLower(n.text), word) <= readable.LikelyEdits(n.text) {
				return readable.DidYouMean(word)
			}
		}
	}
	return ""
}

func readProbability(n *node, v reflect.Value, f *field) bool {
	p, err := numbers.ParseProbability(n.text)
	if err != nil || !f.limits.contains(p.Rat()) {
		return false
	}
	v.Set(reflect.ValueOf(p))
	return true
}

func readShare(n *node, v reflect.Value) bool {
	s, err := numbers.ParseShare(strings.ReplaceAll(n.text, "_", ""))
	v.Set(reflect.ValueOf(s))
	return err == nil
}

func readText(n *node, v reflect.Value, f *field) bool {
	if len(f.oneOf) > 0 && !slices.Contains(f.oneOf, n.text) {
		return false
	}
	if !n.quoted && (number.MatchString(n.text) || n.text == "true" || n.text == "false") {
		return false
	}
	v.SetString(n.text)
	return true
}

func readBool(n *node, v reflect.Value) bool {
	v.SetBool(n.text == "true")
	return !n.quoted && (n.text == "true" || n.text == "false")
}

// number matches a decimal number, with _ allowed between digits. It limits the length, so that exact
// arithmetic is fast.
var number = regexp.MustCompile(`^[-+]?([0-9][0-9_]{0,39})?(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?$`)

// readNumber reads an integer or a finite number. 2e6 is an integer, too.
func readNumber(n *node, v reflect.Value, f *field) bool {
	if n.quoted || !number.MatchString(n.text) {
		return false
	}
	text := strings.ReplaceAll(n.text, "_", "")
	exact, ok := new(big.Rat).SetString(text)
	if !ok || !f.limits.contains(exact) {
		return false
	}
	if v.Kind() == reflect.Float64 {
		x, err := strconv.ParseFloat(text, 64)
		v.SetFloat(x)
		return err == nil && (x != 0 || exact.Sign() == 0) && !math.IsInf(x, 0)
	}
	if !exact.IsInt() {
		return false
	}
	if v.Kind() == reflect.Uint64 {
		v.SetUint(exact.Num().Uint64())
	} else {
		v.SetInt(exact.Num().Int64())
	}
	return true
}
