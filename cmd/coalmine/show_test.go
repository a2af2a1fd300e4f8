package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
)

// resolvedFile parses an experiment file and resolves it by data that every example
// fits.
func resolvedFile(t *testing.T, name string, text []byte) *experiment.Spec {
	t.Helper()
	spec, err := experiment.Parse(name, text, experiment.Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	fitting := []experiment.Facts{{
		Files: []storage.Digest{storage.DigestOf([]byte("the text"))}, Users: 392_000, Examples: 93_000_000, DistinctWords: 500_000, TestExamples: 16_000_000, HeldOutUsers: 20_000, Unlabelled: 1,
	}}
	facts := slices.Repeat(fitting, len(spec.Cells))
	for i := range facts {
		must.Do(t, spec.Cells[i].Experiment.ListCanaryWords(strings.Fields("to be or not that is the question whether it nobler in mind suffer slings arrows of outrageous fortune take arms against a sea troubles and by opposing end them die sleep no more")))
		facts[i].Prepared = slices.Repeat(fitting, len(spec.Cells[i].Experiment.Sources()))
	}
	if err := spec.Resolve(facts); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return spec
}

// shown is the output of show for a spec.
func shown(t *testing.T, spec *experiment.Spec) string {
	t.Helper()
	var out bytes.Buffer
	must.Do(t, (&global{stdout: &out}).writeSpec(spec))
	return out.String()
}

func TestShowRoundTripsExperiments(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	complete, err := filepath.Glob("../../workflows/plan/compile/testdata/complete/*.yaml")
	if err != nil || len(complete) == 0 {
		t.Fatalf("no files with every field: %v", err)
	}
	for _, path := range append(examples, complete...) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			text := contentOf(t, path)
			spec := resolvedFile(t, path, []byte(text))
			documents := strings.Split(shown(t, spec), "---\n")
			if len(documents) != len(spec.Cells) {
				t.Fatalf("%d documents for %d cells", len(documents), len(spec.Cells))
			}
			for i, cell := range spec.Cells {
				one := *spec
				must.Do(t, onlyCell(&one, cell.Name))
				for _, file := range []string{documents[i], shown(t, &one)} {
					again := resolvedFile(t, cell.Name, []byte(file)).Cells[0].Experiment
					if again.Digest() != cell.Experiment.Digest() {
						t.Errorf("%s is another experiment:\n%s", cell.Name, file)
					}
				}
			}
		})
	}
}

const quickstart = "../../examples/quickstart.yaml"

// The output of data inspect for an experiment equals the counts of its tasks:
// one preparation for each partition, with every copy of a canary counted once.
func TestInspectOfAnExperimentCountsItsCanaries(t *testing.T) {
	t.Parallel()
	args := []string{"data", "inspect", quickstart, "--json", "--set", "canaries.user_probability=1%", "--set", "data.source=../../examples/data/state-of-the-union.jsonl.gz"}
	stdout := prints(t, args...)
	var got struct{ Preparations []preparation }
	decodeJSON(t, stdout, &got)
	if len(got.Preparations) != 2 {
		t.Fatalf("%d preparations, want one for each partition", len(got.Preparations))
	}
	for i, want := range [][]string{{"c01", "c02"}, {"c03", "c04"}} {
		p := &got.Preparations[i]
		copies, replaced := 0, p.Population.ReplacedExamples
		for _, c := range p.Canaries {
			copies += c.Insertions
			if c.UserProbability != "1/100" || c.Canaries != 2 || c.Users < c.Canaries {
				t.Errorf("%v: %+v", p.Cells, c)
			}
		}
		if !slices.Equal(p.Cells, want) || len(p.Canaries) != 3 || copies != replaced || replaced == 0 {
			t.Errorf("cells %v, %d configurations, %d copies in %d replaced examples", p.Cells, len(p.Canaries), copies, replaced)
		}
		if p.Source.Users != 43 || p.Parts.Train.Examples+p.Parts.Test.Examples != p.Source.Examples || p.Balance.Balanced.Users != p.Insertions.Users {
			t.Errorf("counts that do not add up: %+v", p)
		}
	}
}

func TestInspectReportsPlantedFaults(t *testing.T) {
	t.Parallel()
	path, _ := smallFiles(t, `
name: faulty
data: {source: %s, level: byte, users: {words: 0}, select: {words: {outside: 50}}, faults: {fault: join-words, users: 1}}
training: {rounds: 1, cohort: 1}
`, string(taskstest.Text(300)))
	said := prints(t, "data", "inspect", path)
	for _, want := range []string{
		"The examples of the parts and the population are words outside of a vocabulary of 50, and their words are bytes.",
		"Fault join-words was planted in 300 examples of 19 users and changed 300 of them.",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%s\nlacks %q", said, want)
		}
	}
}

func TestInspectRejectsMismatchedFlags(t *testing.T) {
	t.Parallel()
	for words, args := range map[string][]string{
		"--words applies to sources":        {"data", "inspect", quickstart, "--words", "10"},
		"--set applies to experiment files": {"data", "inspect", "text.jsonl", "--set", "seed=2"},
	} {
		refuses(t, words, args...)
	}
}
