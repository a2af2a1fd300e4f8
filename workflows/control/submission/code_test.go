package submission

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/external"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
)

const programmed = `
name: programmed
data: {source: %q, vocabulary: {size: 20}, users: {words: 40}}
canaries: {words: 3, per_configuration: 1, user_probability: 1/2, example_probability: 1/2, held_back: 1}
model: {kind: external}
training: {command: sh train.sh, rounds: 2, code: %q, code_roles: {training: [train.sh], scorer: [score.sh], client: [client.sh]}}
audit: {random_sampling: {references: 50}}
`

// A changed file runs again only the nodes that get the file.
func TestAChangedFileOfCodeChangesTheKeysOfItsRoles(t *testing.T) {
	t.Parallel()
	data := folder(t, "texts", map[string]string{"a.jsonl": text(0, 300)})
	code := folder(t, "code", map[string]string{"train.sh": "a", "score.sh": "b", "client.sh": "c", "both.sh": "d"})
	file := filepath.Join(t.TempDir(), "programmed.yaml")
	content := fmt.Sprintf(programmed, data, code)
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
	keys := func(sets ...string) (training, report storage.Key, sources int) {
		t.Helper()
		s := must.Get(Prepare(t.Context(), file, experiment.Options{Sets: sets}, nil))(t)
		p := must.Get(compile.Plan(s.Spec))(t)
		if again, err := experiment.ReadSpec(s.Spec.Canonical()); err != nil || again.Check() != nil {
			t.Errorf("the record does not read back: %v", err)
		}
		for key, n := range p.Nodes {
			if n.Kind == external.Train.Name {
				training = key
			}
		}
		return training, p.Cells[0].Report.Key, len(p.Sources)
	}
	training, report, sources := keys()
	if sources != 3 {
		t.Errorf("%d sources; want the data and the code of two roles", sources)
	}
	for _, c := range []struct {
		file             string
		trains, measures bool
	}{{"score.sh", false, true}, {"client.sh", false, false}, {"train.sh", true, true}, {"both.sh", true, true}} {
		must.Do(t, os.WriteFile(filepath.Join(code, c.file), []byte("changed"), 0o600))
		newTraining, newReport, _ := keys()
		if newTraining != training != c.trains || newReport != report != c.measures {
			t.Errorf("a change of %s: another training %v, another report %v; want %v, %v", c.file, newTraining != training, newReport != report, c.trains, c.measures)
		}
		training, report = newTraining, newReport
	}
	if _, _, n := keys("training.code_roles=null"); n != 2 {
		t.Errorf("without roles: %d sources; want the data and one archive of code", n)
	}
	_, err := Prepare(t.Context(), file, experiment.Options{Sets: []string{"training.code_roles={scorer: [scroe.sh]}"}}, nil)
	if err == nil || !strings.Contains(err.Error(), `is named "scroe.sh"; it has both.sh, client.sh, score.sh, train.sh`) {
		t.Errorf("a mistyped name: %v", err)
	}
	s := must.Get(Prepare(t.Context(), file, experiment.Options{}, nil))(t)
	_, err = Prepare(t.Context(), file, experiment.Options{Sets: []string{"training.scorer_sha256=" + s.Spec.Cells[0].Experiment.Training.CodeSHA256}}, nil)
	if err == nil || !strings.Contains(err.Error(), "training.scorer_sha256: is ") || !strings.Contains(err.Error(), "the code has changed") {
		t.Errorf("another digest of the scorer's code: %v", err)
	}
}
