// Package encoding reads and writes JSON and YAML if encoding/json and the YAML library are not
// strict enough: JSON members exactly as written, JSON objects in order, and YAML from outside.
package encoding

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Object is a JSON object. Its names are distinct.
type Object []Member

// Member is one member of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// ObjectOf returns the members of a value that marshals as an object, nil for null.
func ObjectOf(v any) (Object, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var o Object
	return o, json.Unmarshal(data, &o)
}

// Get returns the value of a member.
func (o Object) Get(name string) (json.RawMessage, bool) {
	i := o.index(name)
	if i < 0 {
		return nil, false
	}
	return o[i].Value, true
}

// Set sets the value of a member, in place if it exists and otherwise at the end.
func (o *Object) Set(name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("member %q: %w", name, err)
	}
	if i := o.index(name); i >= 0 {
		(*o)[i].Value = raw
		return nil
	}
	*o = append(*o, Member{name, raw})
	return nil
}

// Merge sets every member of another object.
func (o *Object) Merge(other Object) error {
	for _, m := range other {
		if err := o.Set(m.Name, m.Value); err != nil {
			return err
		}
	}
	return nil
}

// Join adds every member of another object. A name in both is an error.
func (o *Object) Join(other Object) error {
	for _, m := range other {
		if o.index(m.Name) >= 0 {
			return fmt.Errorf("the member %q is there twice", m.Name)
		}
	}
	return o.Merge(other)
}

// Without returns the object without some members.
func (o Object) Without(names ...string) Object {
	return slices.DeleteFunc(slices.Clone(o), func(m Member) bool { return slices.Contains(names, m.Name) })
}

func (o Object) index(name string) int {
	return slices.IndexFunc(o, func(m Member) bool { return m.Name == name })
}

// MarshalJSON writes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(m.Name)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), m.Value...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads an object, or null as one without members. A repeated name is an error.
func (o *Object) UnmarshalJSON(data []byte) error {
	*o = nil
	d := json.NewDecoder(bytes.NewReader(data))
	start, err := d.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('{') {
		return fmt.Errorf("expected a JSON object, found %.40s", data)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if o.index(name.(string)) >= 0 {
			return fmt.Errorf("the member %q is there twice", name)
		}
		*o = append(*o, Member{name.(string), value})
	}
	return nil
}

// JSONFields returns the values of the named members of an object, in the order of the names; nil for a
// missing member. The object has to be valid UTF-8.
func JSONFields(object []byte, names ...string) ([]json.RawMessage, error) {
	if !json.Valid(object) {
		var any any
		return nil, json.Unmarshal(object, &any)
	}
	rest := trim(object)
	if rest[0] != '{' {
		return nil, &json.UnmarshalTypeError{Value: kindOf(rest), Type: reflect.TypeFor[struct{}]()}
	}
	values := make([]json.RawMessage, len(names))
	for rest = trim(rest[1:]); rest[0] != '}'; rest = trim(bytes.TrimPrefix(rest, []byte(","))) {
		end := valueEnd(rest)
		name := rest[:end]
		rest = trim(trim(rest[end:])[1:]) // after the colon
		end = valueEnd(rest)
		value := rest[:end]
		rest = trim(rest[end:])
		for i := range names {
			if !named(name, names[i]) {
				continue
			}
			if values[i] != nil {
				return nil, &ValueError{names[i], errors.New("stands twice")}
			}
			values[i] = value
		}
	}
	return values, nil
}

// ValueError is an error about the value of a member.
type ValueError struct {
	Name string
	Err  error
}

func (e *ValueError) Error() string { return fmt.Sprintf("%q %v", e.Name, e.Err) }

func (e *ValueError) Unwrap() error { return e.Err }

// ErrHalfPair is the error for a text for which HalfPair is true.
var ErrHalfPair = errors.New("has half of a surrogate pair (\\ud800 to \\udfff), which is not a character")

