package experiment

import (
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func TestARoleGetsTheFilesThatNoOtherRoleHasToItself(t *testing.T) {
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

func TestRolesOfCodeAreNamedBelowItsDirectory(t *testing.T) {
	t.Parallel()
	const file = "name: x\ndata: {source: x.jsonl}\nmodel: {kind: external}\ntraining: {command: sh train.sh, rounds: 2, code: mine}\n"
	for set, want := range map[string]string{
		"training.code_roles={scorer: [../score.py]}":             `training.code_roles: has "../score.py"; expected paths below training.code`,
		"training.code_roles={scorer: [/score.py]}":               `has "/score.py"`,
		"training.code_roles={scorer: [\"[\"]}":                   `has "["`,
		"training={code: null, code_roles: {scorer: [score.py]}}": "names files of code that is not there",
		"training.scorer_sha256=" + strings.Repeat("0", 64):       "training.code_roles names none",
		"training.code_roles={scorer: [score.py, lib/]}":          "",
	} {
		_, err := Parse("x.yaml", []byte(file), Options{Sets: []string{set}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("--set %s: error %v, want %q in it", set, err, want)
		}
	}
}

// Short words have many neighbours: a suggestion that is a guess misleads.
func TestSuggestionsMeanWhatWasTyped(t *testing.T) {
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

func TestDifferencesOfExperimentsAreNamedOnceAndTheirGridsCounted(t *testing.T) {
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
	if got := texts(spec(), spec("grid.axes.seed=[3, 4]")); !slices.Equal(got, []string{"grid: 2 cells -> 2 cells"}) {
		t.Errorf("other points: %q", got)
	}
	if got := texts(spec(), spec()); got != nil {
		t.Errorf("the same: %q", got)
	}
}
