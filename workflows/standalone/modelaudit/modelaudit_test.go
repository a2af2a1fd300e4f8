package modelaudit_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/storage"
	"coalmine/storage/safetensors"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/reports"
	"coalmine/tasks/taskstest"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/standalone/modelaudit"
)

const file = `
name: small
seed: 5
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
canaries: {words: 4, per_configuration: 3, user_probability: 1/3, example_probability: 1, held_back: 2}
model: {embedding: 6, units: 8}
training: {rounds: 12, cohort: 10, chunks: 1, client: {learning_rate: 4}}
audit: {utility: false, random_sampling: {references: 500}, beam_search: {width: 3}}
`

// byteFile is the same for a model of bytes.
var byteFile = strings.NewReplacer("vocabulary: {size: 60}", "level: byte", "users: {words: 300}", "users: {words: 1000}",
	"words: 4", `format: "Pin ##-#", alphabet: digits`).Replace(file)

// formatFile has a format of words, over some of them.
var formatFile = strings.NewReplacer("size: 60", "size: 98", "words: 4", `format: "w1 w2. # # w3 #", symbols: [w4, w5, w6, w7, w8, w9, w10, w11, w12, w13]`).Replace(file)

// trained runs a small experiment and returns its audit, its canaries as a list,
// and its model as export writes it.
func trained(t *testing.T) (audit *reports.Audit, list string, model []byte) {
	t.Helper()
	return trainedAs(t, file, " ")
}

// trainedAs runs an experiment whose canaries' words are written with the
// separator between them.
func trainedAs(t *testing.T, file, separator string) (audit *reports.Audit, list string, model []byte) {
	t.Helper()
	spec := must.Get(experiment.Parse("test.yaml", []byte(file), experiment.Options{}))(t)
	data := taskstest.Text(1500)
	facts := []experiment.Facts{{Files: []storage.Digest{storage.DigestOf(data)}, Users: 30, Examples: 1000, DistinctWords: 98, TestExamples: 100}}
	must.Do(t, spec.Resolve(facts))
	p := must.Get(compile.Plan(spec))(t)
	e := localexec.New(p, compile.Registry(), data)
	blob := func(r plan.Ref, name string) []byte {
		must.Do(t, e.Reach(t.Context(), r))
		return must.Get(e.Blob(t.Context(), r.Key, name))(t)
	}
	var report reports.Report
	must.Do(t, json.Unmarshal(blob(p.Cells[0].Report, reports.CellBlob), &report))
	var lines strings.Builder
	lines.WriteString("# canaries of the run\n\n")
	for _, c := range all(report.Audit) {
		lines.WriteString(strings.Join(c.Words, separator) + "\n")
	}
	checkpoint := must.Get(checkpoints.Decode(blob(p.Cells[0].Model, tasks.ModelBlob)))(t)
	vocabulary := must.Get(text.ParseVocabulary(blob(p.Cells[0].Vocabulary, text.VocabularyBlob)))(t)
	words := must.Get(json.Marshal(vocabulary.Words))(t)
	model = must.Get(checkpoints.Encode(checkpoint.Network, checkpoint.Params, map[string]string{"vocabulary": string(words)}))(t)
	return report.Audit, lines.String(), model
}

func all(a *reports.Audit) []reports.Canary { return a.Canaries() }

func read(t *testing.T, list string) []modelaudit.Line {
	t.Helper()
	return must.Get(modelaudit.ReadCanaries("list.txt", strings.NewReader(list)))(t)
}

func TestModelAuditMatchesRun(t *testing.T) {
	t.Parallel()
	t.Run("words", func(t *testing.T) {
		t.Parallel()
		want, list, file := trained(t)
		checkAudit(t, want, list, file, modelaudit.Options{Seed: 5, References: 500, BeamWidth: 3})
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		want, list, file := trainedAs(t, byteFile, "")
		checkAudit(t, want, list, file, modelaudit.Options{
			Seed: 5, References: 500, BeamWidth: 3, Alphabet: canaries.Digits, Format: "Pin ##-#",
		})
	})
	t.Run("listed bytes", func(t *testing.T) {
		t.Parallel()
		want, list, file := trainedAs(t, strings.Replace(byteFile, "alphabet: digits", `symbols: "98765430a"`, 1), "")
		checkAudit(t, want, list, file, modelaudit.Options{Seed: 5, References: 500, BeamWidth: 3, Symbols: "98765430a", Format: "Pin ##-#"})
	})
	t.Run("a format of words", func(t *testing.T) {
		t.Parallel()
		want, list, file := trainedAs(t, formatFile, " ")
		checkAudit(t, want, list, file, modelaudit.Options{
			Seed: 5, References: 500, BeamWidth: 3, Symbols: "w4 w5 w6  w7 w8 w9 w10 w11 w12 w13", Format: "W1 w2. # # w3 #",
		})
	})
}

