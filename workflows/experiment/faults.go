package experiment

import (
	"encoding/json"
	"slices"
	"strings"

	"coalmine/tasks/datasets"
)

// Planted returns the faults as parameters of tasks.
func (d *Data) Planted() []datasets.Planted {
	var planted []datasets.Planted
	for _, f := range d.Faults {
		planted = append(planted, datasets.Planted{Fault: f.Fault, Users: f.Users.Float64(), Examples: f.Examples.Float64(), Length: f.Length})
	}
	return planted
}

// faults checks each planted fault by itself.
func (c *checker) faults() {
	level := c.Data.sourceLevel()
	for i := range c.Data.Faults {
		f, path := &c.Data.Faults[i], itemPath("data.faults", i)
		if f.Users.IsZero() && f.Examples.IsZero() {
			c.fail([]string{path, join(path, "users"), join(path, "examples")}, "has no share; expected users or examples, such as {fault: %s, examples: 10%%}", f.Fault)
		}
		levels := faultLevels(f.Fault)
		if !slices.Contains(levels, level) {
			c.fail([]string{join(path, "fault"), "data.level"}, "is %s, and the text is read at the %s level, where there is no such fault; expected the level %s, or another fault", f.Fault, level, listed(levels))
		}
	}
}

// faultLevels returns the levels that support a fault; nil for an unknown fault.
func faultLevels(f datasets.Fault) []datasets.Level {
	for _, s := range datasets.Faults() {
		if s.Fault == f {
			return s.Levels
		}
	}
	return nil
}

func listed(levels []datasets.Level) string {
	var words []string
	for _, l := range levels {
		words = append(words, string(l))
	}
	return strings.Join(words, " or ")
}

// faultsText names planted faults in the label of a cell, by their JSON.
func faultsText(value string) string {
	var faults []Fault
	if value == "" || json.Unmarshal([]byte(value), &faults) != nil {
		return "no fault"
	}
	var texts []string
	for i := range faults {
		texts = append(texts, faults[i].String())
	}
	return strings.Join(texts, " and ")
}

// String returns a phrase such as "join-words in 10% of examples".
func (f *Fault) String() string {
	var of []string
	if !f.Examples.IsZero() {
		of = append(of, f.Examples.String()+" of examples")
	}
	if !f.Users.IsZero() {
		of = append(of, f.Users.String()+" of users")
	}
	return string(f.Fault) + " in " + strings.Join(of, " of ")
}
