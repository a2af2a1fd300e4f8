package models

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
)

// fixedBytes is more than the size of a model's tables besides their vectors:
// structs, headers, the model's layout.
const fixedBytes = 16 << 10

// Caches are bounded by the sizes that values report: memory missing from the sum is unbounded.
func TestTablesAndScorersCountAllThatTheyHold(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, m *Language) {
		params := wideParams(m, testRand(61))
		s := mustScorer(t, m, params)
		tables := s.Tabulate()
		for what, c := range map[string]struct {
			value any
			bytes int64
		}{"scorer": {s, s.Bytes()}, "tables": {tables, tables.Bytes()}} {
			var held reachable
			held.add(reflect.ValueOf(params)) // kept whole by the tensors that are views of it
			held.add(reflect.ValueOf(c.value))
			if got := held.bytes(); got < c.bytes || got > c.bytes+fixedBytes {
				t.Errorf("%s of %d bytes: counted as %d", what, got, c.bytes)
			}
		}
	}
	eachVariant(t, 3000, test)
	eachPairVariant(t, 3000, test)
	eachTransformer(t, 3000, test)
}

// reachable is the memory that values refer to, as ranges that may overlap: vectors
// are parts of one another.
type reachable []addresses

type addresses struct{ from, to uintptr }

// add adds all that v refers to, but for functions and maps.
func (m *reachable) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && m.include(v.Pointer(), v.Type().Elem().Size()) {
			m.add(v.Elem())
		}
	case reflect.Slice:
		if m.include(v.Pointer(), uintptr(v.Cap())*v.Type().Elem().Size()) {
			m.addElements(v)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			m.add(v.Field(i))
		}
	}
}

func (m *reachable) addElements(v reflect.Value) {
	switch v.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Struct:
		for i := range v.Len() {
			m.add(v.Index(i))
		}
	}
}

// include reports whether a range is new.
func (m *reachable) include(at, size uintptr) bool {
	r := addresses{at, at + size}
	if slices.Contains(*m, r) {
		return false
	}
	*m = append(*m, r)
	return true
}

// bytes counts each address once.
func (m *reachable) bytes() (total int64) {
	slices.SortFunc(*m, func(a, b addresses) int { return cmp.Compare(a.from, b.from) })
	end := uintptr(0)
	for _, r := range *m {
		if r.to > end {
			total += int64(r.to - max(r.from, end))
			end = r.to
		}
	}
	return total
}
