package experiment

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of an experiment file.
const (
	// MaxFileSize is the largest experiment file, in bytes.
	MaxFileSize = 1 << 20
	// MaxLines is the number of lines of an experiment file. The YAML library's
	// time grows with its square.
	MaxLines = 10_000
	// MaxNesting is how deep mappings and lists may stand in each other.
	MaxNesting = 32
)

// parseYAML reads one document. Mistakes that hide the document's structure
// end it with a nil node; others are collected.
func parseYAML(source string, data []byte, ps *problems) *node {
	start := position{source: source, line: 1, column: 1}
	if len(data) > MaxFileSize {
		ps.add(start, "", "the file has %d bytes; an experiment file has at most %d. Are you sure that this is one?", len(data), MaxFileSize)
		return nil
	}
	if lines := bytes.Count(data, []byte("\n")); lines > MaxLines {
		ps.add(start, "", "the file has %d lines; an experiment file has at most %d. Are you sure that this is one?", lines, MaxLines)
		return nil
	}
	if at, bad := invalidUTF8(source, data); bad {
		ps.add(at, "", "the file is not valid UTF-8 here; save it as UTF-8")
		return nil
	}
	tokens := lexer.Tokenize(string(data))
	if at, deep := tooDeep(source, tokens); deep {
		ps.add(at, "", "fields or lists are nested more than %d deep here", MaxNesting)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := syntaxError(source, err)
		ps.add(at, "", "not valid YAML: %s", message)
		return nil
	}
	return document(source, file, ps)
}

func invalidUTF8(source string, data []byte) (position, bool) {
	if utf8.Valid(data) {
		return position{}, false
	}
	good := 0
	for good < len(data) {
		r, size := utf8.DecodeRune(data[good:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		good += size
	}
	line := bytes.Count(data[:good], []byte("\n"))
	column := utf8.RuneCount(data[bytes.LastIndexByte(data[:good], '\n')+1 : good])
	return position{source, line + 1, column + 1}, true
}

// tooDeep bounds the nesting before the parser sees the tokens: its time and
// its stack grow with the square of it.
func tooDeep(source string, tokens token.Tokens) (position, bool) {
	flow, line, onLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, onLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			onLine++ // "- - -" and "? ? ?" nest within a line
		}
		indented := t.Position.IndentNum > 8*MaxNesting
		if flow > MaxNesting || onLine > MaxNesting || indented {
			return position{source, t.Position.Line, t.Position.Column}, true
		}
	}
	return position{}, false
}

func syntaxError(source string, err error) (position, string) {
	at := position{source: source, line: 1, column: 1}
	syntax, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return at, err.Error()
	}
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		at = position{source, t.Position.Line, t.Position.Column}
	}
	return at, syntax.GetMessage()
}

// document takes the one document out of a file.
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
		ps.add(c.position(bodies[1]), "", "a second document begins here; an experiment file has one")
		return nil
	}
	root := c.convert(bodies[0], "")
	if root.kind != mappingNode {
		ps.add(root.at, "", "expected fields such as name, data and training, found %s", root.describe())
		return nil
	}
	return root
}

// converter turns the parser's tree into ours.
type converter struct {
	source   string
	problems *problems
}

// position is where a node begins: a block of fields at its first key, since
// the node's own token is the colon after it.
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

// text tells 'null' from null; the parser's own idea of numbers is narrower
// than ours (1e-7 is text to it), so numbers are told by the decoder.
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

// refuse explains what YAML offers and an experiment file does not.
func (c *converter) refuse(n ast.Node, path string, at position) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		c.problems.add(at, path, "anchors and aliases (& and *) are not used here; to run one experiment with several values, give them as grid.axes")
	case *ast.TagNode:
		c.problems.add(at, path, "tags (!) are not used here; remove it: the field says what type it is")
	default:
		c.problems.add(at, path, "%s is not used here; expected fields, lists, numbers, words, true or false", n.Type().YAMLName())
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
		c.problems.add(at, path, "merge keys (<<) are not used here; to run one experiment with several values, give them as grid.axes")
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

// quote prints a value as it stood in the file, shortened.
func quote(text string) string { return strconv.Quote(shorten(text)) }

// shorten cuts a text that would fill the screen.
func shorten(text string) string {
	const limit = 80
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit]) + "…"
}
