package experiment

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"coalmine/internal/encoding"
)

// MaxFileSize is the maximum size of an experiment file, in bytes.
const MaxFileSize = encoding.MaxSize

// parseYAML reads one document and collects mistakes. It returns nil if a mistake hides the document's structure.
func parseYAML(source string, data []byte, ps *problems) *node {
	file, err := encoding.ParseYAML(data)
	if bad, ok := errors.AsType[*encoding.YAMLError](err); ok {
		ps.add(position{source, bad.Line, bad.Column}, "", "%s", bad.Message)
		return nil
	}
	return document(source, file, ps)
}

// document returns the only document of a file, or nil after a mistake.
func document(source string, file *ast.File, ps *problems) *node {
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.CommentGroupType {
			bodies = append(bodies, d.Body)
		}
	}
	c := converter{source: source, problems: ps}
	switch len(bodies) {
	case 0:
		ps.add(position{source, 1, 1}, "", "the file is empty; expected an experiment with name, data and training")
		return nil
	case 1:
	default:
		ps.add(c.position(bodies[1]), "", "a second document begins here; expected one document per file: save this one in a separate file (coalmine show RUN CELL prints one)")
		return nil
	}
	root := c.convert(bodies[0], "")
	if root.kind == brokenNode {
		return nil // already reported
	}
	if root.kind != mappingNode {
		ps.add(root.at, "", "expected fields such as name, data and training, found %s", root.describe())
		return nil
	}
	return root
}

// converter converts the parser's tree into nodes.
type converter struct {
	source   string
	problems *problems
}

// position returns the position of a node. For a block it is that of the first key, because the block's own
// token is the colon after it.
func (c *converter) position(n ast.Node) position {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return position{source: c.source, line: 1, column: 1}
	}
	return position{c.source, t.Position.Line, t.Position.Column}
}

func (c *converter) convert(n ast.Node, path string) *node {
	out := &node{at: c.position(n)}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		return c.text(n.Token, out.at)
	case *ast.LiteralNode:
		out.kind, out.quoted, out.text = scalarNode, true, n.Value.Value
	case *ast.MappingNode:
		out.kind = mappingNode
		c.fields(out, n.Values, path)
	case *ast.MappingValueNode:
		out.kind = mappingNode
		c.fields(out, []*ast.MappingValueNode{n}, path)
	case *ast.SequenceNode:
		out.kind = sequenceNode
		for i, item := range n.Values {
			out.items = append(out.items, c.convert(item, path+"["+strconv.Itoa(i)+"]"))
		}
	case ast.ScalarNode:
		return c.scalar(n, path, out.at)
	default:
		c.refuse(n, path, out.at)
		out.kind = brokenNode
	}
	return out
}

// text keeps quoted text apart from null, numbers and switches. Numbers remain text for the decoder,
// because the parser accepts fewer forms: it reads 1e-7 as text.
func (c *converter) text(t *token.Token, at position) *node {
	quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	return &node{kind: scalarNode, at: at, text: t.Value, quoted: quoted}
}

func (c *converter) scalar(n ast.ScalarNode, path string, at position) *node {
	switch n.(type) {
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return &node{kind: scalarNode, at: at, text: n.GetToken().Value}
	}
	c.refuse(n, path, at)
	return &node{kind: brokenNode, at: at}
}

// refuse reports a YAML feature that experiment files do not support.
func (c *converter) refuse(n ast.Node, path string, at position) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		c.problems.add(at, path, "anchors and aliases (& and *) are not supported; to run an experiment with several values, list them in grid.axes")
	case *ast.TagNode:
		c.problems.add(at, path, "tags (!) are not supported; remove it, because the field determines the type")
	default:
		c.problems.add(at, path, "%s is not supported; expected fields, lists, numbers, words, true or false", n.Type().YAMLName())
	}
}

func (c *converter) fields(out *node, values []*ast.MappingValueNode, path string) {
	seen := make(map[string]position, len(values))
	for _, v := range values {
		at := c.position(v.Key)
		key, ok := c.key(v.Key, path, at)
		if !ok {
			continue
		}
		if first, twice := seen[key]; twice {
			c.problems.add(at, join(path, key), "given twice; the first is in line %d", first.line)
			continue
		}
		seen[key] = at
		out.entries = append(out.entries, entry{key, at, c.convert(v.Value, join(path, key))})
	}
}

func (c *converter) key(n ast.MapKeyNode, path string, at position) (string, bool) {
	if n.IsMergeKey() {
		c.problems.add(at, path, "merge keys (<<) are not supported; to run an experiment with several values, list them in grid.axes")
		return "", false
	}
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.MappingKeyNode:
		if inner, ok := n.Value.(ast.MapKeyNode); ok {
			return c.key(inner, path, at)
		}
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		c.refuse(n, path, at)
		return "", false
	}
	c.problems.add(at, path, "%s is not the name of a field", quote(strings.TrimSpace(n.String())))
	return "", false
}

// quote prints a value in quotes, shortened.
func quote(text string) string { return strconv.Quote(shorten(text)) }

// shorten cuts long texts at 80 characters.
func shorten(text string) string {
	const limit = 80
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit]) + "…"
}
