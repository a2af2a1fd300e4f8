package experiment

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

const externalFile = `name: x
data: {source: a, test: {fraction: 10%}}
canaries: {user_probability: 1/10, example_probability: 1, held_back: 0}
model: {kind: external}
training:
  command: python3 train.py
  job: {rate: 0.10, layers: [1, "2"], begin: +.5, name: gru, deep: {b: true, a: null, c: 1_000}}
audit: {random_sampling: {}}
`

func TestCommandIsExternalTraining(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("x.yaml", []byte(externalFile), Options{}))(t)
	c := &spec.Cells[0]
	e := &c.Experiment
	if e.Training.Algorithm != External || e.Training.Rounds != 1 || e.Training.Cohort != 0 || c.Label != "by-user, external" {
		t.Errorf("%+v, labelled %q", e.Training, c.Label)
	}
	if want := `{"begin":0.5,"deep":{"a":null,"b":true,"c":1000},"layers":[1,"2"],"name":"gru","rate":0.10}`; string(e.Training.Job) != want {
		t.Errorf("the job is %s, want %s", e.Training.Job, want)
	}
	text := must.Get(e.YAML())(t)
	again, err := Parse("again.yaml", text, Options{})
	if err != nil || string(again.Cells[0].Experiment.Training.Job) != strings.ReplaceAll(string(e.Training.Job), "0.10", "0.1") {
		t.Errorf("written and read again: %v\n%s", err, text)
	}
	if fields := e.Audit.Methods; len(fields) == 0 || e.Setting().External == nil {
		t.Error("audits are not told that the model is not ours")
	}
}

func TestGridHasAxesOverJobFields(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("x.yaml", []byte(externalFile+"grid: {axes: {training.job.dropout: [0, 0.5], training.job.deep.c: [1, null]}}\n"), Options{Sets: []string{"training.job.rate=3"}}))(t)
	last := &spec.Cells[3]
	if want := `{"begin":0.5,"deep":{"a":null,"b":true},"dropout":0.5,"layers":[1,"2"],"name":"gru","rate":3}`; string(last.Experiment.Training.Job) != want {
		t.Errorf("the job is %s, want %s", last.Experiment.Training.Job, want)
	}
	if want := "training.job.deep.c=1, training.job.dropout=0"; spec.Cells[0].Label != want {
		t.Errorf("labelled %q, want %q", spec.Cells[0].Label, want)
	}
}

func TestNativeAndExternalCellsShareGrid(t *testing.T) {
	t.Parallel()
	spec := must.Get(Parse("x.yaml", []byte(`name: x
data: {source: a, test: {fraction: 10%}}
grid:
  axes:
    training:
      - {algorithm: sgd, cohort: 5, rounds: 7}
      - {command: ./train}
    model.kind: [gru, external]
  exclude:
    - {training.algorithm: sgd, model.kind: external}
    - {training.algorithm: external, model.kind: gru}
`), Options{}))(t)
	if a, b := spec.Cells[0].Experiment.Training.Algorithm, spec.Cells[1].Experiment.Training.Algorithm; a != SGD || b != External {
		t.Errorf("they train by %s and %s", a, b)
	}
}

func TestMistakesAboutExternalModels(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"training.command=null":                  "model.kind: is external, a model trained by a program, but training.algorithm is fedavg; expected training.command",
		"model.kind=gru":                         "training.algorithm: is external, but Coalmine itself trains a model of the kind gru",
		"training.job=5":                         "training.job: is 5; expected a block of any fields",
		"audit.beam_search={}":                   "audit.beam_search: needs next-token probabilities or clients' updates",
		"audit.one_shot={canaries: 50, norm: 1}": "audit.one_shot.norm: is 1, and the command sends the canaries itself",
		"audit.every=1":                          "audit.every: does not apply to model.kind: external",
		"data.pairs=true":                        "data.pairs: does not apply to model.kind: external",
		`training.code_sha256="00"`:              "training.code_sha256: is the digest of code, but training.code is missing",
		"training.class=tpu":                     `training.class: is "tpu"; expected one of compute, gpu`,
		"training.limits.memory=0":               "training.limits.memory: is 0; expected a whole number from 1",
		"audit.recall_at_5=true":                 "audit.recall_at_5: counts the five first guesses",
		`training.command=" "`:                   "training.command: missing; expected the command that trains the model",
		"training.shards=1001":                   "training.shards: is 1001; expected a whole number from 1 to 1000",
		"data.level=image":                       "canaries: are sequences of words or bytes, which images cannot contain",
	} {
		_, err := Parse("x.yaml", []byte(externalFile), Options{Sets: []string{set}})
		must.Say(t, err, want)
	}
}

func TestExternalTrainingRejectsNativeFields(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"cohort: 5":                  "training.cohort: has no effect with training.algorithm: external; remove it",
		"quantize_bits: 4":           "training.quantize_bits: has no effect with training.algorithm: external; remove it",
		"client: {learning_rate: 1}": "training.client: has no effect with training.algorithm: external; remove it",
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(externalFile, "  command:", "  "+field+"\n  command:", 1)), Options{})
		must.Say(t, err, want)
	}
}

