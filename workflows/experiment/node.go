package experiment

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// position is a position in a file or an override.
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
	brokenNode // a mistake was reported
)

// node is a YAML value with its position. Trees share nodes, so nodes in a tree never change.
type node struct {
	kind    nodeKind
	at      position
	layer   layer
	text    string  // text of a scalar
	quoted  bool    // in quotes, or a literal block, and therefore text
	items   []*node // items of a sequence
	entries []entry // fields of a mapping in the file's order, with distinct keys
}

// layer is the origin of a node: the file's body, the overrides, or one axis or item of the grid.
// Contradicting fields in one layer are a mistake; a field of the body may contradict a value of the grid.
type layer int

const (
	bodyLayer layer = iota
	overrideLayer
	gridLayer // and above: one for each axis, each item of include and exclude, and replicates
)

// entry is one field of a mapping.
type entry struct {
	key   string
	at    position // of the key
	value *node
}

// get returns the value of a key of a mapping or an index of a sequence, or nil.
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

// find returns the node at a path, or nil.
func (n *node) find(path string) *node {
	for _, key := range splitPath(path) {
		n = n.get(key)
	}
	return n
}

// place returns the position of the field at a path, or of the innermost block around it.
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

// without returns the mapping without a key.
func (n *node) without(key string) *node {
	out := *n
	out.entries = slices.DeleteFunc(slices.Clone(n.entries), func(e entry) bool { return e.key == key })
	return &out
}

// in returns a copy of the tree in another layer.
func (n *node) in(l layer) *node { return n.edited(func(n *node) { n.layer = l }) }

// standing returns a copy of the tree with all nodes at one position.
func (n *node) standing(at position) *node {
	return n.edited(func(n *node) {
		n.at = at
		for i := range n.entries {
			n.entries[i].at = at
		}
	})
}

// edited returns a copy of the tree with edit applied to each node.
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

// nest returns a tree that contains a value at a path.
func nest(path string, at position, value *node) *node {
	for _, key := range slices.Backward(splitPath(path)) {
		value = &node{kind: mappingNode, at: at, layer: value.layer, entries: []entry{{key, at, value}}}
	}
	return value
}

// merge merges patch into base: mappings field by field; null removes a field; other values replace. base may be nil.
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

// leaves returns the paths of the values below path that are not mappings. An empty mapping is a leaf.
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

// describe describes a node, for messages.
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
	case scalarNode, brokenNode: // described by their text
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

// free decodes a free block, or a value within one.
func (d *decoder) free(n *node, v reflect.Value, f *field, path string) {
	if n.kind != mappingNode && !f.inside {
		d.fail(n.at, path, "is %s; expected %s", n.describe(), f.expected())
		return
	}
	v.Set(reflect.ValueOf(Free(mustMarshal(n.plain()))))
}

// plain returns the value of a tree: quoted text is text, and numbers keep their digits.
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
	if x, err := strconv.ParseFloat(text, 64); err == nil { // .5 and +1 are numbers, too
		return x
	}
	return n.text
}
