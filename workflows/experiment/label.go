package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"coalmine/internal/readable"
	"coalmine/models/optimizers"
	"coalmine/privacy"
)

// leafValue is the path and JSON value of a field in a resolved experiment.
type leafValue struct {
	path string
	json string
}

// leafValues returns the fields in a resolved experiment, in the order of the types.
func leafValues(e *Experiment) []leafValue {
	var out []leafValue
	var walk func(v reflect.Value, path string)
	walk = func(v reflect.Value, path string) {
		for _, f := range fieldsOf(v.Type()) {
			inner, name := f.in(v), join(path, f.name)
			if f.absent(inner) {
				continue
			}
			if _, ok := f.block(); ok {
				walk(reflect.Indirect(inner), name)
				continue
			}
			value := mustMarshal(inner.Interface())
			if f.typ != freeType {
				out = append(out, leafValue{name, string(value)})
				continue
			}
			for _, leaf := range Leaves(name, value) {
				out = append(out, leafValue{leaf.Path, string(leaf.Value)})
			}
		}
	}
	walk(reflect.ValueOf(e).Elem(), "")
	return out
}

// absent reports whether the JSON omits a field.
func (f *field) absent(v reflect.Value) bool { return f.omitZero && v.IsZero() }

// label sets the label of each cell: the one that the file gives, or one that states the cell's settings.
// Cells with the same label in the file get both.
func label(cells []Cell) {
	labelBySettings(cells)
	times := make(map[string]int)
	for i := range cells {
		times[cells[i].Experiment.Label]++
	}
	for i := range cells {
		switch given := cells[i].Experiment.Label; {
		case given == "":
		case times[given] == 1:
			cells[i].Label = given
		default:
			cells[i].Label = given + ", " + cells[i].Label
		}
	}
}

// labelBySettings labels cells with those parts of the setting (partition, algorithm, batch) in which they
// differ, and then with other fields until the labels differ.
func labelBySettings(cells []Cell) {
	columns := differingColumns(cells)
	for _, part := range settingParts {
		if len(cells) == 1 || part.differs(columns) {
			for i := range cells {
				addPart(&cells[i], part.text(&cells[i].Experiment))
			}
		}
	}
	for _, path := range slices.Concat(allPaths(), slices.Sorted(maps.Keys(columns))) { // allPaths lacks fields of free blocks
		column := columns[path]
		if !distinguishes(cells, column) {
			continue
		}
		for i := range cells {
			addPart(&cells[i], cells[i].wording(path, column[i]))
		}
	}
}

// differingColumns returns, by path, the JSON values of the fields in which cells differ, one per cell. A value is ""
// if the field is absent. It excludes the label, and rounds that follow from epochs.
func differingColumns(cells []Cell) map[string][]string {
	first := make(map[string]string)
	for _, leaf := range leafValues(cells[0].Experiment.asFile()) {
		first[leaf.path] = leaf.json
	}
	columns := make(map[string][]string)
	defer delete(columns, labelPath)
	for i := range cells {
		here := make(map[string]bool, len(first))
		for _, leaf := range leafValues(cells[i].Experiment.asFile()) {
			here[leaf.path] = true
			setValue(columns, leaf, i, len(cells), first[leaf.path])
		}
		for path, value := range first {
			if !here[path] {
				setValue(columns, leafValue{path, ""}, i, len(cells), value)
			}
		}
	}
	return columns
}

// labelPath is the path of the label, which is never a part of labels.
const labelPath = "label"