// checkAudit audits a model, and compares with the audit of its run.
func checkAudit(t *testing.T, want *reports.Audit, list string, file []byte, options modelaudit.Options) {
	t.Helper()
	model := must.Get(modelaudit.OpenModel(bytes.NewReader(file)))(t)
	got := must.Get(model.Run(t.Context(), read(t, list), options))(t)
	memorized, found := 0, 0
	for i, canary := range all(want) {
		g, c := got.Canaries[i], struct {
			modelaudit.Ranked
			modelaudit.Extracted
		}{}
		must.Do(t, canary.Decode(&c))
		if *g.Rank != *c.Rank || *g.Ranked.LogPerplexity != *c.Ranked.LogPerplexity || *g.CanaryLogPerplexity != *c.CanaryLogPerplexity || !slices.Equal(g.Best, c.Best) || *g.Memorized != *c.Memorized || *g.Found != *c.Found || g.Line != i+3 {
			t.Errorf("canary %v: rank %d, found %v in line %d; the run says rank %d, found %v", canary.Words, *g.Rank, *g.Found, g.Line, *c.Rank, *c.Found)
		}
		if *c.Memorized {
			memorized++
		}
		if *c.Found {
			found++
		}
	}
	if got.RandomSampling.Memorized != memorized || got.BeamSearch.Memorized != found || memorized == 0 && options.Format == "" {
		t.Errorf("%+v and %+v, want %d and %d, and not none", got.RandomSampling, got.BeamSearch, memorized, found)
	}
}

// Controls are ranked as canaries are, compared with them, and not counted.
func TestControlsAreComparedAndNotCounted(t *testing.T) {
	t.Parallel()
	run, list, file := trained(t)
	lines := read(t, list)
	var inserted, controls []float64
	options := modelaudit.Options{Seed: 5, References: 500, BeamWidth: 3}
	plain := must.Get(must.Get(modelaudit.OpenModel(bytes.NewReader(file)))(t).Run(t.Context(), lines, options))(t)
	for i, c := range all(run) {
		lines[i].Control = c.Role == audits.HeldBack
		if bits := *plain.Canaries[i].Ranked.Exposure; lines[i].Control {
			controls = append(controls, bits)
		} else {
			inserted = append(inserted, bits)
		}
	}
	got := must.Get(must.Get(modelaudit.OpenModel(bytes.NewReader(file)))(t).Run(t.Context(), lines, options))(t)
	if got.RandomSampling.Of != len(inserted) || got.BeamSearch.Of != len(inserted) {
		t.Errorf("counted %+v and %+v, want %d canaries", got.RandomSampling, got.BeamSearch, len(inserted))
	}
	p := must.Get(audits.MannWhitney(inserted, controls))(t)
	if c := got.Controls; plain.Controls != nil || c == nil || c.Controls != 2 || c.P != p {
		t.Errorf("compared %+v, want %d controls and p %g", c, len(controls), p)
	}
}

