package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/control"
	"coalmine/workflows/results/dataexport"
)

// exportFile has a training of rounds, and one of steps that end within a task. The
// models are too large for a commit, so that those of most rounds go.
const exportFile = `
name: export
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}}
canaries: {words: 3, per_configuration: 1, user_probability: 1/4, example_probability: 1, held_back: 1}
model: {embedding: 40, units: 60}
training: {rounds: 9, cohort: 5, chunks: 2, checkpoints: {every: 2, keep: 2}}
audit: {every: 3, random_sampling: {references: 100}}
grid: {axes: {training: [{algorithm: fedavg}, {algorithm: sgd, chunks: null, steps_per_task: 4}]}}
`

// smallRun runs an experiment on a small text and returns its home. %s in the file
// is the text's path.
func smallRun(t *testing.T, file string) string {
	t.Helper()
	return smallRunOf(t, file, string(taskstest.Text(1500)))
}

// smallRunOf does the same with another text.
func smallRunOf(t *testing.T, file, text string) string {
	t.Helper()
	path, home := smallFiles(t, file, text)
	prints(t, "run", path, "--home", home)
	return home
}

// smallFiles writes an experiment and its text, and names a home for it.
func smallFiles(t *testing.T, file, text string) (path, home string) {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "text.jsonl"), filepath.Join(dir, "small.yaml")
	for name, data := range map[string]string{source: text, path: fmt.Sprintf(file, source)} {
		writeFile(t, name, data)
	}
	return path, filepath.Join(dir, "home")
}

