package main

import (
	"strings"
	"testing"

	"coalmine/internal/testserver"
)

// stoppedFile overtrains on little text, so that early stopping takes a model from the
// middle of the training.
const stoppedFile = `
name: stopped
data: {source: %s, vocabulary: {size: 60}, users: {words: 60}, partition: iid, share: 1/2, test: {fraction: 10%%}, validation: {fraction: 20%%}}
canaries: {words: 4, per_configuration: 3, user_probability: 1/4, example_probability: 1, held_back: 2}
model: {kind: gru, embedding: 12, units: 24, projection: 0, untied: true}
training:
  algorithm: sgd
  rounds: 205
  cohort: 8
  steps_per_task: 10
  early_stopping: {every: 20, patience: 2}
  client: {optimizer: adam, learning_rate: 0.02}
audit: {every: 50, random_sampling: {references: 300, exact: true}}
`

// targetFile has trainings of both algorithms that end at a recall.
const targetFile = `
name: target
data: {source: %s, vocabulary: {size: 60}, users: {words: 60}, test: {fraction: 10%%}, validation: {fraction: 20%%}}
canaries: {words: 4, per_configuration: 3, user_probability: 1/4, example_probability: 1, held_back: 2}
model: {kind: gru, embedding: 12, units: 24, projection: 0, untied: true}
training:
  rounds: 205
  cohort: 8
  chunks: 2
  stop_at: {recall_at_1: 6%%, every: 20}
audit: {every: 50, random_sampling: {references: 300, exact: true}}
grid:
  axes:
    training:
      - {algorithm: sgd, steps_per_task: 10, client: {optimizer: adam, learning_rate: 0.02}}
      - {algorithm: fedavg, client: {optimizer: adam, learning_rate: 0.02}}
`

// sanitizedFile has canaries of a form that is known, and some of a form that is not.
const sanitizedFile = `
name: sanitized
data: {source: %s, level: byte, sequence: 40, users: {words: 300}}
canaries: {alphabet: digits, format: "ssn ###-##-####", per_configuration: 12, user_probability: 1/10, example_probability: 1/2, held_back: 2}
model: {kind: gru, embedding: 4, units: 5}
training: {algorithm: sgd, rounds: 4, cohort: 4}
audit: {random_sampling: {references: 200, prefix: 4}}
grid:
  axes:
    data.partition: [by-user, iid]
    data.sanitize:
      - {patterns: [card, ssn, phone, email], own: ["[0-9]0"]}
      - {patterns: [ssn], own: ["[aeiou][a-z] "], remove: sentence}
`

// disagreeingFile has two models choose the training data of the third; one cell has
// its text sanitized before.
const disagreeingFile = `
name: disagreeing
data: {source: %s, level: byte, sequence: 40, users: {words: 300}, disagreement: {threshold: 0.05}}
canaries: {alphabet: digits, format: "ssn ###-##-####", per_configuration: 12, user_probability: 1/10, example_probability: 1/2, held_back: 2}
model: {kind: gru, embedding: 8, units: 12}
training: {algorithm: sgd, rounds: 50, cohort: 4, steps_per_task: 10, client: {optimizer: adam, learning_rate: 0.02}}
audit: {random_sampling: {references: 200, prefix: 4}}
grid:
  include:
    - {data.partition: iid}
    - {data.partition: by-user, data.sanitize: {own: ["[0-9]0"]}}
`

func TestDisagreementFilterIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	checkDataOf(t, disagreeingFile)
}

func TestSanitizationIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	checkDataOf(t, sanitizedFile)
}

// checkDataOf has another program draw the data of an experiment again.
func checkDataOf(t *testing.T, file string) {
	t.Helper()
	program := testserver.Python(t, "hashlib")
	dirs := exportCells(t, smallRun(t, file))
	runPython(t, ".", append([]string{program, "-m", "check_data"}, dirs...)...)
}

func TestEarlyStoppingIsRecomputedElsewhere(t *testing.T) {
	t.Parallel()
	numpy := testserver.Python(t, "numpy")
	dirs := exportCells(t, smallRun(t, stoppedFile))
	runPython(t, ".", append([]string{numpy, "-c", withoutTorch, "check_export"}, dirs...)...)
	runPython(t, ".", append([]string{numpy, "-m", "check_data"}, dirs...)...)
}

func TestTargetRecallEndsTrainingElsewhere(t *testing.T) {
	t.Parallel()
	numpy := testserver.Python(t, "numpy")
	home := smallRun(t, targetFile)
	dirs := exportCells(t, home)
	if n := strings.Count(prints(t, "results", "--home", home), "; the training ended there"); n != len(dirs) {
		t.Errorf("%d of %d trainings have ended at their target", n, len(dirs))
	}
	runPython(t, ".", append([]string{numpy, "-c", withoutTorch, "check_export"}, dirs...)...)
}