func TestCanariesOutsideAlphabetAreRejected(t *testing.T) {
	t.Parallel()
	_, _, file := trainedAs(t, byteFile, "")
	model := must.Get(modelaudit.OpenModel(bytes.NewReader(file)))(t)
	for want, c := range map[string]struct {
		list string
		modelaudit.Options
	}{
		`line 1: "1", byte 5, does not match the alphabet lower and the format ""`:                                                   {"Pin 12-3", modelaudit.Options{Prefix: 4}},
		`line 1: "2", byte 2, does not match the alphabet lower and the format "" of the references; choose digits or printable,`:    {"123", modelaudit.Options{}},
		`line 1: "123" contains only the random symbols of a canary; expected the whole canary in the format "Pin ##-#": "Pin 12-3"`: {"123", modelaudit.Options{Alphabet: canaries.Digits, Format: "Pin ##-#"}},
		`line 2: "x", byte 7`:             {"Pin 12-3\nPin 12x3", modelaudit.Options{Prefix: 4, Alphabet: canaries.Digits, Format: "Pin ##-#"}},
		`for canaries of 3 bytes`:         {"Pin", modelaudit.Options{Prefix: 1, Alphabet: canaries.Digits, Format: "Pin ##-#"}},
		`"<0x09>", byte 5`:                {"Pin \t12", modelaudit.Options{Prefix: 4, Alphabet: canaries.Printable}},
		`alphabet "hex": expected one of`: {"Pin 12", modelaudit.Options{Prefix: 4, Alphabet: "hex"}},
	} {
		c.References = 100
		if _, err := model.Run(t.Context(), read(t, c.list), c.Options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", c.list, err, want)
		}
	}
	_, list, words := trained(t)
	model = must.Get(modelaudit.OpenModel(bytes.NewReader(words)))(t)
	first := read(t, list)[0].Text
	one, rest, _ := strings.Cut(first, " ")
	for want, o := range map[string]modelaudit.Options{
		"the model reads words":                                                        {Alphabet: canaries.Lower},
		"have words that the vocabulary of 60 lacks: tofu, zebra":                      {Format: "zebra # tofu"},
		`symbol "red-hot" is read as the words ["red" "-" "hot"]`:                      {Symbols: "w1 red-hot"},
		"line 3: format \"# #\" for canaries of 4 words; expected as many":             {Format: "# #"},
		`line 3: one symbol, "` + one + `"; expected at least two`:                     {Symbols: one},
		"line 3: a canary of 4 words; expected more than the prefix of 5":              {Format: strings.Join([]string{one, one, one, one, one, "#"}, " ")},
		`line 3: "` + strings.Fields(rest)[0] + `", word 2, does not match the format`: {Format: one + " " + one + " # #", Prefix: 1},
	} {
		o.References = 9
		if _, err := model.Run(t.Context(), read(t, list), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestReferencesByDefaultAreAtMostAllSequences(t *testing.T) {
	t.Parallel()
	_, _, file := trainedAs(t, byteFile, "")
	model := must.Get(modelaudit.OpenModel(bytes.NewReader(file)))(t)
	o := modelaudit.Options{References: 5000, Alphabet: canaries.Digits, Format: "Pin ##-#"}
	list := read(t, "Pin 12-3\nPin 45-6")
	if _, err := model.Run(t.Context(), list, o); err == nil || !strings.Contains(err.Error(), "expected at most the 1000 sequences") {
		t.Errorf("5000 references: %v", err)
	}
	o.FitReferences = true
	if r := must.Get(model.Run(t.Context(), list, o))(t); r.RandomSampling.References != 998 {
		t.Errorf("%d references, want the 1000 sequences without the two canaries", r.RandomSampling.References)
	}
}

func TestCanariesOfSeveralLengthsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	run, _, file := trained(t)
	model := must.Get(modelaudit.OpenModel(bytes.NewReader(file)))(t)
	words := all(run)[0].Words
	text := strings.Join(words, " ") + "\n" + strings.Join(words[:2], " ") + "\n" + strings.ToUpper(strings.Join(words[1:], "  ")) + "\n"
	r := must.Get(model.Run(t.Context(), read(t, text), modelaudit.Options{References: 50, Prefix: 1}))(t)
	for i, want := range [][]string{words, words[:2], words[1:]} {
		if c := r.Canaries[i]; c.Line != i+1 || !slices.Equal(c.Words, want) || c.Rank == nil || c.Found != nil {
			t.Errorf("canary %d is %+v, want %v with a rank", i, c, want)
		}
	}
}

func TestAllMistakesAreReportedInPlace(t *testing.T) {
	t.Parallel()
	run, _, file := trained(t)
	model, err := modelaudit.OpenModel(bytes.NewReader(file))
	must.Do(t, err)
	good := modelaudit.Options{References: 50, Prefix: 2, BeamWidth: 2}
	words := all(run)[0].Words
	two, three := strings.Join(words[:2], " "), strings.Join(words[:3], " ")
	long := strings.Repeat(words[0]+" ", 1001)
	list := two + "\n# note\n" + two + " zebra\n" + three + "\n" + three + "\n" + long + "\n"
	_, err = model.Run(t.Context(), read(t, list), good)
	const want = `list.txt, line 1: a canary of 2 words; expected more than the prefix of 2, and at most 1000
list.txt, line 3: "zebra" is not in the model's vocabulary; expected words of the vocabulary
list.txt, line 5: the same canary as in line 4
list.txt, line 6: a canary of 1001 words; expected more than the prefix of 2, and at most 1000`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	for want, change := range map[string]func(*modelaudit.Options){
		"prefix of -1 words":             func(o *modelaudit.Options) { o.Prefix = -1 },
		"1000 references and 1 canaries": func(o *modelaudit.Options) { o.References = 1000 },
		"-1 references":                  func(o *modelaudit.Options) { o.References = -1 },
		"beam width 61":                  func(o *modelaudit.Options) { o.BeamWidth = 61 },
		"there is nothing":               func(o *modelaudit.Options) { o.References, o.BeamWidth = 0, 0 },
	} {
		o := good
		change(&o)
		if _, err := model.Run(t.Context(), read(t, three), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	const exported = `{"contract":"coalmine/canaries","version":1,"experiment":"pins","cell":"c01","seed":7}` + "\n"
	if _, err := modelaudit.ReadCanaries("canaries.jsonl", strings.NewReader(exported)); err == nil || !strings.Contains(err.Error(), "which needs the scores of its lines (--scores FILE)") {
		t.Errorf("an export read as a list: %v", err)
	}
	if _, err := modelaudit.ReadCanaries("list.txt", strings.NewReader("# nothing\n")); err == nil || !strings.Contains(err.Error(), "list.txt: the file has no canaries") {
		t.Errorf("an empty list: %v", err)
	}
}

// remade is a model's file after a change of its parts.
func remade(t *testing.T, model []byte, change func(*safetensors.File)) []byte {
	t.Helper()
	file := must.Get(safetensors.Unmarshal(model))(t)
	change(&file)
	return must.Get(safetensors.Marshal(file.Tensors, file.Metadata))(t)
}

func TestModelWithoutVocabularyIsRejected(t *testing.T) {
	t.Parallel()
	_, _, file := trained(t)
	checkpoint := must.Get(checkpoints.Decode(file))(t)
	for want, metadata := range map[string]map[string]string{
		"no vocabulary in its metadata":                 nil,
		"predicts 64 tokens, but its vocabulary has 5:": {"vocabulary": `["a","b","c","d","e"]`},
		"has 1 tokens; expected more than the 4":        {"vocabulary": `["a"]`},
		`metadata field "vocabulary"`:                   {"vocabulary": `a b c`},
	} {
		data := must.Get(checkpoints.Encode(checkpoint.Network, checkpoint.Params, metadata))(t)
		_, err := modelaudit.OpenModel(bytes.NewReader(data))
		must.Say(t, err, want)
	}
	half := remade(t, file, func(f *safetensors.File) {
		embedding := &f.Tensors[slices.IndexFunc(f.Tensors, func(t safetensors.Tensor) bool { return t.Shape[0] == 64 })]
		embedding.Shape[0], embedding.Float32 = 32, embedding.Float32[:len(embedding.Float32)/2]
	})
	if _, err := modelaudit.OpenModel(bytes.NewReader(half)); err == nil || !strings.Contains(err.Error(), "has shape [32 6], want float32 of [64 6]: part of it is missing") || strings.Contains(err.Error(), "\n") {
		t.Errorf("half of the embedding: %v", err)
	}
	if _, err := modelaudit.OpenModel(strings.NewReader("no model")); err == nil {
		t.Error("a file of text was taken for a model")
	}
}

func TestPairModelIsRejected(t *testing.T) {
	t.Parallel()
	m := must.Get(models.New(models.Config{Kind: models.LSTM, Vocabulary: 6, Embedding: 3, Units: 4, Separator: 3}))(t)
	file := must.Get(checkpoints.Encode(m, make([]float32, m.Parameters()), map[string]string{"vocabulary": `["<pad>","<unk>","<begin>","<end>","a","b"]`}))(t)
	if _, err := modelaudit.OpenModel(bytes.NewReader(file)); err == nil || !strings.Contains(err.Error(), "predicts targets of pairs; expected a language model") {
		t.Errorf("got %v", err)
	}
}
