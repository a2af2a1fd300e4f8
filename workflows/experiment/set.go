package experiment

import (
	"errors"
	"regexp"
	"strings"

	"coalmine/internal/encoding"
)

// pathPattern matches a path in --set and the grid.
var pathPattern = regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)*$`)

// applySets merges overrides such as training.cohort=50 into the tree, in order. The position of
// their mistakes is "--set training.cohort=50".
func applySets(root *node, sets []string, ps *problems) *node {
	for _, set := range sets {
		if patch := override(set, ps); patch != nil {
			root = merge(root, patch)
		}
	}
	return root
}

// override reads path=value. The value is YAML: a word, a number, a list, a
// mapping in braces, or null, which removes the field.
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
		// The names of axes are paths: one key with dots in it.
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
