package all

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/audits"
)

// A folder beside this one that describes an audit stands in the list.
func TestEveryFolderOfAnAuditIsInTheList(t *testing.T) {
	t.Parallel()
	list := must.Get(os.ReadFile("all.go"))(t)
	files, err := filepath.Glob("../*/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no audits: %v", err)
	}
	described := 0
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		if !strings.Contains(string(text), "\nvar Audit = ") {
			continue
		}
		described++
		if folder := filepath.Base(filepath.Dir(file)); !strings.Contains(string(list), "\t"+folder+".Audit,") {
			t.Errorf("the audit of package %s is not in the list of all.go", folder)
		}
	}
	if described != len(Audits()) {
		t.Errorf("%d folders describe an audit, %d are in the list; describe each as var Audit", described, len(Audits()))
	}
}

// Properties that the types do not require.
func TestDescriptionsAreComplete(t *testing.T) {
	t.Parallel()
	for _, d := range Audits() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			if (d.New == nil) == (d.Derive == nil) {
				t.Error("expected one of New, for what an experiment asks for, and Derive, for what follows")
			}
			if d.New != nil && len(d.Kinds) == 0 {
				t.Error("is asked for, and no kind of task measures it")
			}
			if says := d.CanaryOutcomesBlob != "" || d.Own != nil; says != (d.CanaryOutcome != nil) {
				t.Errorf("has a CanaryOutcome: %v; a CanaryOutcomesBlob, or canaries of its own: %v", d.CanaryOutcome != nil, says)
			}
			for _, c := range d.Curves() {
				if c.Figure == "" || c.Name == "" || c.Metric == "" || c.AxisEnd == nil {
					t.Errorf("curve %+v lacks something", c)
				}
			}
		})
	}
}

// Columns of CSV and Parquet have names of their own in both tables, that of the cells and
// that of the canaries.
func TestColumnsHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	cells, canaries := []string{}, []string{}
	for _, d := range Audits() {
		cells, canaries = append(cells, columnsOf(d.Measures)...), append(canaries, columnsOf(d.Canary)...)
	}
	for _, names := range [][]string{cells, canaries} {
		slices.Sort(names)
		if unique := slices.Compact(slices.Clone(names)); len(unique) != len(names) {
			t.Errorf("a name is there twice: %q", names)
		}
	}
}

// columnsOf are the columns of measures.
func columnsOf(measures []audits.Measure) (names []string) {
	for _, c := range audits.FieldColumns(measures) {
		names = append(names, c.Name)
	}
	return names
}

// A page in docs/method defines what each audit measures, under a heading of its name.
func TestTheMethodOfEveryAuditIsWrittenDown(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../docs/method/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs/method: %v", err)
	}
	var text strings.Builder
	for _, page := range pages {
		data := must.Get(os.ReadFile(page))(t)
		text.WriteString("\n" + strings.ToLower(strings.ReplaceAll(string(data), "-", " ")))
	}
	for _, d := range Audits() {
		heading := "# " + strings.ReplaceAll(d.Name, "_", " ")
		if d.New != nil && !strings.Contains(text.String(), "\n"+heading) && !strings.Contains(text.String(), "\n#"+heading) {
			t.Errorf("no page in docs/method has a section about %s", d.Name)
		}
	}
}

// A measure's names exist.
func TestMeasuresNameOthers(t *testing.T) {
	t.Parallel()
	for _, d := range Audits() {
		measures, canary := columnsOf(d.Measures), columnsOf(d.Canary)
		for _, m := range d.Measures {
			if m.Among != "" && !slices.Contains(measures, m.Among) {
				t.Errorf("%s, %s: outcomes have no measure %q", d.Name, m.Header, m.Among)
			}
			if m.Canary != "" && !slices.Contains(canary, m.Canary) {
				t.Errorf("%s, %s: outcomes of canaries have no measure %q", d.Name, m.Header, m.Canary)
			}
			if m.Name == "" && m.Header == "" && m.Curve == nil && m.Drawn == "" {
				t.Errorf("%s: a measure has neither a column of tables, nor one of CSV, nor a figure", d.Name)
			}
		}
	}
}

// A limit on a number without a value is not kept in silence: of a cell without the outcome, and of one whose
// outcome has measured nothing. Of natural secrets, 0 in the text are a number.
func TestALimitOnAbsentNumbersIsNotKeptInSilence(t *testing.T) {
	t.Parallel()
	limits := 0
	for _, d := range Audits() {
		for _, l := range generous(t, &d) {
			limits++
			cells := map[string]*audits.Cell{"no outcome": {}}
			if d.Outcome != nil && l.Name != "natural_found" {
				cells["an outcome of no measurement"] = &audits.Cell{Outcomes: []audits.Outcome{d.Outcome()}}
			}
			for what, c := range cells {
				said := append(l.Breaches(c, l.Value), l.Unjudged(c, l.Value)...)
				if len(said) != 1 || !strings.Contains(strings.ToLower(said[0]), strings.Split(l.Name, "_")[0]) {
					t.Errorf("%s of a cell with %s: %q", l.Name, what, said)
				}
			}
		}
	}
	if limits == 0 {
		t.Error("no audit has a limit")
	}
}

// generous returns the limits of an audit with values that nothing measured is beyond.
func generous(t *testing.T, d *audits.Description) (given []audits.GivenLimit) {
	t.Helper()
	for i := range d.Limits {
		limits := d.NewLimits()
		for _, value := range []string{`1000`, `"99%"`} {
			if json.Unmarshal(fmt.Appendf(nil, `{%q: %s}`, d.Limits[i].Name, value), limits) == nil {
				break
			}
		}
		given = append(given, d.GivenLimits(limits)...)
	}
	if len(given) != len(d.Limits) {
		t.Errorf("%s: %d of %d limits have a value", d.Name, len(given), len(d.Limits))
	}
	return given
}