// coalmine runs a command and returns its exit status and outputs.
func coalmine(t *testing.T, args ...string) (code int, out, messages string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// prints returns the output of a command, which must succeed.
func prints(t *testing.T, args ...string) string {
	t.Helper()
	code, out, messages := coalmine(t, args...)
	if code != exitDone {
		t.Fatalf("coalmine %s: exit status %d\n%s", strings.Join(args, " "), code, messages)
	}
	return out
}

// refuses runs a command that must fail, with one line that has the words.
func refuses(t *testing.T, words string, args ...string) {
	t.Helper()
	if messages := fails(t, words, args...); strings.Count(messages, "\n") != 1 {
		t.Errorf("coalmine %s: %q; want one line", strings.Join(args, " "), messages)
	}
}

// fails runs a command that must fail, with a message that has the words, and returns all its messages.
func fails(t *testing.T, words string, args ...string) string {
	t.Helper()
	code, out, messages := coalmine(t, args...)
	if code != exitUsage || out != "" || !strings.Contains(messages, words) {
		t.Errorf("coalmine %s: exit status %d, %q, %q; want the message %q", strings.Join(args, " "), code, out, messages, words)
	}
	return messages
}

func TestExports(t *testing.T) {
	t.Parallel()
	home := smallRun(t, exportFile)
	// One after another: a data directory has one user at a time.
	t.Run("models after every round that is kept", func(t *testing.T) { exportsModels(t, home) })
	t.Run("tables, or nothing", func(t *testing.T) { exportsTables(t, home) })
	t.Run("nodes and what they have made", func(t *testing.T) { showsNodes(t, home) })
}

func exportsModels(t *testing.T, home string) {
	dir := t.TempDir()
	models := map[string][]float32{}
	export := func(cell string, round ...string) {
		t.Helper()
		path := filepath.Join(dir, cell+strings.Join(round, ""))
		prints(t, append([]string{"export", "latest", cell, "--home", home, "-o", path}, round...)...)
		file := contentOf(t, path)
		m := must.Get(checkpoints.Decode([]byte(file)))(t)
		models[strings.Join(append([]string{cell}, round...), " ")] = m.Params
	}
	for _, cell := range []string{"c01", "c02"} {
		export(cell)
		export(cell, "--round", "0")
		export(cell, "--round", "9")
	}
	export("c01", "--round", "3")
	export("c02", "--round", "4")
	same := func(a, b string) bool { return slices.Equal(models[a], models[b]) }
	if !same("c01", "c01 --round 9") || !same("c02", "c02 --round 9") || !same("c01 --round 0", "c02 --round 0") {
		t.Error("without a round it is not the last, or two cells of one seed begin with different models")
	}
	if same("c01 --round 0", "c01 --round 3") || same("c01 --round 3", "c01") || same("c02 --round 4", "c02") {
		t.Error("the models after different rounds are the same")
	}
	for words, asked := range map[string][]string{
		"there is no model after round 1: ":                  {"c01", "1"},
		"models are stored after 0, 3, 6, 8, 9 (the initial": {"c01", "2"},
		"a model after round 10 is invalid: cell c01 has a model after every 1, up to round 9; models are stored after 0, 3":                 {"c01", "10"},
		"a model after step 3 is invalid: cell c02 has a model after every 4, up to step 9; models are stored after 0, 4, 8, 9 (the initial": {"c02", "3"},
		"--round -1: expected 0 for the initial model": {"c02", "-1"},
	} {
		refuses(t, words, "export", "latest", asked[0], "--round", asked[1], "--home", home, "-o", filepath.Join(dir, "none"))
	}
}

// Cells that differ only in the length of the training share its steps.
func TestCellHasNoModelsOfLongerTraining(t *testing.T) {
	t.Parallel()
	file := strings.Replace(exportFile, "training: [{algorithm: fedavg}, {algorithm: sgd, chunks: null, steps_per_task: 4}]", "training.rounds: [3, 9]", 1)
	home := smallRun(t, file)
	for cell, steps := range map[string]string{"c01": "models are stored after 0, 3 (the initial", "c02": "models are stored after 0, 3, 6, 8, 9 (the initial"} {
		refuses(t, steps, "export", "latest", cell, "--round", "10", "--home", home, "-o", filepath.Join(t.TempDir(), "none"))
	}
	for cell, longer := range map[string]bool{"c01": false, "c02": true} {
		if nodes := prints(t, "show", "latest", cell, "--nodes", "--home", home); strings.Contains(nodes, "training step 6 of") != longer {
			t.Errorf("the nodes of %s are\n%s", cell, nodes)
		}
	}
}

// wantManifest has the manifest of an export list tables of both forms, and be heeded if it is of
// another cell or a newer build.
func wantManifest(t *testing.T, home, name string, facts *exportedData) {
	t.Helper()
	text, err := os.ReadFile(name)
	var listed exportedData
	must.Do(t, errors.Join(err, json.Unmarshal(text, &listed)))
	if listed.Format != 1 || listed.Build != version() || listed.Run != facts.Run || len(listed.Files) != 8 || listed.Files[0].Path != "vocabulary.jsonl" || listed.Files[7].Path != "references.parquet" && listed.Files[7].Path != "canaries.parquet" {
		t.Errorf("the manifest has %+v", listed)
	}
	dir := t.TempDir()
	for change, want := range map[string]string{
		`"cell": "c07"`:  "data of run " + facts.Run + ", cell c07: name another directory",
		`"format": 1000`: "written by coalmine " + version() + " in format 1000",
	} {
		field, _, _ := strings.Cut(change, ":")
		changed := regexp.MustCompile(field+": [^,]*").ReplaceAllLiteralString(string(text), change)
		writeFile(t, filepath.Join(dir, exportManifest), changed)
		refuses(t, want, "data", "export", "latest", "c01", "--home", home, "-o", dir)
	}
}

func exportsTables(t *testing.T, home string) {
	dir := filepath.Join(t.TempDir(), "new", "c01")
	var facts exportedData
	decodeJSON(t, prints(t, "data", "export", "latest", "c01", "--home", home, "-o", dir, "--json"), &facts)
	rows := map[dataexport.Table]int64{}
	for _, f := range facts.Files {
		data, err := os.ReadFile(f.Path)
		if err != nil || f.Bytes != int64(len(data)) || f.SHA256 != storage.Digest(sha256.Sum256(data)) || f.Rows != int64(bytes.Count(data, []byte("\n"))) {
			t.Errorf("%+v, which has %d bytes (%v)", f, len(data), err)
		}
		rows[f.Table] = f.Rows
	}
	if !strings.HasPrefix(facts.Run, "export-") || len(rows) != 6 || rows["vocabulary"] != 64 || rows["references"] != 100 || rows["canaries"] != 2 || rows["cohorts"] != 9 {
		t.Errorf("%+v", facts)
	}
	base := []string{"data", "export", "latest", "c01", "--home", home, "-o", dir}
	refuses(t, filepath.Join(dir, "references.jsonl")+" already exists", append(base, "--only", "references")...)
	if text := prints(t, append(base, "--only", "references,canaries", "--format", "parquet")...); !strings.Contains(text, "references  100") || strings.Contains(text, "vocabulary") {
		t.Errorf("the tables asked for:\n%s", text)
	}
	wantManifest(t, home, filepath.Join(dir, exportManifest), &facts)
	refuses(t, `--only "words": expected some of ["vocabulary"`, append(base, "--only", "words")...)
	refuses(t, `--format "csv": expected jsonl or parquet`, append(base, "--format", "csv")...)
	refuses(t, `c02: --only cohorts: the cell has no such table; it has ["vocabulary" "parts"`, "data", "export", "latest", "c02", "--home", home, "--only", "cohorts")
	refuses(t, `no cell "c03"; the run has c01 to c02`, "data", "export", "latest", "c03", "--home", home)
}

// brokenAPI gives two tables and breaks off within the third.
type brokenAPI struct {
	control.API
	tables int
}

func (b *brokenAPI) Data(ctx context.Context, run, cell string, table dataexport.Table, format dataexport.Format, w io.Writer) error {
	if b.tables++; b.tables > 2 {
		_, err := io.WriteString(w, "half a row")
		return cmp.Or(err, errors.New("the store went away"))
	}
	_, err := io.WriteString(w, "{}\n")
	return err
}

func TestFailedDataExportLeavesNoFiles(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	f := dataExportFlags{dir: filepath.Join(parent, "export"), format: string(dataexport.JSONLines)}
	tables := []dataexport.Table{dataexport.Vocabulary, dataexport.Parts, dataexport.Canaries}
	if _, err := f.write(t.Context(), &brokenAPI{}, "run", "c01", tables); err == nil || !strings.Contains(err.Error(), "went away") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
}

func showsNodes(t *testing.T, home string) {
	var all, cell shownNodes
	for args, into := range map[string]*shownNodes{"latest": &all, "latest c02": &cell} {
		must.Do(t, json.Unmarshal([]byte(prints(t, append(strings.Fields("show --nodes --json --home "+home), strings.Fields(args)...)...)), into))
	}
	kinds, listed := map[string]int{}, map[storage.Key]bool{}
	for _, n := range all.Nodes {
		kinds[n.Kind]++
		listed[n.Key] = true
		if part := n.Kind == "training/clients"; n.Committed == part || !part && len(n.Blobs) == 0 && n.Metrics == nil {
			t.Errorf("%+v: parts of rounds that are done have gone, all else has made something", n)
		}
	}
	for _, n := range all.Nodes {
		for _, in := range n.Inputs {
			if !listed[in.Key] {
				t.Errorf("%s reads %s, which is not listed", n.Kind, in.Key.Short())
			}
		}
	}
	want := map[string]int{
		"datasets/import": 1, "datasets/encode": 1, "datasets/balance": 1, "canaries/draw": 1, "canaries/insert": 1, "datasets/partition": 1,
		"training/initial": 1, "training/sgd": 3, "aggregation/server": 9, "training/clients": 18, "reports/cell": 2,
	}
	for kind, n := range want {
		if kinds[kind] != n {
			t.Errorf("%d nodes of %s, want %d", kinds[kind], kind, n)
		}
	}
	shared, own := 0, 0
	for _, n := range cell.Nodes {
		if len(n.Cells) != 1 || n.Cells[0] != "c02" {
			t.Errorf("a node of %v among those of c02", n.Cells)
		}
	}
	for _, n := range all.Nodes {
		if len(n.Cells) == 2 {
			shared++
		} else if n.Cells[0] == "c02" {
			own++
		}
	}
	if shared+own != len(cell.Nodes) {
		t.Errorf("%d nodes are shared and %d of c02 alone; its list has %d", shared, own, len(cell.Nodes))
	}
	text := prints(t, "show", "latest", "c01", "--nodes", "--home", home)
	for _, words := range []string{"  datasets/encode@1  committed\n  label   parts and vocabulary (c01)\n  params  {\"seed\":1,", "  label   training step 3, part 2 of 2", "  model, ", ", deleted since", "  metrics {"} {
		if !strings.Contains(text, words) {
			t.Errorf("no %q in\n%s", words, text)
		}
	}
	refuses(t, `cell "c03" is invalid: the run has c01 to c02`, "show", "latest", "c03", "--nodes", "--home", home)
}