// Unlabelled returns the fields in which cells differ but which their labels omit, in the order of the
// file. It omits the seed of replicates.
func (s *Spec) Unlabelled() (paths []string) {
	columns := differingColumns(s.Cells)
	for _, path := range slices.Concat(allPaths(), slices.Sorted(maps.Keys(columns))) {
		column := columns[path]
		if column == nil || path == seedPath && s.Cells[0].Row != nil || s.labelled(path, column) || slices.Contains(paths, path) {
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// labelled reports whether the labels of all cells state the value of a field, directly or in a part of the setting.
func (s *Spec) labelled(path string, column []string) bool {
	for _, part := range settingParts {
		if slices.Contains(part.fields, path) && s.determines(part, column) {
			return true
		}
	}
	for i := range s.Cells {
		if !strings.Contains(s.Cells[i].Label, s.Cells[i].wording(path, column[i])) {
			return false
		}
	}
	return true
}

// determines reports whether all labels contain a part of the setting, and equal texts of that part mean
// equal values in the column.
func (s *Spec) determines(part settingPart, column []string) bool {
	values := make(map[string]string)
	for i := range s.Cells {
		text := part.text(&s.Cells[i].Experiment)
		value, known := values[text]
		if known && value != column[i] || !strings.Contains(s.Cells[i].Label, text) {
			return false
		}
		values[text] = column[i]
	}
	return true
}

// setValue records the value of a cell in a column. The column begins to exist at the first cell that
// differs from cell 0.
func setValue(columns map[string][]string, leaf leafValue, cell, cells int, first string) {
	column, there := columns[leaf.path]
	if !there && leaf.json == first {
		return
	}
	if !there {
		column = slices.Repeat([]string{first}, cells)
		columns[leaf.path] = column
	}
	column[cell] = leaf.json
}

func addPart(c *Cell, part string) {
	if c.Label != "" && part != "" {
		c.Label += ", "
	}
	c.Label += part
}

// settingPart is a part of the setting in the papers' tables.
type settingPart struct {
	fields []string
	text   func(*Experiment) string
}

var settingParts = []settingPart{
	{[]string{"data.partition"}, func(e *Experiment) string { return string(e.Data.Partition) }},
	{
		[]string{
			"training.algorithm", "training.client.optimizer", "training.server.optimizer",
			"training.privacy.clip", "training.privacy.noise_multiplier", "training.privacy.mechanism.kind",
		},
		func(e *Experiment) string { return e.Training.Setting() },
	},
	{[]string{"training.cohort"}, func(e *Experiment) string { return e.Training.batch() }},
	{[]string{"data.devices.defence.replace", "data.devices.defence.augment", "data.devices.defence.modes"}, func(e *Experiment) string { return e.Data.Devices.label() }},
	{
		[]string{"data.select.examples", "data.select.users.below", "data.select.users.above", "prepare.second_language_model.steps"},
		func(e *Experiment) string { return e.Data.Select.label(e.Prepare) },
	},
}

// differs reports whether cells differ in a field of the part.
func (p settingPart) differs(columns map[string][]string) bool {
	return slices.ContainsFunc(p.fields, func(path string) bool { return columns[path] != nil })
}

// distinguishes reports whether cells with equal labels differ in a field. The column is nil if all cells agree.
func distinguishes(cells []Cell, column []string) bool {
	if column == nil {
		return false
	}
	first := make(map[string]string, len(cells))
	for i := range cells {
		value, known := first[cells[i].Label]
		if known && value != column[i] {
			return true
		}
		first[cells[i].Label] = column[i]
	}
	return false
}

// wordings are short forms of frequent fields, for labels.
var wordings = map[string]string{
	"seed":                              "seed %s",
	"training.rounds":                   "%s rounds",
	"training.epochs":                   "%s epochs",
	"training.quantize_bits":            "%s-bit weights",
	"training.privacy.clip":             "clip %s",
	"training.privacy.noise_multiplier": "noise multiplier %s",
	"training.privacy.conversion":       "%s conversion",
	"model.adapters.rank":               "adapters of rank %s",
}

// absences are short forms of absent fields, for labels.
var absences = map[string]string{"model.adapters.rank": "no adapters"}

func wording(path, value string) string {
	if path == "data.faults" {
		return faultsText(value)
	}
	if value == "" {
		return cmp.Or(absences[path], "no "+readable.Text(path))
	}
	text := plain(json.RawMessage(value))
	if format, ok := wordings[path]; ok {
		return fmt.Sprintf(format, text)
	}
	return readable.Text(path) + "=" + text
}

// wording describes the value of a field. An empty value means that the cell's JSON omits the field.
func (c *Cell) wording(path, value string) string {
	if value == "" {
		value = c.Experiment.omittedZero(path)
	}
	return wording(path, value)
}

// omittedZero returns the JSON of a number or switch that is omitted because it is zero. It returns "" if
// the field has another value or does not apply, because a block around it is absent or zero is out of range.
func (e *Experiment) omittedZero(path string) string {
	f, v, ok := fieldAt(reflect.ValueOf(e), path)
	if !ok {
		return ""
	}
	counts := v.Kind() == reflect.Bool || v.CanInt() || v.CanFloat()
	if !counts || !f.absent(v) || !f.limits.contains(new(big.Rat)) {
		return ""
	}
	return string(mustMarshal(v.Interface()))
}

// Setting names the training as in the tables of Thakkar et al. 2020 (SGD, Momentum, DP-SGD, FedAvg,
// FedAvg+Adam, FedAvg+Clip, DP-FedAvg), or DP-FTRL with its mechanism.
func (t *Training) Setting() string {
	switch {
	case t.Algorithm == External:
		return "external"
	case t.Central() && t.Privacy == nil:
		return t.Client.title()
	case t.Central() && t.Privacy.NoiseMultiplier == 0:
		return t.Client.title() + "+Clip"
	case t.Central():
		return "DP-" + t.Client.title()
	}
	var also []string
	if t.Privacy != nil && t.Privacy.NoiseMultiplier == 0 {
		also = append(also, "Clip")
	}
	if t.Server != nil && t.Server.Name != optimizers.SGD {
		also = append(also, t.Server.title())
	}
	switch {
	case t.ClientCommand != "":
		also = append(also, "external clients")
	case t.Client.Name != optimizers.SGD:
		also = append(also, "client "+t.Client.title())
	}
	return strings.Join(append([]string{t.averaging()}, also...), "+")
}

// batch returns the cohort as in "b=500", or "" without one.
func (t *Training) batch() string {
	if t.Cohort == 0 {
		return ""
	}
	return "b=" + strconv.Itoa(t.Cohort)
}

// averaging names the kind of federated averaging.
func (t *Training) averaging() string {
	switch p := t.Privacy; {
	case p == nil || p.NoiseMultiplier == 0:
		return "FedAvg"
	case p.NoiseBy == privacy.ByDevices:
		return "DP-FedAvg (noise by devices)"
	case p.Mechanism == nil:
		return "DP-FedAvg"
	default:
		return "DP-FTRL (" + string(p.Mechanism.Kind) + ")"
	}
}
