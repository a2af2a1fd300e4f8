package experiment

import (
	"fmt"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/forms"
	"coalmine/tasks/datasets/source"
)

const besideTable = `
name: beside
data:
  source: a.csv
  form: csv
  columns: {user: author, split: subset}
  on_error: skip
  select: {examples: unlikely, percentile: 90%%}
  background: {source: crowd.csv%[1]s}
  devices: {size: 4, defence: {augment: 1}}
prepare: {language_model: {source: public.csv%[1]s, steps: 9, learning_rate: 1}}
training: {rounds: 20, cohort: 4}
audit: {utility: true}
`

// A second source is read as the data are, unless it has its own form or columns; then nothing
// of the data's format holds for it. All of a language model's data trains. Faults are skipped
// nowhere, since results would not say how many.
func TestSecondSourceIsReadInItsForm(t *testing.T) {
	t.Parallel()
	for own, want := range map[string]source.Origin{
		"":                        {Form: forms.CSV, Columns: forms.Columns{User: "author"}},
		", form: tsv":             {Form: forms.TSV},
		", columns: {}":           {},
		", columns: {text: body}": {Columns: forms.Columns{Text: "body"}},
	} {
		e := &parse(t, fmt.Sprintf(besideTable, own)).Cells[0].Experiment
		if got := e.Prepare.LanguageModel.ExperimentFor(e).Data.Reading().Origin; got != want {
			t.Errorf("a language model with %q: %+v, want %+v", own, got, want)
		}
		if own == "" {
			want.Columns.Split = "subset"
		}
		if got := e.Data.Background.Reading(&e.Data).Origin; got != want {
			t.Errorf("a background with %q: %+v, want %+v", own, got, want)
		}
	}
}

// The rounds of the training do not bound the schedule of a preparation; its own steps do.
func TestPreparationSchedulesFitTheirSteps(t *testing.T) {
	t.Parallel()
	text := fmt.Appendf(nil, besideTable, "")
	schedule := "prepare.language_model.schedule={kind: cosine, warm_up: 30}"
	if _, err := Parse("x.yaml", text, Options{Sets: []string{schedule, "prepare.language_model.steps=100"}}); err != nil {
		t.Errorf("a warm-up of 30 of 100 steps, before a training of 20 rounds: %v", err)
	}
	const want = "prepare.language_model.schedule: learning-rate schedule: 25 steps with a warm-up of 30"
	_, err := Parse("x.yaml", text, Options{Sets: []string{schedule, "prepare.language_model.steps=25", "training.rounds=200"}})
	must.Say(t, err, want)
}
