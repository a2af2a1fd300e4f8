package experiment

import (
	"cmp"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"coalmine/internal/numbers"
	"coalmine/internal/readable"
)

// field describes a struct field by its tags and locates its value.
type field struct {
	name      string
	declared  reflect.StructField
	structure reflect.Type // contains the field, directly or in an embedded struct
	added     *added       // nil for fields of the block's own type
	typ       reflect.Type // declared type: a pointer for an optional block
	fallback  string       // text of the default
	hasDef    bool
	omitZero  bool // JSON omits the zero value
	required  bool
	limits    *interval
	oneOf     []string
	when      condition
	also      []string
	inside    bool // a value within a block of type Free
}

// condition makes a field depend on another one: the field at this path in the nearest of the blocks around
// it that have such a field.
type condition struct {
	field  string
	values []string
}

var (
	probabilityType = reflect.TypeFor[numbers.Probability]()
	shareType       = reflect.TypeFor[numbers.Share]()
	experimentType  = reflect.TypeFor[Experiment]()
)

var fieldCache sync.Map // reflect.Type -> []field

// fieldsOf returns the fields of a struct in order, including those of embedded structs and those that audits add.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	var fields []field
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Type == methodsType || f.Type == gatesType:
			fields = append(fields, addedFields(f)...)
		case !f.Anonymous:
			fields = append(fields, readTags(t, f))
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

// fieldNamed returns the field of a struct with this name.
func fieldNamed(t reflect.Type, name string) (field, bool) {
	fields := fieldsOf(t)
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == name }); i >= 0 {
		return fields[i], true
	}
	return field{}, false
}

// fieldAt returns the field at a path below a block, and its value. It returns false if there is no such
// field or a block on the path is absent.
func fieldAt(block reflect.Value, path string) (f field, v reflect.Value, ok bool) {
	v = block
	for _, name := range splitPath(path) {
		if v = reflect.Indirect(v); v.Kind() != reflect.Struct {
			return f, v, false
		}
		if f, ok = fieldNamed(v.Type(), name); !ok {
			return f, v, false
		}
		v = f.in(v)
	}
	return f, v, ok
}

func readTags(in reflect.Type, f reflect.StructField) field {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	out := field{name: name, declared: f, structure: in, typ: f.Type, required: f.Tag.Get("required") != "", omitZero: options != ""}
	out.fallback, out.hasDef = f.Tag.Lookup("default")
	out.oneOf = wordsOf(f)
	out.also = strings.Fields(f.Tag.Get("also"))
	if text := f.Tag.Get("range"); text != "" {
		out.limits = parseInterval(text)
	}
	if key, values, ok := strings.Cut(f.Tag.Get("when"), "="); ok {
		out.when = condition{key, strings.Fields(values)}
	}
	return out
}

// wordsOf returns the words that a field's type lists, or nil.
func wordsOf(f reflect.StructField) []string {
	t := f.Type
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if listed, ok := reflect.Zero(t).Interface().(interface{ Choices() []string }); ok {
		return listed.Choices()
	}
	return nil
}

// in returns the settable value of the field in its block.
func (f *field) in(block reflect.Value) reflect.Value {
	if f.added != nil {
		block = f.added.in(block)
	}
	return block.FieldByIndex(f.declared.Index)
}

// block returns the struct type of a field that holds other fields.
func (f *field) block() (reflect.Type, bool) {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, t.Kind() == reflect.Struct && t != probabilityType && t != shareType
}

// blocks returns the struct type of a field that is a list of blocks.
func (f *field) blocks() (reflect.Type, bool) {
	t := f.element()
	return t, f.typ.Kind() == reflect.Slice && t.Kind() == reflect.Struct && t != probabilityType && t != shareType
}

// element returns the type of a field's values, without pointer and list.
func (f *field) element() reflect.Type {
	t := f.typ
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// expected describes the allowed values of a field, for messages.
func (f *field) expected() string {
	if _, ok := f.block(); ok {
		return "a block of fields"
	}
	if t, ok := f.blocks(); ok {
		return "a list of blocks with the fields " + fieldNames(t)
	}
	switch t := f.element(); {
	case f.typ == freeType:
		return "a block of any fields"
	case len(f.oneOf) > 0:
		return "one of " + strings.Join(f.oneOf, ", ")
	case t == probabilityType:
		return "a probability" + f.limits.String() + ", such as 1/5000, 10% or 0.1"
	case t == shareType:
		return "a whole number from 1, or a percentage above 0% such as 10%"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number" + f.limits.String()
	case t.Kind() == reflect.String:
		return "text"
	}
	return "a whole number" + f.limits.String()
}

// lookup returns the field at a path, such as training.privacy.clip.
func lookup(path string) (field, bool) {
	var f field
	t := experimentType
	for _, key := range splitPath(path) {
		if f.typ == freeType {
			return field{name: path, typ: freeType, inside: true}, true
		}
		if t == nil {
			return field{}, false
		}
		var known bool
		if f, known = fieldNamed(t, key); !known {
			return field{}, false
		}
		if t, _ = f.block(); t.Kind() != reflect.Struct {
			t = nil
		}
	}
	return f, path != ""
}

// allPaths returns the paths of all fields and blocks, in the order of the types.
var allPaths = sync.OnceValue(func() []string {
	var paths []string
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for _, f := range fieldsOf(t) {
			paths = append(paths, join(prefix, f.name))
			if inner, ok := f.block(); ok {
				walk(inner, join(prefix, f.name))
			}
		}
	}
	walk(experimentType, "")
	return paths
})

