package results

import (
	"reflect"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/audits/all"
)

// variants are the blocks of outcomes nested in an outcome of utility, with the ends of their explanations.
var variants = []struct{ block, end string }{
	{"all_targets.", ", over all targets, with <unk> and <end>"},
	{"baseline.", ", of a model that knows only the frequencies of the training part"},
}

// outcomeNumbers returns the numbers in the JSON of the audits' outcomes that have no column among the given ones.
func outcomeNumbers(columns []Column) (list []Column) {
	for _, d := range all.Audits() {
		own := numbersOf(d.Name, reflect.TypeOf(d.Outcome()))
		for _, n := range own {
			if n.column(columns, "") == nil {
				list = append(list, n)
			}
		}
		if d.Utility == nil {
			continue
		}
		for _, within := range variants {
			for _, n := range own {
				n.Path = strings.Replace(n.Path, ".", "."+within.block, 1)
				if n.column(columns, "") != nil {
					continue
				}
				if same := n.column(columns, within.block); n.Doc == "" && same != nil {
					n.Doc = same.Doc
				}
				n.Doc += within.end
				list = append(list, n)
			}
		}
	}
	return list
}

// numbersOf returns the numbers of a struct by their place in JSON, with the sentences of their doc tags.
func numbersOf(audit string, t reflect.Type) (list []Column) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch kind.Kind() {
		case reflect.Struct:
			if name == "" && f.Anonymous {
				list = append(list, numbersOf(audit, kind)...)
			}
		case reflect.Int, reflect.Int64, reflect.Float64:
			if name != "" && name != "-" {
				list = append(list, Column{Path: audit + "." + name, Audit: audit, Value: valueName(kind), Doc: f.Tag.Get("doc")})
			}
		}
	}
	return list
}

// column returns the column with the number, named as on the page: audit_name or name. It ignores the block
// at the beginning of the number's path.
func (c *Column) column(columns []Column, block string) *Column {
	name := strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(c.Path, c.Audit+"."), block), ".", "_")
	return lists.Find(columns, func(o *Column) bool {
		return o.Audit == c.Audit && o.Name != "" && (o.Name == name || o.Name == c.Audit+"_"+name)
	})
}
