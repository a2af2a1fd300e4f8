package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/models/optimizers"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/taskstest"
)

// minimal is the smallest experiment.
const minimal = "name: x\ndata: {source: a.jsonl}\ntraining: {cohort: 50, rounds: 100}\n"

func seedList(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i+1) + ",")
	}
	return strings.TrimSuffix(b.String(), ",")
}

func parse(t *testing.T, text string, sets ...string) *Spec {
	t.Helper()
	spec, err := Parse("x.yaml", []byte(text), Options{Sets: sets})
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, text)
	}
	return spec
}

func TestExamplesExpandToTheirCells(t *testing.T) {
	t.Parallel()
	for name, data := range examples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := must.Get(Parse(name, data, Options{}))(t)
			var b strings.Builder
			for _, c := range spec.Cells {
				fmt.Fprintf(&b, "%s | %s | %s\n", c.Name, c.Label, c.Axes)
			}
			for _, w := range spec.Cells[0].Warnings() {
				t.Errorf("a shipped example is doubtful: %s", w)
			}
			fmt.Fprintf(&b, "\n%s\n", spec.Cells[0].Experiment.Canonical())
			taskstest.File(t, "testdata/cells/"+strings.TrimSuffix(name, ".yaml")+".txt", []byte(b.String()))
		})
	}
}

func examples(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../examples/*.yaml")
	tables, tablesErr := filepath.Glob("../../examples/thakkar-2020/table-?.yaml")
	if err := errors.Join(err, tablesErr); err != nil || len(files) == 0 || len(tables) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	files = append(files, tables...)
	found := make(map[string][]byte)
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		found[filepath.Base(file)] = data
	}
	return found
}

func TestExamplesOfPapersAreValid(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		if _, err := Parse(file, data, Options{}); err != nil {
			t.Error(err)
		}
	}
}

// The pages name the file of every figure of a paper.
func TestPagesNameEveryPaperExample(t *testing.T) {
	t.Parallel()
	var text []byte
	pages, _ := filepath.Glob("../../docs/*.md")
	ofPapers, _ := filepath.Glob("../../docs/papers/*.md")
	for _, page := range append(pages, ofPapers...) {
		data := must.Get(os.ReadFile(page))(t)
		text = append(text, data...)
	}
	files, _ := filepath.Glob("../../examples/*/*.yaml")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		large := strings.TrimSuffix(name, "-small") // "`optimizers`, also with `-small`"
		if !bytes.Contains(text, []byte("`"+name+"`")) && !bytes.Contains(text, []byte("`"+large+"`")) {
			t.Errorf("no page in docs names %s", file)
		}
	}
}

func TestFileWithoutGridIsOneCell(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal)
	if len(spec.Cells) != 1 || spec.Name != "x" || spec.Cells[0].Name != "c01" {
		t.Fatalf("got %+v", spec)
	}
	e := spec.Cells[0].Experiment
	if e.Canaries != nil || e.Audit != nil || e.Training.Privacy != nil || e.Training.Client.GradientClip != nil {
		t.Error("optional blocks are there although nobody asked for them")
	}
	if e.Data.Users.Words != 2000 || e.Training.Client.LearningRate != 0.5 || e.Training.Server.LearningRate != 1 || e.Training.Chunks != 8 {
		t.Errorf("defaults: %s", e.Canonical())
	}
}

func TestEmptyOptionalBlockHasDefaults(t *testing.T) {
	t.Parallel()
	e := parse(t, minimal+"canaries: {user_probability: 1%, example_probability: 1}\naudit: {random_sampling: {}}\n").Cells[0].Experiment
	if want := `"audit":{"random_sampling":{"references":2000000,"prefix":1,"exact":false},"utility":true}`; !strings.Contains(string(e.Canonical()), want) || e.Canaries.HeldBack != 10 {
		t.Errorf("got %s, want %s", e.Canonical(), want)
	}
}

func TestDefaultChunksShrinkToTheCohort(t *testing.T) {
	t.Parallel()
	if got := parse(t, minimal, "training.cohort=3").Cells[0].Experiment.Training.Chunks; got != 3 {
		t.Errorf("got %d chunks for a cohort of 3, want 3", got)
	}
}

