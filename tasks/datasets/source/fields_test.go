package source

import (
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/text"
	"slices"
	"strings"
	"testing"
)

func TestTimesAreDatesOrNumbers(t *testing.T) {
	t.Parallel()
	form := lineForm{parse: func([]byte) (Record, error) { return Record{}, nil }}.timed()
	for text, want := range map[string]float64{
		`5`: 5, `-1.5e3`: -1500, `0`: 0, `"1970-01-02"`: 86400, `"1970-01-01T00:00:10Z"`: 10, `"1970-01-01T01:00:00+01:00"`: 0,
		`"1970-01-01T00:00:01.25Z"`: 1.25, `"2010-07-19T19:12:12.510"`: 1279566732.51, `"1790-01-08"`: -5679590400,
	} {
		if got, err := form.parse([]byte(`{"time":` + text + `}`)); err != nil || got.Time != want {
			t.Errorf("the time %s is %v, %v, want %v", text, got.Time, err, want)
		}
	}
	for text, want := range map[string]string{
		`{}`: `"time" is missing`, `{"time":null}`: `"time" is missing`, `{"time":"yesterday"}`: `"yesterday"; expected a date`,
		`{"time":[1]}`: "[1]; expected a date", `{"time":1e999}`: "1e999; expected", `{"time":""}`: `""; expected`,
	} {
		if got, err := form.parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is the time %v, %v, want %s", text, got.Time, err, want)
		}
	}
}

// Groups are read from every form, under any column name.
func TestGroupsOfOtherForms(t *testing.T) {
	t.Parallel()
	const dump = "<posts>\n" + `<row Id="17" OwnerUserId="3" Body="One. Two." />` + "\n</posts>\n"
	for name, c := range map[string]struct {
		reading Reading
		source  string
	}{
		"JSON lines":     {Reading{}, `{"user":"a","text":"b","group":"17"}`},
		"numbers":        {Reading{}, `{"user":"a","text":"b","group":17}`},
		"renamed":        {Reading{Origin: Origin{Columns: forms.Columns{Group: "album"}}}, `{"user":"a","text":"b","album":17}`},
		"CSV":            {Reading{Origin: Origin{Form: forms.CSV, Columns: forms.Columns{Group: "album"}}}, "user,text,album\na,b,17\n"},
		"Stack Exchange": {Reading{Origin: Origin{Form: forms.StackExchange}}, dump},
	} {
		c.reading.Grouped = true
		records, err := readAs(t, c.reading, []byte(c.source))
		if err != nil || len(records) == 0 || slices.ContainsFunc(records, func(r Record) bool { return r.Group != "17" }) {
			t.Errorf("%s: %+v, %v", name, records, err)
		}
	}
}

// A record without a group is named where groups are wanted.
func TestARecordWithoutAGroupIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reading      Reading
		source, want string
	}{
		{Reading{}, `{"user":"a","text":"b"}`, `line 1: "group" is missing; expected`},
		{Reading{}, `{"user":"a","text":"b","group":""}`, `line 1: "group" is empty; expected`},
		{Reading{}, `{"user":"a","text":"b","group":["x"]}`, `line 1: "group" is ["x"]; expected a text or a number`},
		{Reading{Level: text.ImageLevel}, `{"user":"a","label":1,"pixels":"` + strings.Repeat("A", 1045) + `A=="}`, `line 1: "group" is missing; expected`},
		{Reading{Origin: Origin{Form: forms.CSV}}, "user,text,group\na,b,\n", `line 2: "group" is missing`},
		{Reading{Origin: Origin{Form: forms.CSV, Columns: forms.Columns{Group: "album"}}}, "user,text\na,b\n", `there is no column "album"`},
	} {
		c.reading.Grouped = true
		_, err := readAs(t, c.reading, []byte(c.source))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.source, err, c.want)
		}
	}
}
