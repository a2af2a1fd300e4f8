package results

import (
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/tasks/audits/all"
)

// outcomeNumbers returns the numbers in the JSON of the audits' outcomes that have no column among the given ones.
func outcomeNumbers(columns []Column) (list []Column) {
	for _, d := range all.Audits() {
		n := explained{audit: d.Name, columns: columns}
		n.add("", "", reflect.TypeOf(d.Outcome()).Elem())
		list = append(list, n.list...)
	}
	return list
}

// explained collects the numbers in the JSON of an audit's outcome that have no column.
type explained struct {
	audit         string
	columns, list []Column
}

// add adds the numbers of a struct at a path in the JSON. The sentence of a number is the doc tag of its field,
// followed by the doc tags of the enclosing fields in brackets. A number of an outcome nested in one of the same type,
// such as utility.baseline.perplexity, has the sentence of the outer number's column by default.
func (n *explained) add(path, of string, t reflect.Type, around ...reflect.Type) {
	within := append(slices.Clone(around), t)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind, list := element(f.Type)
		doc, named := f.Tag.Get("doc"), name != "" && name != "-"
		switch kind.Kind() {
		case reflect.Struct:
			if f.Anonymous && name == "" {
				n.add(path, of, kind, around...)
			} else if named && lists.Count(within, func(o reflect.Type) bool { return o == kind }) < 2 {
				n.add(path+"."+name, strings.Trim(doc+", "+of, ", "), kind, within...)
			}
		case reflect.Int, reflect.Int64, reflect.Float64:
			number, outer := n.number(path+"."+name, kind), n.number("."+name, kind)
			if !named || number.column(n.columns) != nil {
				continue
			}
			if same := outer.column(n.columns); doc == "" && same != nil && slices.Contains(around, t) {
				doc = same.Doc
			}
			if number.Doc = strings.TrimSuffix(doc, ","); doc != "" && of != "" {
				number.Doc += " (" + of + ")"
			}
			if list {
				number.Value = "list of " + number.Value + "s"
			}
			n.list = append(n.list, number)
		}
	}
}

func (n *explained) number(path string, t reflect.Type) Column {
	return Column{Path: n.audit + path, Audit: n.audit, Value: valueName(t)}
}

// element returns the type behind pointers, and of the elements of lists.
func element(t reflect.Type) (of reflect.Type, list bool) {
	for {
		switch t.Kind() {
		case reflect.Slice, reflect.Array:
			list = true
		case reflect.Pointer:
		default:
			return t, list
		}
		t = t.Elem()
	}
}

// column returns the column with the number, named as on the page: audit_name or name.
func (c *Column) column(columns []Column) *Column {
	name := strings.ReplaceAll(strings.TrimPrefix(c.Path, c.Audit+"."), ".", "_")
	return lists.Find(columns, func(o *Column) bool {
		return o.Audit == c.Audit && o.Name != "" && (o.Name == name || o.Name == c.Audit+"_"+name)
	})
}
