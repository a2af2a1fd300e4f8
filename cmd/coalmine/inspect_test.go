package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const quickstart = "../../examples/quickstart.yaml"

// What data inspect says of an experiment is what its tasks would find: one
// preparation for each partition, with every copy of a canary counted once.
func TestInspectOfAnExperimentCountsItsCanaries(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	args := []string{"data", "inspect", quickstart, "--json", "--set", "canaries.user_probability=1%", "--set", "data.source=../../examples/data/state-of-the-union.jsonl.gz"}
	if code := execute(t.Context(), args, &stdout, &stderr); code != exitDone {
		t.Fatalf("exit status %d: %s", code, &stderr)
	}
	var got struct{ Preparations []preparation }
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
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

func TestFlagsOfASourceAreRefusedForAnExperiment(t *testing.T) {
	t.Parallel()
	for words, args := range map[string][]string{
		"--words is for sources":        {"data", "inspect", quickstart, "--words", "10"},
		"--set is for experiment files": {"data", "inspect", "text.jsonl", "--set", "seed=2"},
	} {
		var stdout, stderr bytes.Buffer
		if code := execute(t.Context(), args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), words) {
			t.Errorf("%v: exit status %d, %s", args, code, &stderr)
		}
	}
}
