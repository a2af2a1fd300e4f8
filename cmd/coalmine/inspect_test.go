package main

import (
	"slices"
	"strings"
	"testing"

	"coalmine/tasks/taskstest"
)

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

func TestInspectOfAnExperimentSaysWhereFaultsArePlanted(t *testing.T) {
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

func TestFlagsOfASourceAreRefusedForAnExperiment(t *testing.T) {
	t.Parallel()
	for words, args := range map[string][]string{
		"--words is for sources":        {"data", "inspect", quickstart, "--words", "10"},
		"--set is for experiment files": {"data", "inspect", "text.jsonl", "--set", "seed=2"},
	} {
		refuses(t, words, args...)
	}
}
