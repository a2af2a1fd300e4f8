package experiment

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

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

// plain returns the value of a tree without types: quoted text is text, and a number keeps its
// digits.
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
