// This file reads untrusted YAML. It limits the time of the YAML library and converts its panics to
// errors.

package encoding

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"coalmine/internal/goroutines"
)

// Limits on a text. The library's time grows with the square of lines and nesting.
const (
	MaxSize    = 1 << 20 // bytes
	MaxLines   = 10_000
	MaxNesting = 32 // nested mappings and lists
)

// YAMLError is a mistake in a text and its position, counted from 1.
type YAMLError struct {
	Line, Column int
	Message      string
}

func (e *YAMLError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message) }

// ParseYAML returns the tree of a text within the limits. Its errors are of type *YAMLError. It does not
// check for duplicate keys of a mapping.
func ParseYAML(data []byte) (*ast.File, error) {
	if err := checkText(data); err != nil {
		return nil, err
	}
	var file *ast.File
	err := contained("not valid YAML: ", func() (err error) {
		tokens := lexer.Tokenize(string(withoutMark(data)))
		if err := checkNesting(tokens); err != nil {
			return err
		}
		file, err = parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
		return err
	})
	return file, err
}

// UnmarshalYAML decodes a text within the limits into a value. An unknown field is an error. Errors are of
// type *YAMLError.
func UnmarshalYAML(data []byte, into any) error {
	if _, err := ParseYAML(data); err != nil {
		return err
	}
	return contained("", func() error { return yaml.UnmarshalWithOptions(withoutMark(data), into, yaml.Strict()) })
}

// withoutMark removes the byte order mark with which some editors begin UTF-8 (YAML 1.2.2, section
// 5.2); the library takes it for a part of the first word.
func withoutMark(data []byte) []byte { return bytes.TrimPrefix(data, []byte("\ufeff")) }

// YAMLFromJSON converts JSON to YAML.
func YAMLFromJSON(data []byte) (text []byte, err error) {
	err = contained("", func() (err error) {
		text, err = yaml.JSONToYAML(data)
		return err
	})
	return text, err
}

// contained calls the library, and adds a prefix to its messages. A panic becomes an error about the text.
func contained(prefix string, read func() error) error {
	err := goroutines.Recover(read)
	if err == nil {
		return nil
	}
	out := &YAMLError{1, 1, prefix + err.Error()}
	if found, ok := errors.AsType[*YAMLError](err); ok {
		return found
	}
	if p, ok := errors.AsType[*goroutines.Panic](err); ok {
		out.Message = "not YAML that can be read"
		if _, ours := p.Value.(runtime.Error); !ours {
			out.Message += fmt.Sprintf(" (%v)", p.Value)
		}
	}
	if syntax, ok := errors.AsType[yaml.Error](err); ok {
		out.Message = prefix + syntax.GetMessage()
		if t := syntax.GetToken(); t != nil && t.Position != nil {
			out.Line, out.Column = t.Position.Line, t.Position.Column
		}
	}
	return out
}

func checkText(data []byte) error {
	start := func(format string, args ...any) error { return &YAMLError{1, 1, fmt.Sprintf(format, args...)} }
	if len(data) > MaxSize {
		return start("the file has %d bytes; expected at most %d. Is it the right file?", len(data), MaxSize)
	}
	if lines := bytes.Count(data, []byte("\n")); lines > MaxLines {
		return start("the file has %d lines; expected at most %d. Is it the right file?", lines, MaxLines)
	}
	if utf8.Valid(data) {
		return nil
	}
	good := 0
	for r, size := utf8.DecodeRune(data); r != utf8.RuneError || size != 1; r, size = utf8.DecodeRune(data[good:]) {
		good += size
	}
	line := bytes.Count(data[:good], []byte("\n"))
	column := utf8.RuneCount(data[bytes.LastIndexByte(data[:good], '\n')+1 : good])
	return &YAMLError{line + 1, column + 1, "the file is not valid UTF-8 here; save it as UTF-8"}
}

// checkNesting limits the nesting before the parser gets the tokens.
func checkNesting(tokens token.Tokens) error {
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
			return &YAMLError{t.Position.Line, t.Position.Column, fmt.Sprintf("fields or lists are nested more than %d deep here", MaxNesting)}
		}
	}
	return nil
}