// UnmarshalJSON reads the members named by the tags of a struct's fields. It is stricter than
// json.Unmarshal, which accepts "Text" for "text", takes the last of several members of one name, and
// replaces any half of a surrogate pair by the same character, so that different texts become equal.
// Here names match exactly, a name of a tag occurs at most once, and half a pair is an error. Fields
// without a tag stay unchanged.
func UnmarshalJSON(object []byte, into any) error {
	target := reflect.ValueOf(into).Elem()
	names := namesOf(target.Type())
	values, err := JSONFields(object, names.tags...)
	if err != nil {
		return err
	}
	for i, value := range values {
		if value == nil {
			continue
		}
		err := decode(value, target.Field(names.fields[i]).Addr().Interface())
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			wrong.Field = names.tags[i]
		}
		if errors.Is(err, ErrHalfPair) {
			err = &ValueError{names.tags[i], err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decode reads a value. Most are texts without escapes, which need no decoding. A json.RawMessage gets
// the value unchanged.
func decode(value json.RawMessage, into any) error {
	switch to := into.(type) {
	case **string:
		if text, ok := plainText(value); ok {
			*to = &text
			return nil
		}
	case *json.RawMessage:
		*to = value
		return nil
	case *[]json.RawMessage:
		return json.Unmarshal(value, into)
	}
	if HalfPair(value) {
		return ErrHalfPair
	}
	return json.Unmarshal(value, into)
}

// plainText returns a text without escapes.
func plainText(value []byte) (string, bool) {
	if value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", false
	}
	return string(value[1 : len(value)-1]), true
}

// JSONString decodes a JSON string.
func JSONString(value []byte) (string, error) {
	text, ok := plainText(value)
	if ok {
		return text, nil
	}
	if HalfPair(value) {
		return "", ErrHalfPair
	}
	var read *string
	if err := json.Unmarshal(value, &read); err != nil {
		return "", err
	}
	if read == nil {
		return "", errors.New("is null; expected a text")
	}
	return *read, nil
}

// ShowJSON returns the beginning of a value for a message, as JSON without control characters.
func ShowJSON(value []byte) string {
	const most = 40
	var b strings.Builder
	n := 0
	for _, r := range string(value) {
		if n++; n > most {
			return b.String() + "…"
		}
		if strconv.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// structNames holds the tags of a struct and their fields.
type structNames struct {
	tags   []string
	fields []int
}

var structs sync.Map // *structNames by type

func namesOf(t reflect.Type) *structNames {
	if names, ok := structs.Load(t); ok {
		return names.(*structNames)
	}
	names := &structNames{}
	for i := range t.NumField() {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if tag != "" && tag != "-" {
			names.tags, names.fields = append(names.tags, tag), append(names.fields, i)
		}
	}
	structs.Store(t, names)
	return names
}

func trim(data []byte) []byte { return bytes.TrimLeft(data, " \t\r\n") }

// named reports whether a JSON string equals a name.
func named(text []byte, name string) bool {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1:len(text)-1]) == name
	}
	var unquoted string
	return !HalfPair(text) && json.Unmarshal(text, &unquoted) == nil && unquoted == name
}

// valueEnd returns the end of the first value of valid JSON.
func valueEnd(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = textEnd(data, i)
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(data)
}

// textEnd returns the index of the quote that ends a string.
func textEnd(data []byte, start int) int {
	for i := start + 1; i < len(data); i++ {
		next := bytes.IndexByte(data[i:], '"')
		if next < 0 {
			break
		}
		if slash := bytes.IndexByte(data[i:i+next], '\\'); slash >= 0 {
			i += slash + 1 // and the escaped character
			continue
		}
		return i + next
	}
	return len(data) - 1
}

// HalfPair reports whether any string of valid JSON has one surrogate of a pair without the other.
func HalfPair(value []byte) bool {
	for {
		i := bytes.IndexByte(value, '\\')
		if i < 0 {
			return false
		}
		if value = value[i:]; value[1] != 'u' {
			value = value[2:]
			continue
		}
		c := escaped(value)
		if value = value[6:]; !utf16.IsSurrogate(c) {
			continue
		}
		if len(value) < 6 || value[0] != '\\' || value[1] != 'u' || utf16.DecodeRune(c, escaped(value)) == '\ufffd' {
			return true
		}
		value = value[6:]
	}
}

// escaped returns the character of an escape such as \u1234.
func escaped(text []byte) rune {
	c, _ := strconv.ParseUint(string(text[2:6]), 16, 32) // the JSON is valid
	return rune(c)
}

// kindOf returns encoding/json's name for the type of a value.
func kindOf(value []byte) string {
	switch value[0] {
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "bool"
	case 'n':
		return "null"
	}
	return "number"
}
