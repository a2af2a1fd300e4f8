package results

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// Rows of numbers have each number of the JSON once, at its place, whatever else the JSON has.
func TestRowsOfNumbersHaveAllNumbersOfTheJSON(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"attacks.json", "membership.json", "canaries.json"} {
		r := read(t, file)
		var document struct{ Cells []map[string]any }
		must.Do(t, json.Unmarshal([]byte(written(t, r, "json")), &document))
		want := map[string]float64{}
		for i, cell := range document.Cells {
			addNumbers(want, r.Cells[i].Cell+" ", cell)
		}
		var b bytes.Buffer
		must.Do(t, r.WriteRows(&b, "csv", Numbers))
		rows := must.Get(csv.NewReader(&b).ReadAll())(t)
		if header := strings.Join(rows[0], ","); header != "run,experiment,cell,label,path,value" || len(rows) != len(want)+1 || len(want) < 50 {
			t.Fatalf("%s: %d rows of %s, want %d", file, len(rows)-1, header, len(want))
		}
		for _, row := range rows[1:] {
			place := row[2] + " " + row[4]
			if x, known := want[place]; !known || must.Get(strconv.ParseFloat(row[5], 64))(t) != x {
				t.Errorf("%s: %s is %s, want %v", file, place, row[5], x)
			}
			delete(want, place)
		}
	}
}

// addNumbers adds the numbers of a value of JSON, by their places.
func addNumbers(found map[string]float64, path string, value any) {
	switch value := value.(type) {
	case float64:
		found[path] = value
	case []any:
		for i, v := range value {
			addNumbers(found, fmt.Sprintf("%s[%d]", path, i), v)
		}
	case map[string]any:
		for name, v := range value {
			addNumbers(found, path+"."+name, v)
		}
	}
}