func TestUnusedFieldsAreDroppedFromCells(t *testing.T) {
	t.Parallel()
	file := minimal + `
grid:
  axes:
    training.algorithm: [sgd, fedavg]
`
	file = strings.Replace(file, "rounds: 100", "rounds: 100, chunks: 4, server: {learning_rate: 2}, client: {batch: 4, epochs: 2}, steps_per_task: 10", 1)
	must.Get(Parse("x.yaml", []byte(file), Options{}))(t)
	cells := parse(t, file).Cells
	central, federated := cells[0].Experiment.Training, cells[1].Experiment.Training
	if central.Server != nil || central.Chunks != 0 || central.Client.Batch != 0 || central.StepsPerTask != 10 {
		t.Errorf("sgd: %s", cells[0].Experiment.Canonical())
	}
	if federated.Server == nil || federated.Chunks != 4 || federated.Client.Batch != 4 || federated.StepsPerTask != 0 {
		t.Errorf("fedavg: %s", cells[1].Experiment.Canonical())
	}
}

func TestOverrideChangesAlgorithm(t *testing.T) {
	t.Parallel()
	file := strings.Replace(minimal, "rounds: 100", "rounds: 100, chunks: 4", 1)
	if got := parse(t, file, "training.algorithm=sgd").Cells[0].Experiment.Training; got.Chunks != 0 {
		t.Errorf("chunks of the body remain with sgd: %+v", got)
	}
	if _, err := Parse("x.yaml", []byte(file+"seed: 1\n"), Options{Sets: []string{"training.algorithm=sgd", "training.chunks=2"}}); err == nil {
		t.Error("chunks beside sgd, both as overrides, are accepted")
	}
}

func TestAxesMultiplyAndTheLastIsFastest(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal+"grid: {axes: {seed: [1, 2], data.partition: [iid, by-user], training.cohort: [8, 9, 10]}}\n")
	var got []string
	for _, c := range spec.Cells {
		got = append(got, c.Axes.String())
	}
	if len(got) != 12 || got[0] != "seed=1, data.partition=iid, training.cohort=8" || got[1] != "seed=1, data.partition=iid, training.cohort=9" || got[11] != "seed=2, data.partition=by-user, training.cohort=10" {
		t.Errorf("got %q", got)
	}
}

func TestBlocksMergeAndNullRemoves(t *testing.T) {
	t.Parallel()
	spec := parse(t, `
name: x
data: {source: a.jsonl}
training: {cohort: 50, rounds: 100, privacy: {clip: 0.2}}
grid:
  axes:
    training:
      - {privacy: {noise_multiplier: 1, delta: 1e-7}}
      - {privacy: null}
      - {rounds: null, epochs: 2}
`)
	noisy, plain, long := spec.Cells[0].Experiment.Training, spec.Cells[1].Experiment.Training, spec.Cells[2].Experiment.Training
	if noisy.Privacy.Clip != 0.2 || noisy.Privacy.NoiseMultiplier != 1 {
		t.Errorf("a block does not merge: %+v", noisy.Privacy)
	}
	if plain.Privacy != nil {
		t.Errorf("null does not remove: %+v", plain.Privacy)
	}
	if long.Rounds != 0 || long.Epochs != 2 || long.Privacy.Clip != 0.2 {
		t.Errorf("got %+v", long)
	}
}

