package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"coalmine/internal/testserver"
)

// parallelText has n pairs: names of digits, and the digits.
func parallelText(n int) string {
	rng := rand.New(rand.NewPCG(7, 7))
	names := strings.Fields("zero one two three four five six seven eight nine")
	var lines strings.Builder
	for i := range n {
		var text, target []string
		for range 1 + rng.IntN(5) {
			digit := rng.IntN(10)
			text, target = append(text, names[digit]), append(target, fmt.Sprint(digit))
		}
		fmt.Fprintf(&lines, `{"user": "u%d", "text": "say %s", "target": "sage %s"}`+"\n", i%20, strings.Join(text, " "), strings.Join(target, " "))
	}
	return lines.String()
}

const pairsFile = `
name: pairs
data: {source: %s, pairs: true, users: {words: 60}, partition: iid, test: {fraction: 10%%%%}}
canaries:
  formats:
    - {format: "%[2]s", target: "%[3]s", %[4]s}
    - {format: "say", target: "%[3]s", %[4]s}
  insertions: [1, 8]
  per_configuration: 2
  held_back: 2
training: {algorithm: sgd, rounds: 60, cohort: 8, client: {learning_rate: 2, gradient_clip: 1}}
audit: {random_sampling: {references: 300, exact: true}, skew_normal: {references: 200}, utility: true}
grid:
  axes:
    data: [%[5]s]
    model:
      - {kind: lstm, embedding: 6, units: 8, layers: 2, projection: 0, untied: true}
      - {kind: gru, embedding: 6, units: 8}
      - {kind: cifg-lstm, embedding: 6, units: 8, layers: 2}
`

// pairsFileOf fills in all but the source.
func pairsFileOf(format, target, symbols, data string) string {
	return fmt.Sprintf(pairsFile, "%s", format, target, symbols, data)
}

func TestExportedTranslationModelReproducesResultsElsewhere(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	numpy := testserver.Python(t, "numpy")
	for level, file := range map[string]string{
		"words": pairsFileOf("say # # #", "sage # # #", `symbols: ["1", "2", "3", "4", "5", "6", "7", "8", "9"]`, "{vocabulary: {size: 22}}"),
		"bytes": pairsFileOf("say ###", "sage # # #", "alphabet: digits", "{level: byte, sequence: 30, users: {words: 300}}"),
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			dirs := exportCells(t, smallRunOf(t, file, parallelText(600)))
			if len(dirs) != 3 {
				t.Fatalf("%d cells, want 3", len(dirs))
			}
			runPython(t, ".", append([]string{numpy, "-c", withoutTorch, "check_pairs"}, dirs...)...)
			runPython(t, ".", append([]string{numpy, "-m", "check_data"}, dirs...)...)
		})
	}
}

// A secret that stands in the target alone is found by all that looks for one after a
// prefix, and they agree on its rank.
func TestEveryAuditFindsTheSecretOfATarget(t *testing.T) {
	t.Parallel()
	home := smallRunOf(t, `
name: target-alone
data: {source: %s, pairs: true, vocabulary: {size: 22}, users: {words: 60}, partition: iid, test: {fraction: 10%%}}
canaries:
  format: "say"
  target: "sage # # #"
  symbols: ["1", "2", "3", "4", "5", "6"]
  insertions: [40]
  per_configuration: 1
  held_back: 3
model: {kind: lstm, embedding: 8, units: 12}
training: {algorithm: sgd, rounds: 300, cohort: 8, client: {learning_rate: 2, gradient_clip: 1}}
audit: {random_sampling: {references: 200, exact: true}, beam_search: {}, search: {}, enumeration: {}}
`, parallelText(600))
	var results struct {
		Cells []struct {
			Audit struct {
				Canaries []struct {
					Words     []string
					Rank      int64
					BeamFound bool  `json:"beam_found"`
					Extracted bool  `json:"search_extracted"`
					Exact     int64 `json:"enumerated_rank"`
				}
			}
		}
	}
	decodeJSON(t, prints(t, "results", "latest", "--home", home, "--json"), &results)
	if len(results.Cells[0].Audit.Canaries) != 1 {
		t.Fatalf("%d canaries, want 1", len(results.Cells[0].Audit.Canaries))
	}
	for _, c := range results.Cells[0].Audit.Canaries {
		if c.Rank != 1 || c.Exact != 1 || !c.BeamFound || !c.Extracted {
			t.Errorf("canary %q was not found: %+v", c.Words, c)
		}
	}
}

// Every training on texts trains on pairs.
func TestEveryTrainingSupportsPairs(t *testing.T) {
	t.Parallel()
	home := smallRunOf(t, `
name: every-way
data: {source: %s, pairs: true, vocabulary: {size: 22}, users: {words: 60}, test: {fraction: 10%%}, validation: {fraction: 10%%}}
canaries: {format: "say # #", target: "sage # #", symbols: ["1", "2", "3", "4", "5", "6", "7"], insertions: 3, per_configuration: 1, held_back: 2}
model: {kind: lstm, embedding: 6, units: 8}
training: {rounds: 6, cohort: 4}
audit: {random_sampling: {references: 30}}
grid:
  axes:
    training:
      - {client: {learning_rate: 1, dropout: 0.2}}
      - {privacy: {clip: 0.5, noise_multiplier: 1, delta: 1e-3}}
      - {algorithm: sgd, cohort: 16, privacy: {clip: 1, noise_multiplier: 0.5, delta: 1e-3}}
      - {algorithm: sgd, cohort: 16, early_stopping: {every: 2}, quantize_bits: 8}
  include:
    - {data.sanitize: {own: "s[a-z]+"}, training: {algorithm: sgd, cohort: 16}}
    - {data.disagreement: {threshold: 1}, training: {algorithm: sgd, cohort: 16}}
`, parallelText(600))
	if cells := cellsOf(t, home); len(cells) != 6 {
		t.Errorf("%d cells, want 6", len(cells))
	}
	if table := prints(t, "results", "latest", "--home", home); !strings.Contains(table, "sanitization caught 1 of 1 canaries") {
		t.Errorf("the canary was not caught:\n%s", table)
	}
}