// suggest returns the probable path for an unknown field, or "": a field of the block with that synonym or
// a similar name, a field of that name in another block, or a name from another tool. At the start of a
// path, names from other tools precede similar names.
func suggest(unknown string, t reflect.Type, prefix string) string {
	best, distance := "", readable.LikelyEdits(unknown)+1
	for _, f := range fieldsOf(t) {
		if slices.Contains(f.also, unknown) {
			return join(prefix, f.name)
		}
	}
	if path := foreign[unknown]; path != "" && prefix == "" {
		return path
	}
	for _, f := range fieldsOf(t) {
		if d := readable.Edits(unknown, f.name); d < distance {
			best, distance = join(prefix, f.name), d
		}
	}
	return cmp.Or(best, elsewhere(unknown, prefix), foreign[unknown])
}

// maxElsewhere is the maximum number of fields of the same name in a suggestion.
const maxElsewhere = 3

// elsewhere returns the fields of this name or synonym whose paths share the most leading keys with prefix,
// and of these the outermost ones. Synonyms come before equal names, because users of other tools mean the privacy
// target by epsilon, not Adam's constant. It returns "" if there are too many.
func elsewhere(unknown, prefix string) string {
	var synonyms, names []string
	best := [2]int{-1, 0}
	for _, path := range allPaths() {
		f, _ := lookup(path)
		if f.name != unknown && !slices.Contains(f.also, unknown) {
			continue
		}
		rank := [2]int{inCommon(path, prefix), -len(splitPath(path))}
		switch order := slices.Compare(rank[:], best[:]); {
		case order < 0:
			continue
		case order > 0:
			synonyms, names, best = nil, nil, rank
		}
		if f.name == unknown {
			names = append(names, path)
		} else {
			synonyms = append(synonyms, path)
		}
	}
	found := append(synonyms, names...)
	if len(found) > maxElsewhere || best[0] == 0 && len(found) > 1 {
		return ""
	}
	return strings.Join(found, " or ")
}

// inCommon returns the number of leading keys that two paths share.
func inCommon(a, b string) int {
	keys, n := splitPath(b), 0
	for i, key := range splitPath(a) {
		if i == len(keys) || keys[i] != key {
			break
		}
		n++
	}
	return n
}

// suggestPath returns the probable path for an unknown one, or "".
func suggestPath(unknown string) string {
	around, name := cutLast(unknown)
	t := experimentType
	f, known := lookup(around)
	if known {
		t = f.element()
	}
	if (known || around == "") && t.Kind() == reflect.Struct {
		return suggest(name, t, around)
	}
	for _, path := range allPaths() {
		if strings.HasSuffix(path, "."+unknown) {
			return path
		}
	}
	return readable.Nearest(unknown, allPaths())
}

// interval is a range of numbers, such as (0,1].
type interval struct {
	low, high         *big.Rat
	openLow, openHigh bool
}

// parseInterval reads a range tag, and panics if it is malformed.
func parseInterval(text string) *interval {
	low, high, ok := strings.Cut(text[1:len(text)-1], ",")
	l, okLow := new(big.Rat).SetString(low)
	h, okHigh := new(big.Rat).SetString(high)
	if !ok || !okLow || !okHigh {
		panic(fmt.Sprintf("experiment: range tag %q", text))
	}
	return &interval{l, h, text[0] == '(', text[len(text)-1] == ')'}
}

func (v *interval) contains(x *big.Rat) bool {
	if v == nil {
		return true
	}
	low, high := x.Cmp(v.low), x.Cmp(v.high)
	return (low > 0 || low == 0 && !v.openLow) && (high < 0 || high == 0 && !v.openHigh)
}

// String returns the end of a phrase, such as " from 1 to 20" or " above 0, at most 1".
func (v *interval) String() string {
	if v == nil {
		return ""
	}
	low, high := decimalText(v.low), decimalText(v.high)
	if !v.openLow && !v.openHigh {
		return " from " + low + " to " + high
	}
	from, to := " from ", ", at most "
	if v.openLow {
		from = " above "
	}
	if v.openHigh {
		to = ", below "
	}
	return from + low + to + high
}

// maxDigits is the maximum number of digits of a whole number in messages. Longer ones are printed like 1e+300.
const maxDigits = 16

func decimalText(r *big.Rat) string {
	if text := r.Num().String(); r.IsInt() && len(text) <= maxDigits {
		return text
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
