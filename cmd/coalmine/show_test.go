package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
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

func TestWhatShowPrintsIsTheSameExperimentAgain(t *testing.T) {
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
