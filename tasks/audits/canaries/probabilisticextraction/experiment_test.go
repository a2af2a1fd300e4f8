package probabilisticextraction_test

import (
	"strings"
	"testing"

	"coalmine/workflows/experiment"
)

// pairsFile has its secret in the target, which begins after "pin? " and the separator.
const pairsFile = `
name: pairs
data: {source: a.jsonl, level: byte, pairs: true}
canaries: {format: "pin?", target: "pin ##", alphabet: digits, insertions: [1]}
model: {kind: lstm}
training: {cohort: 5, rounds: 5}
audit: {probabilistic_extraction: {prefixes: [9]}}
`

func TestOnlyTheTargetOfAPairIsExtracted(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"audit.probabilistic_extraction.prefix=5":      "",
		"audit.probabilistic_extraction.prefix=4":      "prefix: is 4; expected at least 5, the length of the source",
		"audit.probabilistic_extraction.prefixes=[4]":  "prefixes[0]: is 4; expected at least 5, the length of the source",
		"audit.probabilistic_extraction.prefixes=[11]": "prefixes[0]: is 11; expected less than the length of a canary, 11",
		`canaries.format="pin ##"`:                     "the canaries' secret is in both texts",
	} {
		_, err := experiment.Parse("pairs.yaml", []byte(pairsFile), experiment.Options{Sets: []string{set}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", set, err, want)
		}
	}
}
