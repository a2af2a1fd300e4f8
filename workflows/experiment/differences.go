package experiment

import (
	"encoding/json"
	"maps"
	"slices"

	"coalmine/internal/visible"
)

// Difference is a field that two resolved experiments hold with different values.
type Difference struct {
	// Path is the field's, such as training.client.learning_rate.
	Path string `json:"path"`
	// Before and After are its values, null where the field is absent.
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// String is "training.rounds: 40 -> 60".
func (d Difference) String() string {
	return visible.Text(d.Path) + ": " + plainOrNone(d.Before) + " -> " + plainOrNone(d.After)
}

// plainOrNone is a value for people.
func plainOrNone(value json.RawMessage) string {
	if string(value) == "null" {
		return "none"
	}
	return plain(value)
}

// Differences lists the fields in which two resolved experiments differ, in the
// order of the experiment file; those within free blocks last.
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
