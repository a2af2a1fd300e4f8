package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestExplainPrintsFieldsAndBlocks(t *testing.T) {
	t.Parallel()
	field := prints(t, "explain", "training.privacy.noise_multiplier")
	for _, want := range []string{"a number from 0 to 1000000", "default: 0", "clip / cohort"} {
		if !strings.Contains(field, want) {
			t.Errorf("the page lacks %q:\n%s", want, field)
		}
	}
	block := prints(t, "explain", "training.privacy")
	for _, want := range []string{"\n  noise_multiplier (default 0)\n      Noise multiplier z: ", "\n  clip (required)\n      "} {
		if !strings.Contains(block, want) || strings.Contains(block, "…") {
			t.Errorf("the page of the block lacks %q:\n%s", want, block)
		}
	}
	for line := range strings.Lines(field + block + prints(t, "explain") + prints(t, "explain", "training.job")) {
		if len([]rune(line)) > 100 {
			t.Errorf("a line of %d characters: %s", len([]rune(line)), line)
		}
	}
	refuses(t, "did you mean training.client.learning_rate?", "explain", "lr")
}

func TestExplainPrintsAColumnOfResults(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"random_sampling_memorized", "RS memorized"} {
		page := prints(t, "explain", name)
		for _, want := range []string{`column random_sampling_memorized, in the table "RS memorized"`, "rows: cells\n", "audit: random_sampling\n", "value: integer\n", "Lower is better."} {
			if !strings.Contains(page, want) {
				t.Errorf("the page of %s lacks %q:\n%s", name, want, page)
			}
		}
	}
	if both := prints(t, "explain", "seed"); !strings.Contains(both, "default: 1\n") || !strings.Contains(both, "column seed\n") {
		t.Errorf("the field seed and the column seed are not both explained:\n%s", both)
	}
	if rate := prints(t, "explain", "learning_rate"); !strings.Contains(rate, "column learning_rate\n") || !strings.Contains(rate, "\n  training.client.learning_rate\n") {
		t.Errorf("the column learning_rate is explained without the field:\n%s", rate)
	}
	all := prints(t, "explain", "results")
	for _, want := range []string{"--rows canaries\n", "--rows rounds\n", "\n  one_run_guess\n", "\n  client_norm_median\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("the list of columns lacks %q", want)
		}
	}
	refuses(t, "did you mean recall_at_1?", "explain", "recall_at1")
}

func TestExplainCompletesFields(t *testing.T) {
	t.Parallel()
	if got := prints(t, "__complete", "explain", "training.privacy.noise_"); !strings.HasPrefix(got, "training.privacy.noise_multiplier\ntraining.privacy.noise_by\n:") {
		t.Errorf("completed to %s", got)
	}
}

func TestTheSchemaIsJSON(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal([]byte(prints(t, "schema")), &schema); err != nil || schema["$defs"] == nil {
		t.Errorf("%v; %d members", err, len(schema))
	}
}
