// Package encoding reads and writes JSON and YAML if encoding/json and the YAML library are not
// strict enough: JSON members exactly as written, JSON objects in order, and YAML from outside.
package encoding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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
