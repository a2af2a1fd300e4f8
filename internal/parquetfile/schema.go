package parquetfile

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Kind is the physical type of a leaf's values.
type Kind byte

// Kinds, with the format's numbers.
const (
	Boolean Kind = iota
	Int32
	Int64
	Int96
	Float
	Double
	Bytes
	FixedBytes
)

// String returns the format's name of a kind.
func (k Kind) String() string {
	return [...]string{"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}[k]
}

// LogicalType is the logical type of a leaf, if it changes how values are read.
type LogicalType byte

// Meanings.
const (
	Plain    LogicalType = iota
	Unsigned             // unsigned Int32 or Int64
	Seconds              // Int64 in 1/PerSecond seconds since 1970
	Decimal
	Interval
	Float16
	UUID
)

// Leaf is a column with values: a top-level column, or a field of a nested one.
type Leaf struct {
	Path      []string
	Kind      Kind
	Meaning   LogicalType
	PerSecond float64 // units per second
	// List reports that a row may have several values.
	List  bool
	width int // of FixedBytes
	// Definition and repetition levels of a value that is present.
	definition, repetition int
}

// element is a node of a schema; its children follow it.
type element struct {
	name       string
	leaf       bool
	repetition int64 // 0 required, 1 optional, 2 repeated
	children   int
	Leaf
}

func (t *thrift) element(kind byte, before int) (e element) {
	if before >= maxElements {
		t.fail(fmt.Errorf("a schema of more than %d elements", maxElements))
	}
	t.fields(kind, func(id int64, kind byte) {
		switch id {
		case 1:
			k := t.size(kind)
			if k > int(FixedBytes) {
				t.fail(unsupported("a column of type %d", k))
			}
			e.leaf, e.Kind = true, Kind(k)
		case 2:
			e.width = t.size(kind)
		case 3:
			e.repetition = t.integer(kind)
		case 4:
			e.name = string(t.binary(kind))
		case 5:
			e.children = t.size(kind)
		case 6:
			if e.Meaning == Plain {
				e.converted(t.integer(kind))
			}
		case 10:
			t.logical(kind, &e.Leaf)
		}
	})
	return e
}

// converted sets the meaning as older files define it.
func (e *element) converted(number int64) {
	switch number {
	case 5:
		e.Meaning = Decimal
	case 9:
		e.Meaning, e.PerSecond = Seconds, 1e3
	case 10:
		e.Meaning, e.PerSecond = Seconds, 1e6
	case 11, 12, 13, 14:
		e.Meaning = Unsigned
	case 21:
		e.Meaning = Interval
	}
}

func (t *thrift) logical(kind byte, l *Leaf) {
	t.fields(kind, func(id int64, kind byte) {
		switch id {
		case 5:
			l.Meaning = Decimal
		case 8:
			l.Meaning = Seconds
			t.timestamp(kind, l)
		case 10:
			l.Meaning = Plain
			t.integerType(kind, l)
		case 14:
			l.Meaning = UUID
		case 15:
			l.Meaning = Float16
		}
	})
}

func (t *thrift) timestamp(kind byte, l *Leaf) {
	t.fields(kind, func(id int64, kind byte) {
		if id != 2 {
			return
		}
		t.fields(kind, func(unit int64, _ byte) {
			if 1 <= unit && unit <= 3 {
				l.PerSecond = math.Pow10(3 * int(unit))
			}
		})
	})
	if l.PerSecond == 0 {
		t.fail(errors.New("a timestamp without its unit"))
	}
}

func (t *thrift) integerType(kind byte, l *Leaf) {
	t.fields(kind, func(id int64, kind byte) {
		if id == 2 && kind == typeFalse {
			l.Meaning = Unsigned
		}
	})
}

// addSchema finds the leaves of a schema. An element precedes its children.
func (f *File) addSchema(elements []element) error {
	if len(elements) == 0 {
		return errors.New("the footer has no schema")
	}
	rest := elements[1:]
	for range elements[0].children {
		if len(rest) == 0 {
			return errors.New("the schema lacks an element")
		}
		f.columns = append(f.columns, rest[0].name)
		var err error
		if rest, err = f.addElement(rest, Leaf{}); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("the schema has %d elements too many", len(rest))
	}
	return nil
}

// addElement adds the leaves of the first element below a parent, and returns the elements after them.
func (f *File) addElement(elements []element, parent Leaf) (rest []element, err error) {
	if len(parent.Path) > deepest {
		return nil, errors.New("a schema that is nested too deep")
	}
	if len(elements) == 0 {
		return nil, errors.New("the schema lacks an element")
	}
	e := elements[0]
	leaf := e.within(parent)
	if e.leaf {
		if leaf.Kind == FixedBytes && leaf.width == 0 {
			return nil, fmt.Errorf("the column %q has values of no length", leaf.Name())
		}
		f.leaves = append(f.leaves, leaf)
		return elements[1:], nil
	}
	rest = elements[1:]
	for range e.children {
		if rest, err = f.addElement(rest, leaf); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// within combines the properties of an element with those of its parent.
func (e *element) within(parent Leaf) Leaf {
	leaf := e.Leaf
	leaf.Path = append(slices.Clone(parent.Path), e.name)
	leaf.definition, leaf.repetition = parent.definition, parent.repetition
	if e.repetition != 0 {
		leaf.definition++
	}
	if e.repetition == 2 {
		leaf.repetition++
	}
	leaf.List = leaf.repetition > 0
	return leaf
}
