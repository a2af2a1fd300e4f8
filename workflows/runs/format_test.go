package runs_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/runs"
)

// An older leader rejects for good a run with a field that it does not know, unless the number of the format
// tells that a newer build wrote the record. So the list of fields belongs to a number: when it changes, and a
// release has written this number, SpecFormat.Number rises.
func TestRunFormatHasOneListOfFields(t *testing.T) {
	t.Parallel()
	type object struct {
		Properties map[string]any `json:"properties"`
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	must.Do(t, json.Unmarshal(experiment.Schema(), &schema))
	schema.Defs["(top)"] = schema.object
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(schema.Defs)) {
		fields := slices.Sorted(maps.Keys(schema.Defs[name].Properties))
		if len(fields) > 0 && name != "overrides" { // paths of the same fields
			fmt.Fprintf(&list, "%s: %s\n", name, strings.Join(fields, " "))
		}
	}
	taskstest.File(t, fmt.Sprintf("testdata/fields-of-format-%d.txt", runs.SpecFormat.Number), []byte(list.String()))
}
