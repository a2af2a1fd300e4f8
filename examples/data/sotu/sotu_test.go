package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func TestSplitFindsSentences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"We came. We saw.":                         {"We came.", "We saw."},
		"Why? Because! Yes.":                       {"Why?", "Because!", "Yes."},
		`He said "Go." Then he left.`:              {`He said "Go."`, "Then he left."},
		"(So it was.) And is.":                     {"(So it was.)", "And is."},
		"Mr. Speaker, John F. Kennedy spoke.":      {"Mr. Speaker, John F. Kennedy spoke."},
		"Nor do I. We agree.":                      {"Nor do I.", "We agree."},
		"See No. 7 of Art. II. It helps.":          {"See No. 7 of Art. II.", "It helps."},
		"The U.S. share, etc. and so on. 12 more.": {"The U.S. share, etc. and so on.", "12 more."},
		"our workers.We paid 3.50 at x.gov.":       {"our workers.", "We paid 3.50 at x.gov."},
		"Wait... what? no end":                     {"Wait... what? no end"},
		"They left... He stayed":                   {"They left...", "He stayed"},
		"":                                         nil,
	} {
		if got := split(text); !slices.Equal(got, want) {
			t.Errorf("split(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSentencesTrimsSpaceAndDropsWordless(t *testing.T) {
	t.Parallel()
	got := sentences("One\n\ntwo.  * * *. Three\x02four. ... ")
	if want := []string{"One two.", "Three four."}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestALeavingPresidentComesFirst(t *testing.T) {
	t.Parallel()
	addresses := []address{
		{Year: 1953, Name: "Dwight D Eisenhower"}, {Year: 1953, Name: "Harry S Truman"},
		{Year: 1952, Name: "Harry S Truman"}, {Year: 1954, Name: "Dwight D Eisenhower"},
	}
	sortByDate(addresses)
	var got []string
	for _, a := range addresses {
		got = append(got, strings.Fields(a.Name)[2])
	}
	if want := []string{"Truman", "Truman", "Eisenhower", "Eisenhower"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestConvertIsDeterministic(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	for name, a := range map[string]address{
		"1801_b.json": {1801, "B", "Third. \"Fourth & last\""},
		"1790_a.json": {1790, "A", "First. Second."},
	} {
		data := must.Get(json.Marshal(a))(t)
		must.Do(t, os.WriteFile(filepath.Join(from, name), data, 0o600))
	}
	var outputs [2][]byte
	for i := range outputs {
		path := filepath.Join(to, "out.gz")
		must.Do(t, convert(from, path))
		var err error
		if outputs[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(outputs[0], outputs[1]) {
		t.Error("two runs wrote different bytes")
	}
	z := must.Get(gzip.NewReader(bytes.NewReader(outputs[0])))(t)
	got := must.Get(io.ReadAll(z))(t)
	want := `{"user":"A","text":"First."}
{"user":"A","text":"Second."}
{"user":"B","text":"Third."}
{"user":"B","text":"\"Fourth & last\""}
`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestConvertReportsBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(t.TempDir(), "out.gz")
	must.Say(t, convert(dir, out), "no JSON files in")
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.json"), []byte(`{"year":1790}`), 0o600))
	must.Say(t, convert(dir, out), "a.json: expected year, name and text")
}