func TestIncludeAddsAndExcludeRemoves(t *testing.T) {
	t.Parallel()
	spec := parse(t, `
name: x
data: {source: a.jsonl, test: {fraction: 0.1}}
training: {cohort: 50, rounds: 100}
grid:
  axes:
    data.partition: [iid, by-user]
    training.privacy: [null, {clip: 0.2}]
  include:
    - {training.cohort: 7, training.privacy: {clip: 1}}
  exclude:
    - {data.partition: iid, training.privacy: null, data.test.fraction: 10%}
`)
	var got []string
	for _, c := range spec.Cells {
		got = append(got, c.Name+" "+c.Axes.String())
	}
	want := []string{
		`c01 data.partition=iid, training.privacy={"clip":0.2}`,
		`c02 data.partition=by-user, training.privacy=null`,
		`c03 data.partition=by-user, training.privacy={"clip":0.2}`,
		`c04 training.cohort=7, training.privacy={"clip":1}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestExcludedCellMayBeInvalid(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal+`
grid:
  axes:
    training.algorithm: [sgd, fedavg]
    training.privacy: [null, {clip: 1}]
  exclude:
    - {training.algorithm: sgd, training.privacy.clip: 1}
`)
	if len(spec.Cells) != 3 {
		t.Errorf("got %d cells, want 3", len(spec.Cells))
	}
}

func TestOverridesReachTheGrid(t *testing.T) {
	t.Parallel()
	file := minimal + "grid: {axes: {data.partition: [iid, by-user], seed: [1, 2]}}\n"
	for set, cells := range map[string]int{
		"seed=":                              0,
		"grid=null":                          1,
		"grid.axes.seed=null":                2,
		"grid.axes.data.partition=[iid]":     2,
		"grid.axes.training.cohort=[60, 70]": 8,
	} {
		spec, err := Parse("x.yaml", []byte(file), Options{Sets: []string{set}})
		if got := 0; err == nil {
			if got = len(spec.Cells); got != cells {
				t.Errorf("--set %s gives %d cells, want %d", set, got, cells)
			}
		} else if cells > 0 {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}

func TestLabelsAreUnique(t *testing.T) {
	t.Parallel()
	spec := parse(t, minimal+"grid: {axes: {data.partition: [iid, by-user], seed: [1, 2], training.client.learning_rate: [0.5, 1]}}\n")
	if got, want := spec.Cells[0].Label, "iid, seed 1, training.client.learning_rate=0.5"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	seen := make(map[string]bool)
	for _, c := range spec.Cells {
		if seen[c.Label] {
			t.Errorf("the label %q is given twice", c.Label)
		}
		seen[c.Label] = true
	}
	faulty := parse(t, minimal+"grid: {axes: {data.faults: [null, {fault: join-words, examples: 10%}, [{fault: keep-case, users: 1/3, examples: 5%}, {fault: latin-1, users: 1}]]}}\n")
	for i, want := range []string{"no fault", "join-words in 10% of examples", "keep-case in 5% of examples of 1/3 of users and latin-1 in 100% of users"} {
		if got := faulty.Cells[i].Label; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got, want := parse(t, minimal).Cells[0].Label, "by-user, FedAvg, b=50"; got != want {
		t.Errorf("one cell: got %q, want %q", got, want)
	}
}

func TestSpellingDoesNotChangeTheDigest(t *testing.T) {
	t.Parallel()
	const a = `
name: x
data: {source: a.jsonl, test: {fraction: 0.1}}
training: {cohort: 50, rounds: 100}
canaries: {user_probability: [1/10], example_probability: 1, words: 5}
grid: {axes: {canaries.user_probability: [10%, 1/5], training: [{rounds: 100, cohort: 50}]}}
`
	const b = `
canaries:
  example_probability: [100%]
  user_probability: 0.1
data:
  test:
    fraction: 10%
  source: "a.jsonl"
name: x
training:
  client: {optimizer: sgd, learning_rate: 5e-1}
  rounds: 1_00
  cohort: 50
grid:
  axes:
    canaries.user_probability: [[0.1], [20%]]
    training:
      - cohort: 5e1
        rounds: 100
`
	if x, y := parse(t, a), parse(t, b); x.Digest() != y.Digest() {
		t.Errorf("equal experiments differ:\n%s\n%s", x.Canonical(), y.Canonical())
	}
	if x, y := parse(t, a), parse(t, b, "seed=2"); x.Digest() == y.Digest() {
		t.Error("another seed has the same digest")
	}
}

func TestSpecJSONRoundTrip(t *testing.T) {
	t.Parallel()
	for name, data := range examples(t) {
		spec := parse(t, string(data))
		again, err := ReadSpec(spec.Canonical())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(spec.Canonical(), again.Canonical()) {
			t.Errorf("%s changes:\n%s\n%s", name, spec.Canonical(), again.Canonical())
		}
	}
	for _, damaged := range []string{"", "{}", "[]", `{"name":"x","cells":[]}`, `{"name":"x","cells":[{"axes":[1]}]}`, `{"name":"x","cells":[{"colour":1}]}`} {
		if _, err := ReadSpec([]byte(damaged)); err == nil {
			t.Errorf("%q is read as a spec", damaged)
		}
	}
}

// choices are values to draw from, by path; the first is often the default.
var choices = map[string][]string{
	"seed":                                {"1", "9007199254740991", "0"},
	"data.partition":                      {"iid", "by-user"},
	"data.test.fraction":                  {"10%", "1/3", "0.05"},
	"data.held_out_users":                 {"{}", "{fraction: 12.5%}"},
	"canaries":                            {"null", "{user_probability: [1/5000, 3%], example_probability: 0.1}", "{words: 7, held_back: 0, user_probability: 1e-3, example_probability: [1, 1%]}"},
	"model":                               {"{kind: gru, layers: 2, projection: 0, untied: true}", "{kind: lstm, embedding: 670, projection: 0}", "{projection: 96}", "{projection: 5}"},
	"training":                            {"{rounds: 7, epochs: null}", "{rounds: null, epochs: 0.3}"},
	"training.algorithm":                  {"fedavg", "sgd"},
	"training.cohort":                     {"1", "8", "500"},
	"training.chunks":                     {"1", "null"},
	"training.client.optimizer":           optimizers.SGD.Choices(),
	"training.client.learning_rate":       {"0.1", "1e-4", "3"},
	"training.client.gradient_clip":       {"null", "0.5"},
	"training.client.schedule":            {"{}", "{warm_up: 2}", "{kind: step, every: 3, factor: 0.5}", "{kind: cosine, floor: 0.1}", "{kind: cosine, every: 3}"},
	"training.client.dropout":             {"0", "0.1"},
	"training.client.weight_decay":        {"0", "0.01"},
	"training.client.proximal":            {"0", "0.01"},
	"training.server":                     {"null", "{optimizer: adam, learning_rate: 0.01, beta1: 0}", "{learning_rate: 2}"},
	"training.privacy":                    {"null", "{clip: 0.2}", "{clip: 1e-3, noise_multiplier: 1.1, delta: 1e-7}"},
	"training.checkpoints":                {"{every: 33.3%, keep: 0}", "{every: 5}", "null"},
	"audit":                               {"null", "{}", "{every: 10%, utility: false, random_sampling: {exact: true}}", "{every: 3, beam_search: {width: 7}}", "{every: 10%, at: [1, 2, 50%]}"},
	"audit.fail_if.beam_search_memorized": {"null", "0"},
}

func TestCanonicalFormRoundTrip(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	rapid.Check(t, func(t *rapid.T) {
		var sets []string
		for _, path := range allPaths() {
			if values := choices[path]; values != nil && rapid.Bool().Draw(t, path+"?") {
				sets = append(sets, path+"="+rapid.SampledFrom(values).Draw(t, path))
			}
		}
		spec, err := Parse("x.yaml", []byte(minimal), Options{Sets: sets})
		if err != nil {
			return // a contradiction between the choices
		}
		canonical := spec.Cells[0].Experiment.Canonical()
		again, err := Parse("canonical", canonical, Options{})
		if err != nil {
			t.Fatalf("%v\nin %s", err, canonical)
		}
		if got := again.Cells[0].Experiment.Canonical(); !bytes.Equal(got, canonical) {
			t.Fatalf("read again:\n%s\nwas\n%s", got, canonical)
		}
		if err := validate(schema, canonical); err != nil {
			t.Fatalf("the schema refuses %s: %v", canonical, err)
		}
	})
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return must.Get(jsonschema.NewCompiler().Compile(schemaFile))(t)
}

// validate checks a YAML or JSON text against the schema.
func validate(schema *jsonschema.Schema, text []byte) error {
	var ps problems
	root := parseYAML("x", text, &ps)
	if root == nil {
		return ps.err(1)
	}
	return schema.Validate(plainValue(root))
}

// plainValue is a tree as encoding/json would read it.
func plainValue(n *node) any {
	switch n.kind {
	case sequenceNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = plainValue(item)
		}
		return list
	case mappingNode:
		fields := make(map[string]any)
		for _, e := range n.entries {
			fields[e.key] = plainValue(e.value)
		}
		return fields
	case scalarNode:
		if x, err := strconv.ParseFloat(n.text, 64); err == nil && !n.quoted {
			return x
		}
		if !n.quoted && (n.text == "true" || n.text == "false") {
			return n.text == "true"
		}
		return n.text
	}
	return nil
}

func TestSchemaAcceptsExamples(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	for name, data := range examples(t) {
		if err := validate(schema, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaAndParserRejectSameFiles(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	for _, set := range []string{
		"training.chort=5", "training.cohort=0", "training.cohort=1.5", "data.partition=users",
		"data.test.fraction=1", "canaries={user_probability: 2, example_probability: 1}", "audit={utility: maybe}",
		"training.client.learning_rate=0", "training.checkpoints.every=0", "name=Bad Name",
		"grid={axes: {training.chort: [1]}}", "grid={axes: {data.partition: [users]}}", "grid={axes: {seed: []}}",
	} {
		var ps problems
		root := applySets(parseYAML("x", []byte(minimal), &ps), []string{set}, &ps)
		if _, err := Parse("x", []byte(minimal), Options{Sets: []string{set}}); err == nil {
			t.Errorf("the parser accepts %s", set)
		}
		if err := schema.Validate(plainValue(root)); err == nil {
			t.Errorf("the schema accepts %s", set)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/mistakes/*.yaml")
	more, _ := filepath.Glob("../../examples/*.yaml")
	for _, file := range append(files, more...) {
		data := must.Get(os.ReadFile(file))(f)
		f.Add(string(data), "training.cohort=5")
	}
	f.Add(minimal, "grid.axes.seed=[1, 2]")
	f.Add(minimal, "grid.replicates=3")
	f.Add(minimal, "grid={replicates: [5, 1], include: [{training.cohort: 8}]}")
	f.Fuzz(func(t *testing.T, text, set string) {
		spec, err := Parse("x.yaml", []byte(text), Options{Sets: []string{set}, MaxCells: 20})
		if err != nil {
			if err.Error() == "" {
				t.Error("a mistake without words")
			}
			return
		}
		if len(spec.Cells) == 0 {
			t.Fatal("neither cells nor a mistake")
		}
		again, err := ReadSpec(spec.Canonical())
		if err != nil || again.Digest() != spec.Digest() {
			t.Errorf("the spec does not survive its JSON: %v", err)
		}
	})
}

func TestModelsOfEqualMeaningHaveOneConfiguration(t *testing.T) {
	t.Parallel()
	config := func(sets ...string) models.Config {
		e := parse(t, minimal, sets...).Cells[0].Experiment
		return e.Model.Config(&Data{Vocabulary: Vocabulary{Size: 50 - text.FirstWord}})
	}
	plain := models.Config{Kind: models.CIFGLSTM, Vocabulary: 50, Embedding: 96, Units: 670}
	for set, want := range map[string]models.Config{
		"model={}":                            plain,
		"model={layers: 1, projection: 96}":   plain,
		"model={untied: false}":               plain,
		"model={untied: true, layers: 3}":     {Kind: models.CIFGLSTM, Vocabulary: 50, Embedding: 96, Units: 670, Untied: true, Layers: 3},
		"model={projection: 0, units: 96}":    {Kind: models.CIFGLSTM, Vocabulary: 50, Embedding: 96, Units: 96, Projection: models.Unprojected},
		"model={projection: 8, embedding: 8}": {Kind: models.CIFGLSTM, Vocabulary: 50, Embedding: 8, Units: 670},
		"model={kind: gru, projection: 8, untied: true}": {
			Kind: models.GRU, Vocabulary: 50, Embedding: 96, Units: 670, Projection: 8, Untied: true,
		},
		"model={kind: conv}":            {Kind: models.Conv, Vocabulary: 50, Embedding: 96, Units: 670},
		"model={kind: conv, kernel: 7}": {Kind: models.Conv, Vocabulary: 50, Embedding: 96, Units: 670},
		"model={kind: conv, kernel: 4}": {Kind: models.Conv, Vocabulary: 50, Embedding: 96, Units: 670, Kernel: 4},
	} {
		if got := config(set); got != want {
			t.Errorf("--set %s: %+v, want %+v", set, got, want)
		}
	}
}

func TestBadModelsAndSchedulesAreRejected(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"model.projection=0":                                    "the last layer's output has width 670: want that of the embedding, 96",
		"training.client.schedule={kind: step}":                 "training.client.schedule: learning-rate schedule: every 0: want at least 1 step",
		"training.server.schedule={kind: cosine, warm_up: 100}": "100 steps with a warm-up of 100: want at least 2 after the warm-up",
		"training.client.schedule={kind: constant, every: 3}":   "has no effect with training.client.schedule.kind: constant",
		"training={algorithm: sgd, client: {proximal: 1}}":      "training.client.proximal: has no effect with training.algorithm: sgd",
		"training.quantize_bits=8":                              "training.quantize_bits: rounds measured models, but without an audit block no model is measured",
		"training.quantize_bits=1":                              "training.quantize_bits: is 1; expected a whole number from 2 to 8",
		"training.client.dropout=1":                             "training.client.dropout: is 1; expected a number from 0, below 1",
		"model={kind: gru, kernel: 3}":                          "model.kernel: has no effect with model.kind: gru",
		"model.dropout=0.1":                                     "did you mean training.client.dropout?",
	} {
		_, err := Parse("x.yaml", []byte(minimal), Options{Sets: []string{set}})
		must.Say(t, err, want)
	}
}
