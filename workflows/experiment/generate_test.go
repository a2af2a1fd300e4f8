package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// The JSON Schema and the entries of the reference page are generated from the
// types, their tags and their comments:
//
//	go test ./workflows/experiment -rewrite
const (
	schemaFile    = "experiment.schema.json"
	referenceFile = "../../docs/experiment-file.md"
)

// comments are the field comments of the packages that declare fields, by package, type
// and field.
type comments map[string]string

// of is the comment of a field of a type.
func (c comments) of(t *testing.T, owner reflect.Type, field string) string {
	t.Helper()
	if _, read := c[owner.PkgPath()]; !read {
		c[owner.PkgPath()] = "read"
		c.read(t, owner.PkgPath())
	}
	return c[owner.PkgPath()+"."+owner.Name()+"."+field]
}

// read takes in the comments of a package of this module.
func (c comments) read(t *testing.T, path string) {
	t.Helper()
	files, err := filepath.Glob("../../" + strings.TrimPrefix(path, "coalmine/") + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of %s: %v", path, err)
	}
	for _, file := range files {
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments))(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				fieldComments(path, spec, c)
			}
			return true
		})
	}
}

func fieldComments(path string, spec *ast.TypeSpec, found comments) {
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range structure.Fields.List {
		for _, name := range f.Names {
			found[path+"."+spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
	}
}

// documented is a field with all that its tags and comment say.
type documented struct {
	field
	path, comment, unit, source string
	items                       []documented // of a list of blocks: their fields
}

// documentedFields lists every path with its documentation, in the order of the types.
func documentedFields(t *testing.T) []documented {
	t.Helper()
	text := comments{}
	var walk func(structure reflect.Type, prefix string) []documented
	walk = func(structure reflect.Type, prefix string) (out []documented) {
		for _, f := range fieldsOf(structure) {
			d := text.document(t, f, prefix)
			if inner, ok := f.blocks(); ok && !isFormat(inner) {
				d.items = walk(inner, d.path)
			}
			out = append(out, d)
			if inner, ok := f.block(); ok {
				out = append(out, walk(inner, d.path)...)
			}
		}
		return out
	}
	return walk(experimentType, "")
}

// isFormat reports whether a block of a list has the fields of the block that has the list,
// which describes them.
func isFormat(t reflect.Type) bool { return t == reflect.TypeFor[CanaryFormat]() }

// document reads the description of a field in a block.
func (c comments) document(t *testing.T, f field, prefix string) documented {
	t.Helper()
	d := documented{
		field: f, path: join(prefix, f.name),
		comment: f.declared.Tag.Get("doc"),
		unit:    f.declared.Tag.Get("unit"), source: f.declared.Tag.Get("source"),
	}
	if d.comment == "" {
		d.comment = forUsers(c.of(t, f.owner(), f.declared.Name), f.declared.Name, f.name)
	}
	if d.comment == "" {
		t.Errorf("%s.%s has no comment", f.owner(), f.declared.Name)
	}
	return d
}

// forUsers replaces a Go name that begins a comment by the name in the file,
// unless it is a plain word.
func forUsers(comment, goName, name string) string {
	rest, ok := strings.CutPrefix(comment, goName+" ")
	if !ok || strings.EqualFold(goName, name) && goName[1:] == name[1:] {
		return comment
	}
	return name + " " + rest
}

// object is a JSON object; encoding/json sorts its keys.
type object = map[string]any

// schema builds the JSON Schema. Every path has a definition of its own, which
// the body and the grid share. A block has a second one for the grid, where null may
// stand for any field; overrides has the values that the grid may give each path.
func schema(fields []documented) object {
	definitions := object{}
	for _, f := range fields {
		definitions[f.path] = f.schema("")
		if _, ok := f.block(); ok {
			definitions["part of "+f.path] = f.schema("part of ")
		}
	}
	definitions["overrides"] = overrides(fields)
	root := members(experimentType, "", "")
	properties := root["properties"].(object)
	properties["grid"] = gridSchema(fields)
	root["required"] = []string{"name"}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Coalmine experiment"
	root["description"] = "One experiment: data, canaries, model, training, audit, and a grid over any of their fields. Fields that another one requires may also come from the grid."
	root["$defs"] = definitions
	return root
}

func members(t reflect.Type, path, prefix string) object {
	properties := object{}
	for _, f := range fieldsOf(t) {
		properties[f.name] = referTo(&f, join(path, f.name), prefix)
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties}
}

// referTo points to a field's definition, or in a part of the grid to its values there.
// null is allowed for optional blocks.
func referTo(f *field, path, prefix string) object {
	if prefix != "" {
		return overrideOf(path)
	}
	if f.typ.Kind() == reflect.Pointer {
		return valueOrNull(definition(path))
	}
	return definition(path)
}

func definition(name string) object {
	return object{"$ref": "#/$defs/" + strings.ReplaceAll(name, " ", "%20")}
}

func overrideOf(path string) object { return definition("overrides/properties/" + path) }

func valueOrNull(value object) object { return object{"anyOf": []any{value, object{"type": "null"}}} }

func (d *documented) schema(prefix string) object {
	out := d.form(prefix)
	out["description"] = d.description()
	if _, ok := d.block(); !ok && d.hasDef {
		out["default"] = jsonDefault(d)
	}
	return out
}

func (d *documented) form(prefix string) object {
	if t, ok := d.block(); ok {
		return members(t, d.path, prefix)
	}
	if t, ok := d.blocks(); ok {
		one := d.item(t)
		return object{"anyOf": []any{one, object{"type": "array", "minItems": 1, "items": one}}}
	}
	t := d.element()
	switch {
	case d.typ == freeType:
		return object{"type": "object"}
	case t == probabilityType && d.typ.Kind() == reflect.Slice:
		one := d.probability()
		return object{"anyOf": append(one, object{"type": "array", "minItems": 1, "items": object{"anyOf": one}})}
	case d.typ.Kind() == reflect.Slice:
		one := *d
		one.typ = t
		return object{"anyOf": []any{one.form(prefix), object{"type": "array", "minItems": 1, "items": one.form(prefix)}}}
	case t == probabilityType:
		return object{"anyOf": d.probability()}
	case t == shareType:
		return object{"anyOf": []any{
			object{"type": "integer", "minimum": 1, "maximum": 1_000_000_000},
			object{"type": "string", "pattern": `^[0-9]+(\.[0-9]+)?%$`},
		}}
	case len(d.oneOf) > 0:
		return object{"enum": d.oneOf}
	case t.Kind() == reflect.String:
		return object{"type": "string", "pattern": textPatterns[d.path]}
	case t.Kind() == reflect.Bool:
		return object{"type": "boolean"}
	case t.Kind() == reflect.Float64:
		return d.bounded(object{"type": "number"})
	}
	return d.bounded(object{"type": "integer"})
}

// item is a block of a list.
func (d *documented) item(t reflect.Type) object {
	around, properties, required := strings.TrimSuffix(d.path, d.name), object{}, []string{}
	for _, f := range fieldsOf(t) {
		properties[f.name] = object{"$ref": "#/$defs/" + around + f.name}
	}
	for _, f := range d.items {
		properties[f.name] = f.schema("")
		if f.required {
			required = append(required, f.name)
		}
	}
	out := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

var textPatterns = map[string]string{
	"name":                 namePattern.String(),
	"data.source":          `\S`,
	"data.sha256":          sha256Pattern.String(),
	"canaries.format":      `#`,
	"canaries.symbols":     `\S`,
	"training.privacy.key": fingerprintPattern.String(),
}

func (d *documented) probability() []any {
	return []any{
		d.bounded(object{"type": "number"}),
		object{"type": "string", "pattern": `^([0-9]+/[0-9]+|[0-9]+(\.[0-9]+)?%|[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?)$`},
	}
}

func (d *documented) bounded(out object) object {
	if d.limits == nil {
		return out
	}
	low, high := "minimum", "maximum"
	if d.limits.openLow {
		low = "exclusiveMinimum"
	}
	if d.limits.openHigh {
		high = "exclusiveMaximum"
	}
	out[low], out[high] = jsonNumber(d.limits.low), jsonNumber(d.limits.high)
	return out
}

func jsonNumber(r *big.Rat) json.Number { return json.Number(decimalText(r)) }

func jsonDefault(d *documented) any {
	v := reflect.New(d.element()).Elem()
	newDecoder(new(problems)).leaf(&node{kind: scalarNode, text: d.fallback}, v, &d.field, d.path)
	return v.Interface()
}

func (d *documented) description() string {
	text := d.comment
	if d.unit != "" {
		text += " Unit: " + d.unit + "."
	}
	if d.when.field != "" {
		text += fmt.Sprintf(" Only with %s: %s.", d.when.field, strings.Join(d.when.values, ", "))
	}
	if d.source != "" {
		text += " Source: " + d.source + "."
	}
	return text
}

// overrides are fields of one cell of the grid, by path.
func overrides(fields []documented) object {
	values := object{}
	for _, f := range fields {
		if f.path == "name" {
			continue
		}
		name := f.path
		if _, ok := f.block(); ok {
			name = "part of " + name
		}
		values[f.path] = valueOrNull(definition(name))
	}
	return object{"type": "object", "additionalProperties": false, "minProperties": 1, "properties": values, "patternProperties": freePaths(fields)}
}

// freePaths match the paths below fields that hold anything.
func freePaths(fields []documented) object {
	patterns := object{}
	for _, f := range fields {
		if f.typ == freeType {
			patterns["^"+strings.ReplaceAll(f.path, ".", `\.`)+`\.`] = object{}
		}
	}
	return patterns
}

func gridSchema(fields []documented) object {
	axes := object{}
	for _, f := range fields {
		if f.path != "name" {
			axes[f.path] = object{"type": "array", "minItems": 1, "items": overrideOf(f.path)}
		}
	}
	list := func(description string) object {
		return object{"description": description, "type": "array", "items": definition("overrides")}
	}
	return object{
		"description": "Cells to run: every combination of the axes' values, and those included, without those excluded.",
		"anyOf": []any{object{"type": "null"}, object{
			"type": "object", "additionalProperties": false,
			"properties": object{
				"axes": object{
					"description": "Lists of values by path. A block merges field by field, null removes a field, anything else replaces.",
					"type":        "object", "additionalProperties": false, "properties": axes, "patternProperties": freePaths(fields),
				},
				"include": list("Further cells: the body of the file with these fields overridden."),
				"exclude": list("Cells to leave out: those whose fields equal all of these; null is an absent field."),
				"replicates": object{
					"description": "Seeds that every cell is run with, and results are averaged over: how many, from the file's seed upwards, or a list of them.",
					"anyOf": []any{
						object{"type": "null"},
						object{"type": "integer", "minimum": 1, "maximum": maxReplicates},
						object{"type": "array", "minItems": 1, "items": object{"$ref": "#/$defs/seed"}},
					},
				},
			},
		}},
	}
}

// entries writes the fields, block by block. An entry that an earlier block has is a link to it.
func entries(fields []documented) string {
	p := page{headings: map[string]string{}}
	p.block("The experiment", "", fields, "")
	for _, f := range fields {
		if _, ok := f.block(); ok {
			p.block("`"+f.path+"`", f.markdown(), fields, f.path+".")
		}
		if len(f.items) > 0 {
			p.block("`"+f.path+"`", "", f.items, f.path+".")
		}
	}
	return strings.TrimSuffix(p.String(), "\n")
}

// page is the reference as far as it is written, with the first heading of each entry and each block.
type page struct {
	strings.Builder
	headings map[string]string
}

// pageEntry is a field in the list of a block.
type pageEntry struct{ name, text string }

// block writes the fields that stand directly in a block; nothing if all of them are blocks themselves.
func (p *page) block(heading, intro string, fields []documented, prefix string) {
	var list []pageEntry
	whole := intro
	for _, f := range fields {
		if _, ok := f.block(); !ok && f.path == prefix+f.name {
			list = append(list, pageEntry{f.name, f.entry()})
			whole += f.entry()
		}
	}
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(p, "### %s\n\n", heading)
	if earlier, ok := p.headings[whole]; ok {
		fmt.Fprintf(p, "As %s.\n\n", link(earlier))
		return
	}
	p.headings[whole] = heading
	if intro != "" {
		fmt.Fprintf(p, "%s\n\n", intro)
	}
	p.list(heading, list)
}

// list writes entries, and links to those that an earlier block has.
func (p *page) list(heading string, list []pageEntry) {
	for len(list) > 0 {
		earlier, ok := p.headings[list[0].text]
		if !ok {
			p.headings[list[0].text] = heading
			p.WriteString(list[0].text)
			list = list[1:]
			continue
		}
		var names []string
		for len(list) > 0 && p.headings[list[0].text] == earlier {
			names, list = append(names, "`"+list[0].name+"`"), list[1:]
		}
		fmt.Fprintf(p, "- %s: as in %s.\n", strings.Join(names, ", "), link(earlier))
	}
	p.WriteString("\n")
}

// link is a link to a heading.
func link(heading string) string {
	return fmt.Sprintf("[%s](#%s)", heading, strings.NewReplacer("`", "", ".", "").Replace(heading))
}

// shortValue abbreviates a message's words for a value: whole numbers are ranges, others intervals.
func shortValue(text string) string {
	text = strings.NewReplacer("a whole number from 1, or a percentage above 0% such as 10%", "count or percentage", "a whole number from ", "", "a whole number", "integer", "true or false", "boolean", "one of ", "").Replace(text)
	text = fromTo.ReplaceAllString(text, "$1–$2")
	return inWords.ReplaceAllStringFunc(text, func(found string) string {
		m := inWords.FindStringSubmatch(found)
		ends := map[string]string{"above": "(", "from": "[", ", below": ")", ", at most": "]", " to": "]"}
		interval := fmt.Sprintf("%s%s, %s%s", ends[m[2]], m[3], m[5], ends[m[4]])
		if m[1] == "number" {
			return interval
		}
		return m[1] + " " + interval
	})
}

var fromTo = regexp.MustCompile(`^([0-9]+) to ([0-9]+)`)

var inWords = regexp.MustCompile(`a (number|probability) (above|from) ([^ ,]+)(, below|, at most| to) ([^ ,;]+)`)

// otherLevel matches the meaning of a unit at another level, which the page states once.
var otherLevel = regexp.MustCompile(` \((?:byte level: bytes|sgd: steps|sgd: records)\)$`)

// entry is a field's entry in the list of a block: its values, their unit, the default, the condition and the meaning.
func (d *documented) entry() string {
	value, _, _ := strings.Cut(d.expected(), ", such as")
	if _, ok := d.blocks(); ok {
		value = "list of blocks"
	}
	facts := []string{shortValue(value)}
	if unit := otherLevel.ReplaceAllString(d.unit, ""); unit != "" && !strings.HasPrefix(strings.ToLower(d.comment), unit) {
		facts = append(facts, unit)
	}
	switch {
	case d.required:
		facts = append(facts, "required")
	case d.hasDef:
		facts = append(facts, "default `"+d.fallback+"`")
	}
	plain := *d
	if d.when.field != "" {
		facts = append(facts, fmt.Sprintf("with %s: %s", d.when.field, strings.Join(d.when.values, ", ")))
		plain.when.field = ""
	}
	return fmt.Sprintf("- `%s`: %s. %s\n", d.name, strings.Join(facts, "; "), plain.markdown())
}

// markdown is the description without the unit, its source as a short citation: "(Thakkar §4.1)".
func (d *documented) markdown() string {
	plain := *d
	plain.unit, plain.source = "", ""
	text := strings.ReplaceAll(plain.description(), "<", "&lt;")
	if d.source != "" {
		text += " (" + citation.Replace(d.source) + ")"
	}
	return text
}

// citation shortens sources as the reference page says.
var citation = strings.NewReplacer("Thakkar et al. 2020", "Thakkar", "Carlini et al. 2019", "Carlini", "Augenstein et al. 2020", "Augenstein",
	"Orekondy et al. 2018", "Orekondy", " et al. ", " ", ", sections ", " §", ", section ", " §", ", table ", " table ", ", figure ", " figure ",
	", appendix ", " appendix ", ", algorithm ", " algorithm ", ", equation ", " equation ")

func TestSchemaMatchesTypes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	must.Do(t, e.Encode(schema(documentedFields(t))))
	taskstest.File(t, schemaFile, b.Bytes())
}

func TestReferencePageMatchesTypes(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- fields: generated from workflows/experiment -->\n", "<!-- end of fields -->\n"
	page := must.Get(os.ReadFile(referenceFile))(t)
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its markers %q and %q", referenceFile, begin, end)
	}
	taskstest.File(t, referenceFile, []byte(before+begin+"\n"+entries(documentedFields(t))+"\n"+end+after))
}

// owner is the type that declares the field.
func (f *field) owner() reflect.Type {
	if outer := f.declared.Index[:len(f.declared.Index)-1]; len(outer) > 0 {
		return f.structure.FieldByIndex(outer).Type
	}
	return f.structure
}
