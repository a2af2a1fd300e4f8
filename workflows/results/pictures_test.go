package results_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/storage/storagetest"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/generatedimages"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
	"coalmine/workflows/results"
	"coalmine/workflows/runs"
)

const gans = `
name: gans
data: {source: a.jsonl, level: image}
prepare: {classifier: {steps: 5}}
model: {kind: gan}
training: {rounds: 9, cohort: 2, client: {learning_rate: 0.1}, generator: {learning_rate: 0.1}}
audit: {every: 3, generated_images: {count: 50}}
grid: {axes: {data.select: [{users: {below: 25%}}, {users: {above: 75%}}]}}
`

// audited is a run with an archive that has outcomes of some cells and rounds: "c01 3".
func audited(t *testing.T, text string, measured ...string) (*storage.Archive, *runs.Run) {
	t.Helper()
	archive := storage.NewArchive(storagetest.NewMemory())
	spec := plantest.Resolve(t, text, []storage.Digest{storage.DigestOf([]byte("source"))})
	p := must.Get(compile.Plan(spec))(t)
	for i := range p.Cells {
		for _, round := range spec.Cells[i].Experiment.Measured() {
			name := fmt.Sprint(p.Cells[i].Name, " ", round)
			if !slices.Contains(measured, name) {
				continue
			}
			outcome := generatedimages.Outcome{Images: 50, Inverted: audits.NewShare(round, 50), Sheet: []byte("sheet of " + name)}
			commit(t, archive, p.Nodes[p.Cells[i].Report.Key].Input(reports.AuditInput("generated_images", round)), audits.OutcomeBlob, &outcome)
		}
	}
	return archive, &runs.Run{ID: "gans-1", Spec: runs.Spec{Experiment: spec.Canonical()}}
}

func commit(t *testing.T, archive *storage.Archive, key storage.Key, name string, content any) {
	t.Helper()
	data := must.Get(json.Marshal(content))(t)
	commitBytes(t, archive, key, name, data)
}

func commitBytes(t *testing.T, archive *storage.Archive, key storage.Key, name string, data []byte) {
	t.Helper()
	blob := must.Get(archive.PutBlob(t.Context(), key, name, data, storage.Durable))(t)
	if _, _, err := archive.Commit(t.Context(), &storage.Commit{Key: key, Kind: generatedimages.Summary.Name, Attempt: "1", Blobs: []storage.Blob{blob}}); err != nil {
		t.Fatal(err)
	}
}

// Neither cell is done, and one has not measured round 6 before 9.
func TestPicturesAppearWhenRoundIsMeasured(t *testing.T) {
	t.Parallel()
	archive, run := audited(t, gans, "c01 3", "c01 6", "c02 3", "c02 9")
	for shown, want := range map[results.Shown]string{
		{}:                      "c01 3, c01 6, c02 3, c02 9",
		{Cell: "c01"}:           "c01 3, c01 6",
		{Round: 3}:              "c01 3, c02 3",
		{Cell: "c02", Round: 9}: "c02 9",
		{Cell: "c01", Round: 9}: "",
		{Cell: "c03"}:           "",
	} {
		pictures := must.Get(results.LoadPictures(t.Context(), archive, run, shown))(t)
		var got []string
		for _, p := range pictures {
			name := fmt.Sprint(p.Cell, " ", p.Round)
			got = append(got, name)
			if string(p.PNG) != "sheet of "+name || p.Number != 0 || p.Caption != fmt.Sprintf("inverted %% %.1f, Frechet -", 2*float64(p.Round)) {
				t.Errorf("%+v", p)
			}
			if !strings.Contains(p.Text, fmt.Sprintf("%s, %s, after round %d: generated images: 50; nearer to inverted than to upright ones are %d.00%% (", p.Cell, p.Label, p.Round, 2*p.Round)) {
				t.Errorf("for those who do not see it: %s", p.Text)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%+v: %q, want %q", shown, got, want)
		}
	}
}

func TestDamagedPicturesAreReported(t *testing.T) {
	t.Parallel()
	archive, run := audited(t, gans, "c01 3")
	spec := plantest.Resolve(t, gans, []storage.Digest{storage.DigestOf([]byte("source"))})
	p, err := compile.Plan(spec)
	must.Do(t, err)
	commit(t, archive, p.Nodes[p.Cells[1].Report.Key].Input(reports.AuditInput("generated_images", 6)), audits.OutcomeBlob, "no verdict")
	_, err = results.LoadPictures(t.Context(), archive, run, results.Shown{})
	must.Say(t, err, "run gans-1, cell c02, pictures after round 6: generated_images: ")
}

func TestTextAuditsHaveNoPictures(t *testing.T) {
	t.Parallel()
	const texts = `
name: texts
data: {source: a.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 2, user_probability: [1/5], example_probability: [100%]}
training: {rounds: 4, cohort: 6, client: {learning_rate: 0.5}}
audit: {random_sampling: {references: 500}}
`
	archive, run := audited(t, texts)
	if got, err := results.LoadPictures(t.Context(), archive, run, results.Shown{}); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