func TestCodeRolesSelectFiles(t *testing.T) {
	t.Parallel()
	roles := &CodeRoles{Training: []string{"train.py", "lib"}, Client: []string{"client*.py"}, Scorer: []string{"score.py", "lib/both.py"}}
	for file, want := range map[string][]CodeRole{
		"network.py":    {TrainingCode, ClientCode, ScorerCode},
		"train.py":      {TrainingCode},
		"lib/a/deep.py": {TrainingCode},
		"client_2.py":   {ClientCode},
		"sub/client.py": {TrainingCode, ClientCode, ScorerCode},
		"score.py":      {ScorerCode},
		"lib/both.py":   {TrainingCode, ScorerCode},
	} {
		for _, role := range []CodeRole{TrainingCode, ClientCode, ScorerCode} {
			if got := !roles.Omits(role, file); got != slices.Contains(want, role) {
				t.Errorf("role %d gets %s: %v", role, file, got)
			}
		}
	}
	if got := roles.Unmatched([]string{"train.py", "client.py", "score.py"}); !slices.Equal(got, []string{"lib", "lib/both.py"}) {
		t.Errorf("unmatched: %q", got)
	}
	if none := (*CodeRoles)(nil); none.Omits(ScorerCode, "train.py") || none.Unmatched(nil) != nil {
		t.Error("without roles a file is left out")
	}
}

func TestCodeRolesRejectOutsidePaths(t *testing.T) {
	t.Parallel()
	const file = "name: x\ndata: {source: x.jsonl}\nmodel: {kind: external}\ntraining: {command: sh train.sh, rounds: 2, code: mine}\n"
	for set, want := range map[string]string{
		"training.code_roles={scorer: [../score.py]}":             `training.code_roles: has "../score.py"; expected paths below training.code`,
		"training.code_roles={scorer: [/score.py]}":               `has "/score.py"`,
		"training.code_roles={scorer: [\"[\"]}":                   `has "["`,
		"training={code: null, code_roles: {scorer: [score.py]}}": "names files of code, but training.code is missing",
		"training.scorer_sha256=" + strings.Repeat("0", 64):       "training.code_roles names no such files",
		"training.code_roles={scorer: [score.py, lib/]}":          "",
	} {
		_, err := Parse("x.yaml", []byte(file), Options{Sets: []string{set}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("--set %s: error %v, want %q in it", set, err, want)
		}
	}
}

// Short words have many neighbours: a suggestion that is a guess misleads.
func TestSuggestionsForUnknownFields(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"training.chort":      "training.cohort",
		"training.rounsd":     "training.rounds",
		"training.momentum":   "training.client.momentum or training.server.momentum",
		"training.lr":         "training.client.learning_rate or training.server.learning_rate or training.generator.learning_rate",
		"training.clip":       "training.client.gradient_clip or training.privacy.clip",
		"epochs":              "training.epochs",
		"model.hid":           "",
		"model.size":          "",
		"data.foo":            "",
		"training.age":        "",
		"model.dropout":       "training.client.dropout",
		"data.vocabulary.siz": "data.vocabulary.size",
	} {
		_, err := Parse("x.yaml", []byte(minimal), Options{Sets: []string{typed + "=1"}})
		if err == nil {
			t.Fatalf("%s: no error", typed)
		}
		_, got, _ := strings.Cut(err.Error(), "did you mean ")
		if got = strings.TrimSuffix(got, "?"); got != want {
			t.Errorf("%s: %q is suggested, want %q", typed, got, want)
		}
	}
}

// Commands read the name latest as the newest run.
func TestNoExperimentIsNamedLatest(t *testing.T) {
	t.Parallel()
	_, err := Parse("x.yaml", []byte(minimal), Options{Sets: []string{"name=latest"}})
	if err == nil || !strings.Contains(err.Error(), "name: is latest, which commands read as the newest run") {
		t.Errorf("named latest: %v", err)
	}
}

func TestSpecDifferencesAreListedOnce(t *testing.T) {
	t.Parallel()
	spec := func(sets ...string) *Spec {
		return must.Get(Parse("x.yaml", []byte(minimal+"grid: {axes: {seed: [1, 2]}}\n"), Options{Sets: sets}))(t)
	}
	texts := func(before, after *Spec) (all []string) {
		for _, d := range SpecDifferences(before, after) {
			all = append(all, d.String())
		}
		return all
	}
	if got := texts(spec(), spec("training.client.learning_rate=0.25")); len(got) != 1 || !strings.HasPrefix(got[0], "training.client.learning_rate: ") {
		t.Errorf("one field in two cells: %q", got)
	}
	if got := texts(spec(), spec("grid.axes.seed=[2, 3, 4]")); !slices.Equal(got, []string{"grid: 2 cells -> 3 cells"}) {
		t.Errorf("another grid: %q", got)
	}
	if got := texts(spec(), spec("grid.axes.seed=[2, 3]")); !slices.Equal(got, []string{"grid: 2 cells -> 2 cells, 1 at other points"}) {
		t.Errorf("other points: %q", got)
	}
	other := []string{"seed: 1 -> 3", "training.cohort: 8 -> 4", "seed: 2 -> 4"}
	if got := texts(spec("training.cohort=8"), spec("grid.axes.seed=[3, 4]", "training.cohort=4")); !slices.Equal(got, other) {
		t.Errorf("no point of the grid is the same: %q, want %q", got, other)
	}
	if got := texts(spec(), spec()); got != nil {
		t.Errorf("the same: %q", got)
	}
}
