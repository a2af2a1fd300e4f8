package all

import (
	"reflect"
	"slices"
	"strings"

	"coalmine/tasks/audits"
)

type texted interface{ Texts() []string }
type rowed interface{ Row() any }

// upgrade gives a description measures that has columns, texts and rows.
func upgrade(d *audits.Description) {
	if d.Measures == nil && d.Verdict != nil {
		if v, ok := d.Verdict().(rowed); ok {
			d.Measures = measuresOf(v)
			for i, c := range d.Columns {
				at := slices.IndexFunc(d.Measures, func(m audits.Measure) bool { return m.Name == c.Measure.Name && m.Name != "" })
				if at < 0 {
					d.Measures, at = append(d.Measures, audits.Measure{}), len(d.Measures)
				}
				m := &d.Measures[at]
				m.Header, m.Leading, m.Optional, m.Place = c.Header, c.Leading, c.Optional, i
				if c.Measure.Name != "" {
					m.Scale = audits.Plain
					if c.Measure.Percent {
						m.Scale = audits.Percent
					}
				}
				m.Digits, m.Among, m.Canary = c.Measure.Digits, c.Measure.Of, c.Measure.Canary
				m.Text = audits.OldValue(reflect.TypeFor[string](), false, func(v any) any { return v.(texted).Texts()[i] })
			}
		}
	}
	if d.Canary == nil && d.Outcome != nil {
		if o, ok := d.Outcome().(rowed); ok {
			d.Canary = measuresOf(o)
			for i := range d.Canary {
				m := &d.Canary[i]
				m.Place = slices.Index(d.Paired, m.Name)
				m.Paired = m.Place >= 0
				for _, drawn := range d.Drawn {
					if drawn.Column == m.Name {
						m.Drawn, m.Scale = drawn.Name, audits.Plain
						if drawn.Unit == 100 {
							m.Scale = audits.Percent
						}
					}
				}
			}
		}
	}
}

func measuresOf(of rowed) (list []audits.Measure) {
	t := reflect.TypeOf(of.Row())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.String {
			kind = reflect.TypeFor[string]()
		}
		list = append(list, audits.Measure{Name: name, Of: audits.OldValue(kind, f.Type.Kind() == reflect.Pointer, func(v any) any {
			value := reflect.ValueOf(v.(rowed).Row()).Field(i)
			if value.Kind() == reflect.Pointer {
				if value.IsNil() {
					return nil
				}
				value = value.Elem()
			}
			return value.Convert(kind).Interface()
		})})
	}
	return list
}
