package experiment

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"coalmine/internal/readable"
)

//go:embed experiment.schema.json
var schemaText []byte

// Schema returns the JSON Schema of experiment files.
func Schema() []byte { return slices.Clone(schemaText) }

// Page describes a field, or a block of fields, as in the reference.
type Page struct {
	Path string `json:"path"`
	// Value describes the allowed values.
	Value string `json:"value"`
	// Default is the default's text, "required", "depends" (Meaning names the fields), "absent", or "by
	// field" for a block that always exists.
	Default string `json:"default"`
	Meaning string `json:"meaning"`
	// Fields are the fields of a block, in the order of the reference.
	Fields []*Page `json:"fields,omitempty"`
}

// described is the part of the schema that contains descriptions.
type described struct {
	Description string                `json:"description"`
	Properties  map[string]*described `json:"properties"`
	AnyOf       []*described          `json:"anyOf"`
	Definitions map[string]*described `json:"$defs"`
}

// property is a field of a block, which may be optional or one of a list.
func (d *described) property(name string) *described {
	for _, form := range append([]*described{d}, d.AnyOf...) {
		if p := form.Properties[name]; p != nil {
			return p
		}
	}
	return &described{}
}

// reference holds the pages of all blocks and fields by path; "" is the path of the experiment.
var reference = sync.OnceValue(func() map[string]*Page {
	var schema described
	if err := json.Unmarshal(schemaText, &schema); err != nil {
		panic("experiment: the embedded schema: " + err.Error()) // TestEveryFieldHasAPage reads it
	}
	r := referenceBuilder{definitions: schema.Definitions, pages: map[string]*Page{}}
	root := &Page{Value: "a block of fields", Default: "by field", Meaning: schema.Description}
	r.pages[""] = root
	r.block(root, experimentType)
	r.grid(root, schema.property("grid"))
	return r.pages
})

type referenceBuilder struct {
	definitions map[string]*described
	pages       map[string]*Page
}

func (r *referenceBuilder) add(to, page *Page) {
	to.Fields = append(to.Fields, page)
	r.pages[page.Path] = page
}

// block adds the pages of the fields of a block.
func (r *referenceBuilder) block(to *Page, t reflect.Type) {
	for _, f := range fieldsOf(t) {
		page := &Page{Path: join(to.Path, f.name), Value: f.expected(), Meaning: r.meaning(to.Path, f.name)}
		page.Default = f.defaultText(page.Meaning)
		r.add(to, page)
		if inner, ok := f.block(); ok {
			r.block(page, inner)
		} else if inner, ok := f.blocks(); ok {
			r.block(page, inner)
		}
	}
}

// meaning returns the description of a field of a block. Blocks in lists have their own descriptions,
// or share the fields of the block that has the list.
func (r *referenceBuilder) meaning(block, name string) string {
	if d := r.definitions[join(block, name)]; d != nil {
		return d.Description
	}
	if list := r.definitions[block]; list != nil {
		if text := list.property(name).Description; text != "" {
			return text
		}
	}
	around, _ := cutLast(block)
	return r.pages[join(around, name)].Meaning
}

// gridFields are the fields of the grid, with their values.
var gridFields = [][2]string{
	{"axes", "a block of lists of values, by path"}, {"include", "a list of blocks of values by path"},
	{"exclude", "a list of blocks of values by path"}, {"replicates", fmt.Sprintf("a whole number from 1 to %d, or a list of seeds", maxReplicates)},
}

func (r *referenceBuilder) grid(root *Page, schema *described) {
	grid := &Page{Path: "grid", Value: "a block of fields", Default: "absent", Meaning: schema.Description}
	r.add(root, grid)
	for _, f := range gridFields {
		r.add(grid, &Page{Path: "grid." + f[0], Value: f[1], Default: "absent", Meaning: schema.property(f[0]).Description})
	}
}

// defaultText returns the default of a field with this description, as printed in the reference.
func (f *field) defaultText(description string) string {
	_, block := f.block()
	switch {
	case block && f.typ.Kind() != reflect.Pointer:
		return "by field"
	case f.required:
		return "required"
	case f.hasDef:
		return f.fallback
	case strings.Contains(description, "by default"):
		return "depends"
	}
	return "absent"
}

// Paths lists the paths of all fields and blocks, in the order of the reference.
func Paths() (paths []string) {
	var walk func(*Page)
	walk = func(p *Page) {
		for _, f := range p.Fields {
			paths = append(paths, f.Path)
			walk(f)
		}
	}
	walk(reference()[""])
	return paths
}

// Explain returns the page of a field or block; the path "" is the whole experiment. For an unknown
// path, the error names the nearest field.
func Explain(path string) (*Page, error) {
	if page := reference()[path]; page != nil {
		return page, nil
	}
	meant := suggestPath(path)
	if around, name := cutLast(path); reference()[around] != nil {
		t := experimentType
		if f, ok := lookup(around); ok {
			t = f.element()
		}
		if t.Kind() == reflect.Struct {
			meant = suggest(name, t, around)
		}
	}
	return nil, fmt.Errorf("field %q: an experiment has none of that path%s", path, readable.DidYouMean(meant))
}

// cutLast splits a path at its last dot.
func cutLast(path string) (before, name string) {
	i := strings.LastIndexByte(path, '.')
	return path[:max(i, 0)], path[i+1:]
}
