package experiment

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"coalmine/internal/readable"
)

// Difference is a field with different values in two resolved experiments.
type Difference struct {
	// Path is the path of the field, such as training.client.learning_rate.
	Path string `json:"path"`
	// Before and After are its values, null if the field is absent.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// String returns a text such as "training.rounds: 40 -> 60".
func (d Difference) String() string {
	return readable.Text(d.Path) + ": " + plainOrNone(d.Before) + " -> " + plainOrNone(d.After)
}

func plainOrNone(value json.RawMessage) string {
	if string(value) == "null" {
		return "none"
	}
	return plain(value)
}

// Differences lists the fields that differ between two resolved experiments, in the order of the
// experiment file; fields within free blocks come last.
func Differences(before, after *Experiment) []Difference {
	values := func(e *Experiment) map[string]string {
		out := make(map[string]string)
		for _, leaf := range leafValues(e) {
			out[leaf.path] = leaf.json
		}
		return out
	}
	old, now := values(before), values(after)
	out := []Difference{}
	add := func(path string) {
		if old[path] != now[path] {
			out = append(out, Difference{path, orNull(old[path]), orNull(now[path])})
		}
		delete(old, path)
		delete(now, path)
	}
	for _, path := range allPaths() {
		add(path)
	}
	free := append(slices.Collect(maps.Keys(old)), slices.Collect(maps.Keys(now))...)
	slices.Sort(free)
	for _, path := range slices.Compact(free) {
		add(path)
	}
	return out
}

func orNull(value string) json.RawMessage {
	if value == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(value)
}

// comparedCells limits the cells that SpecDifferences compares, to bound its time.
const comparedCells = 1000

// SpecDifferences lists the different fields of cells at the same point of the grid, or of the only
// cells, each difference once, without rounds that follow from epochs; then the numbers of cells if
// they differ.
func SpecDifferences(before, after *Spec) []Difference {
	out, known := []Difference{}, map[string]bool{}
	at := map[string]*Experiment{}
	for i := range before.Cells {
		at[before.point(i)] = before.Cells[i].Experiment.asFile()
	}
	for i := range min(len(after.Cells), comparedCells) {
		old := at[after.point(i)]
		if old == nil && len(before.Cells) == 1 && len(after.Cells) == 1 {
			old = before.Cells[0].Experiment.asFile()
		}
		if old == nil {
			continue
		}
		for _, d := range Differences(old, after.Cells[i].Experiment.asFile()) {
			if text := d.String(); !known[text] {
				known[text] = true
				out = append(out, d)
			}
		}
	}
	if old, now := len(before.Cells), len(after.Cells); old != now || len(out) == 0 && !bytes.Equal(before.Canonical(), after.Canonical()) {
		out = append(out, Difference{"grid", cellCount(old), cellCount(now)})
	}
	return out
}

// point returns the point of the grid of a cell.
func (s *Spec) point(cell int) string { return s.Cells[cell].Axes.String() }

func cellCount(n int) json.RawMessage {
	return json.RawMessage(strconv.Quote(readable.Count(n, "cell")))
}
