package all

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"coalmine/internal/must"
	"coalmine/privacy"
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
func TestColumnNamesAreUnique(t *testing.T) {
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
func TestMeasureReferencesExist(t *testing.T) {
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
func TestLimitsReportAbsentNumbers(t *testing.T) {
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

// Each column has a phrase beside its name, and no two phrases are equal.
func TestMeasureDocsAreUnique(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	measure := func(d *audits.Description, m *audits.Measure) {
		name := d.Name + ", " + m.Name + " " + m.Header
		switch {
		case m.Name == "" && m.Header == "":
			return
		case m.Doc == "":
			t.Errorf("%s: has no Doc", name)
		case said[m.Doc] != "":
			t.Errorf("%s: has the Doc of %s: %q", name, said[m.Doc], m.Doc)
		case strings.HasSuffix(m.Doc, ".") || strings.ContainsAny(m.Doc, "\n\t") || m.Doc != strings.TrimSpace(m.Doc):
			t.Errorf("%s: its Doc %q is no phrase in one line without a full stop", name, m.Doc)
		case unicode.IsUpper(rune(m.Doc[0])) && unicode.IsLower(rune(m.Doc[1])):
			t.Errorf("%s: its Doc %q begins with a capital", name, m.Doc)
		}
		said[m.Doc] = name
	}
	for _, d := range Audits() {
		for i := range d.Measures {
			measure(&d, &d.Measures[i])
		}
		for i := range d.Canary {
			measure(&d, &d.Canary[i])
		}
	}
	if len(said) == 0 {
		t.Error("no audit has a measure")
	}
}

// The exceptions measure no leak, except skew_normal, whose power is that of exposure, and privacy, which is proved.
func TestAuditsHavePowerOrReason(t *testing.T) {
	t.Parallel()
	without := []string{"utility", "baselines", "accuracy_per_user", "samples", "generated_images", "upper_bound", "skew_normal", "privacy"}
	for _, d := range Audits() {
		if said := d.Powerless != ""; said == (d.Power != nil) && !slices.Contains(without, d.Name) {
			t.Errorf("%s: power %t, a reason for none %t", d.Name, d.Power != nil, said)
		}
	}
}

// Audits of membership and of pairs say before training that they are too small for any find, and only then: the
// power for the largest leak is about 0, at each number of users.
func TestPowerReportsTooSmallAudits(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]string{
		"one_run":         `{"one_run": {"canaries": 10, "guesses": {"k_plus": 3, "k_minus": 3}, "delta": 1e-5, "confidence": "95%", "trade_off": true}}`,
		"many_runs":       `{"many_runs": {"runs": 20, "delta": 1e-5, "confidence": "95%"}}`,
		"one_shot":        `{"one_shot": {"canaries": 20, "unseen": 20, "delta": 1e-5, "statistic": "both"}}`,
		"neighbours":      `{"neighbours": {"repeats": 20, "members": 1, "false_alarm": "0.01%"}}`,
		"membership":      `{"membership": {}}`,
		"deanonymization": `{"deanonymization": {"attacks": ["chance"], "confidence": "95%"}}`,
		"attributes":      `{"attributes": {"values": [{}, {}]}}`,
		"matching":        `{"matching": {"pairs": 100}}`,
		"linking":         `{"linking": {"pairs": 100}}`,
		"cross_modal":     `{"cross_modal": {"pairs": 100}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := Audits()
			d := &list[slices.IndexFunc(list, func(d audits.Description) bool { return d.Name == name })]
			f := d.New()
			must.Do(t, json.Unmarshal([]byte(fields), f))
			for _, users := range []int{1, 2, 6, 12} {
				checkTooFew(t, d, &audits.Setting{
					Audits: []audits.Fields{f}, Trained: 5000, TrainedTensors: 5, Data: &audits.Data{Users: users, Seen: users, HeldOutUsers: users},
					Training: audits.Training{Unit: "user", Recipe: privacy.Recipe{Cohort: 1, Rounds: 1, NoiseMultiplier: 1, Delta: 1e-5, Sampling: privacy.Separated}},
				})
			}
		})
	}
}

// A statement names the pairs that it is about: of the pairs of matching only those with a shadow device.
func TestAStatementNamesItsPairs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"matching": "the lower bound of the average precision of pairs with a shadow device is above chance",
		"linking":  "the lower bound of the average precision of pairs of updates is above chance",
	} {
		list := Audits()
		d := &list[slices.IndexFunc(list, func(d audits.Description) bool { return d.Name == name })]
		f := d.New()
		must.Do(t, json.Unmarshal([]byte(`{"`+name+`": {"pairs": 100}}`), f))
		statements := d.Power(&audits.Setting{Audits: []audits.Fields{f}, Data: &audits.Data{Users: 12, Seen: 12}}, nil)
		if len(statements) != 1 || statements[0].Finds != want {
			t.Errorf("%s: %+v, want %q", name, statements, want)
		}
	}
}

func checkTooFew(t *testing.T, d *audits.Description, s *audits.Setting) {
	t.Helper()
	statements := d.Power(s, nil)
	warner, warns := s.Audits[0].(audits.Warner)
	if len(statements) == 0 && !(warns && len(warner.Warnings(s, s.Data)) > 0) {
		t.Errorf("%d users: no statement and no warning", s.Data.Users)
	}
	for _, x := range statements {
		largest := x.Leak.Max
		if d.Name == "neighbours" { // the share of the noise that is there
			largest = x.Leak.Min
		}
		most := x.Power(audits.Question{Sizes: x.Numbers(), Leak: largest})
		if none := most < 1e-3; none != (x.None != "") {
			t.Errorf("%d users, %q: power %g for the largest leak; said is %q", s.Data.Users, x.Name, most, x.None)
		}
	}
}
