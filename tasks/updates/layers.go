package updates

import (
	"fmt"
	"slices"
	"strings"
)

// Select returns the layers of names, in the order of the names: each names a layer, such as
// "cell.input", or a unit, such as "cell", which stands for all layers with that prefix and a dot,
// in order. No names select all layers. It is an error, which lists the layers, if a name matches
// no layer or a layer is named twice.
func Select(all []Layer, names []string) ([]Layer, error) {
	if len(names) == 0 {
		return slices.Clone(all), nil
	}
	var selected []Layer
	for _, name := range names {
		found := layersOf(all, name)
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no layer %q; expected one of %s", name, namesOf(all))
		}
		for _, layer := range found {
			if slices.Contains(selected, layer) {
				return nil, fmt.Errorf("layer %q is named twice, by %q the second time; expected each once", layer.Name, name)
			}
			selected = append(selected, layer)
		}
	}
	return selected, nil
}

// InOrder returns names, as of Select, in the order of their layers in the layout. Names that match
// no layer come last. A layout without layers keeps the order.
func (l *Layout) InOrder(names []string) []string {
	place := func(name string) int {
		if found := layersOf(l.Layers, name); len(found) > 0 {
			return slices.Index(l.Layers, found[0])
		}
		return len(l.Layers)
	}
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return place(a) - place(b) })
	return sorted
}

// layersOf returns the layers that a name stands for.
func layersOf(all []Layer, name string) (found []Layer) {
	for _, layer := range all {
		if layer.Name == name || strings.HasPrefix(layer.Name, name+".") {
			found = append(found, layer)
		}
	}
	return found
}

// namesOf lists layers, for messages.
func namesOf(all []Layer) string {
	names := make([]string, len(all))
	for i, layer := range all {
		names[i] = layer.Name
	}
	return strings.Join(names, ", ")
}

// Span is a part of a recorded vector: its values [From, To).
type Span struct{ From, To int }

// Spans returns the positions of the layers of names, as in Select, in a recorded vector, in
// ascending order regardless of the order of names.
func (l *Layout) Spans(names ...string) ([]Span, error) {
	selected, err := Select(l.Layers, names)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, layer := range selected {
		from := 0
		for _, before := range l.Layers[:slices.Index(l.Layers, layer)] {
			from += before.Values
		}
		spans = append(spans, Span{from, from + layer.Values})
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.From - b.From })
	return spans, nil
}
