package experiment

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// position is a place in a file or in an override.
type position struct {
	source       string
	line, column int
}

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	sequenceNode
	mappingNode
	brokenNode // a mistake that has been reported
)

// node is a YAML value with its position. Trees share nodes, so a node is never changed once it is
// part of a tree.
type node struct {
	kind    nodeKind
	at      position
	layer   layer
	text    string  // text of a scalar
	quoted  bool    // written in quotes, or as a block, and therefore text
	items   []*node // items of a sequence
	entries []entry // entries of a mapping, in the file's order, keys distinct
}

// layer is the part of the experiment that a node comes from: the file's body, the overrides, or a
// certain value of the grid. It distinguishes two contradicting fields in one part from a field of
// the body that does not apply to one cell.
type layer int

const (
	bodyLayer layer = iota
	overrideLayer
	gridLayer // and above: one for each axis, include and exclude
)

// entry is one field of a mapping.
type entry struct {
	key   string
	at    position // of the key
	value *node
}

// get returns the value of a key of a mapping, or of an index of a sequence, nil if it does not exist.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	if i, err := strconv.Atoi(key); n.kind == sequenceNode && err == nil && 0 <= i && i < len(n.items) {
		return n.items[i]
	}
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// find follows a path through mappings.
func (n *node) find(path string) *node {
	for _, key := range splitPath(path) {
		n = n.get(key)
	}
	return n
}

// place returns the position of a field, or of the innermost block around it.
func (n *node) place(path string) position {
	at := n.at
	for _, key := range splitPath(path) {
		if n = n.get(key); n == nil {
			break
		}
		at = n.at
	}
	return at
}

// without returns the mapping without one key.
func (n *node) without(key string) *node {
	out := *n
	out.entries = slices.DeleteFunc(slices.Clone(n.entries), func(e entry) bool { return e.key == key })
	return &out
}

// in returns the tree as part of another layer.
func (n *node) in(l layer) *node { return n.edited(func(n *node) { n.layer = l }) }

// standing returns the tree with every node at one position.
func (n *node) standing(at position) *node {
	return n.edited(func(n *node) {
		n.at = at
		for i := range n.entries {
			n.entries[i].at = at
		}
	})
}

// edited returns a copy of the tree in which edit has been applied to every node.
func (n *node) edited(edit func(*node)) *node {
	out := *n
	out.items = make([]*node, len(n.items))
	for i, item := range n.items {
		out.items[i] = item.edited(edit)
	}
	out.entries = make([]entry, len(n.entries))
	for i, e := range n.entries {
		out.entries[i] = entry{e.key, e.at, e.value.edited(edit)}
	}
	edit(&out)
	return &out
}

// nest returns a new tree that contains a value at path.
func nest(path string, at position, value *node) *node {
	for _, key := range slices.Backward(splitPath(path)) {
		value = &node{kind: mappingNode, at: at, layer: value.layer, entries: []entry{{key, at, value}}}
	}
	return value
}

// merge merges patch into base: mappings merge field by field, null removes a field, other values
// replace. base may be nil.
func merge(base, patch *node) *node {
	if patch.kind != mappingNode {
		return patch
	}
	out := &node{kind: mappingNode, at: patch.at, layer: patch.layer}
	if base != nil && base.kind == mappingNode {
		out.at, out.layer = base.at, base.layer
		out.entries = slices.Clone(base.entries)
	}
	for _, e := range patch.entries {
		i := slices.IndexFunc(out.entries, func(old entry) bool { return old.key == e.key })
		switch {
		case e.value.kind == nullNode && i >= 0:
			out.entries = slices.Delete(out.entries, i, i+1)
		case e.value.kind == nullNode:
		case i >= 0:
			out.entries[i] = entry{e.key, e.at, merge(out.entries[i].value, e.value)}
		default:
			out.entries = append(out.entries, entry{e.key, e.at, merge(nil, e.value)})
		}
	}
	return out
}

// leaves lists the paths below path with a value other than a mapping; an empty mapping is a leaf.
func (n *node) leaves(path string) []string {
	if n.kind != mappingNode || len(n.entries) == 0 {
		return []string{path}
	}
	var paths []string
	for _, e := range n.entries {
		paths = append(paths, e.value.leaves(join(path, e.key))...)
	}
	return paths
}

// describe names the kind of a node, for messages.
func (n *node) describe() string {
	empty := ""
	if len(n.items)+len(n.entries) == 0 {
		empty = "n empty"
	}
	switch n.kind {
	case nullNode:
		return "nothing"
	case sequenceNode:
		return "a" + empty + " list"
	case mappingNode:
		return "a" + empty + " block of fields"
	case scalarNode, brokenNode: // their text is their value
	}
	switch {
	case n.quoted:
		return "the text " + quote(n.text)
	case number.MatchString(n.text):
		return n.text
	}
	return quote(n.text)
}

func splitPath(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, ".")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// within reports whether path is at or below root.
func within(path, root string) bool {
	return path == root || root == "" || strings.HasPrefix(path, root+".")
}

// Free is a block of fields that Coalmine does not interpret, as a JSON object with sorted names.
type Free json.RawMessage

var freeType = reflect.TypeFor[Free]()

// MarshalJSON returns the block unchanged.
func (f Free) MarshalJSON() ([]byte, error) { return json.RawMessage(f).MarshalJSON() }

// UnmarshalJSON sets the block unchanged.
func (f *Free) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(f).UnmarshalJSON(data) }

// free reads a free block, or a value within one.
func (d *decoder) free(n *node, v reflect.Value, f *field, path string) {
	if n.kind != mappingNode && !f.inside {
		d.fail(n.at, path, "is %s; expected %s", n.describe(), f.expected())
		return
	}
	v.Set(reflect.ValueOf(Free(mustMarshal(n.plain()))))
}

// plain returns the value of a tree without types: quoted text is text, and a number keeps its digits.
func (n *node) plain() any {
	switch n.kind {
	case sequenceNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case mappingNode:
		block := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			block[e.key] = e.value.plain()
		}
		return block
	case scalarNode:
		return n.scalar()
	case nullNode, brokenNode: // already reported
	}
	return nil
}

func (n *node) scalar() any {
	switch {
	case n.quoted:
		return n.text
	case n.text == "true" || n.text == "false":
		return n.text == "true"
	case !number.MatchString(n.text):
		return n.text
	}
	text := strings.ReplaceAll(n.text, "_", "")
	if json.Valid([]byte(text)) {
		return json.Number(text)
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil { // .5 and +1 are also numbers
		return x
	}
	return n.text
}
