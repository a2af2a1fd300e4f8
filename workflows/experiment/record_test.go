package experiment

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
)

// recorded is the spec of a file as a record keeps it and ReadSpec reads it.
func recorded(t *testing.T, text string, sets ...string) *Spec {
	t.Helper()
	spec := parse(t, text, sets...)
	resolveWith(t, spec)
	return must.Get(ReadSpec(spec.Canonical()))(t)
}

// resolveWith gives a spec data with room for everything.
func resolveWith(t *testing.T, spec *Spec) {
	t.Helper()
	facts := make([]Facts, len(spec.Cells))
	for i := range facts {
		must.Do(t, spec.Cells[i].Experiment.ListCanaryWords(strings.Fields("to be or not that is the question whether it nobler in mind suffer slings arrows of outrageous fortune take arms against a sea troubles and by opposing end them die sleep no more")))
		facts[i] = Facts{
			Files: []storage.Digest{storage.DigestOf(nil)}, Users: 1_000_000, HeldOutUsers: 100_000, Examples: 100_000_000, DistinctWords: 10_000_000,
			TestExamples: 1000, Key: strings.Repeat("0", 32),
		}
	}
	must.Do(t, spec.Resolve(facts))
}

func TestExampleRecordsPassCheck(t *testing.T) {
	t.Parallel()
	for name, data := range examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := recorded(t, string(data)).Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestImpossibleRecordsAreRejected(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Spec){
		"cell c01: x: training.cohort: missing; expected a whole number from 1 to 100000000": func(s *Spec) { s.Cells[0].Experiment.Training.Cohort = 0 },
		"training.rounds: is -5":                                                       func(s *Spec) { s.Cells[0].Experiment.Training.Rounds = -5 },
		"training.chunks is none; expected 8":                                          func(s *Spec) { s.Cells[0].Experiment.Training.Chunks = 0 },
		"training.chunks: is 60; expected at most training.cohort, 50":                 func(s *Spec) { s.Cells[0].Experiment.Training.Chunks = 60 },
		"training.steps_per_task: has no effect":                                       func(s *Spec) { s.Cells[0].Experiment.Training.StepsPerTask = 5 },
		`it has index 0, name "c02"`:                                                   func(s *Spec) { s.Cells[0].Name = "c02" },
		`experiment "y"; expected 0, "c01", "x"`:                                       func(s *Spec) { s.Cells[0].Experiment.Name = "y" },
		"data.sha256":                                                                  func(s *Spec) { s.Cells[0].Experiment.Data.SHA256 = "" },
		"data.source: has 1048576 bytes":                                               func(s *Spec) { s.Cells[0].Experiment.Data.Source = strings.Repeat("x", 1<<20) },
		"sources: the 1 files of":                                                      func(s *Spec) { s.Sources = map[string][]storage.Digest{"x": {{}}} },
		"axes: no field of the experiment has the path \"data.colour\"":                func(s *Spec) { s.Cells[0].Axes = Axes{{"data.colour", []byte("1")}} },
		"its label has 1048576 bytes":                                                  func(s *Spec) { s.Cells[0].Label = strings.Repeat("x", 1<<20) },
		`cell c01: its label is "iid\nc02 done"; expected statements about its fields`: func(s *Spec) { s.Cells[0].Label = "iid\nc02 done" },
		"model: does not work with a vocabulary of 10000 words":                        func(s *Spec) { s.Cells[0].Experiment.Model.Embedding = 7 },
		"training.client.optimizer: is the text \"sgdd\"; expected one ":               func(s *Spec) { s.Cells[0].Experiment.Training.Client.Name = "sgdd" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			spec := recorded(t, minimal)
			must.Do(t, spec.Check())
			change(spec)
			err := spec.Check()
			if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 600 {
				t.Errorf("got %.1000v\nwant %s", err, want)
			}
		})
	}
}

func TestOversizedSpecIsRejected(t *testing.T) {
	t.Parallel()
	cells := func(cell string, n int) string {
		return `{"name":"x","cells":[` + strings.TrimSuffix(strings.Repeat(cell+",", n), ",") + `]}`
	}
	for want, document := range map[string]string{
		"more than 100000 cells":                 cells("{}", maxRecordedCells+1),
		"expected at most 2097152":               cells(`{"label":"`+strings.Repeat("x", maxRecordedCell)+`"}`, 1),
		"has no cells":                           `{"name":"x","cells":[]}`,
		"expected [, found":                      `{"name":"x","cells":{}}`,
		"unknown field \"rows\"":                 `{"name":"x","rows":[]}`,
		"unexpected data after the object":       cells("{}", 1) + "{}",
		"cell 1: json: unknown field \"colour\"": cells(`{"colour":1}`, 1),
		"resolved experiment: EOF":               "",
	} {
		_, err := ReadSpec([]byte(document))
		must.Say(t, err, want)
	}
}

// A spec that ReadSpec reads is written again unchanged.
func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for name, data := range examples(t) {
		spec := parse(t, string(data))
		resolveWith(t, spec)
		read, err := ReadSpec(spec.Canonical())
		if err != nil || !bytes.Equal(read.Canonical(), spec.Canonical()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	spec := must.Get(Parse("x", []byte(minimal+fmt.Sprintf("grid: {axes: {seed: [%s]}}", seedList(1000))), Options{}))(b)
	for i := range spec.Cells {
		spec.Cells[i].Experiment.Data.SHA256 = storage.DigestOf(nil).String()
	}
	for b.Loop() {
		must.Do(b, spec.Check())
	}
}
