package compile_test

import (
	"errors"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/audits/canaries/beamsearch"
	"coalmine/tasks/audits/canaries/randomsampling"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

// characters is the character model of the Secret Sharer in miniature.
const characters = `
name: characters
data: {source: none.jsonl, level: byte, sequence: 40, users: {words: 600}}
canaries: {alphabet: digits, format: "pin ###-##", per_configuration: 2, user_probability: 1/5, example_probability: 1, held_back: 2}
model: {kind: lstm, layers: 2, embedding: 6, units: 8, projection: 0, untied: true}
training: {rounds: 4, cohort: 6, chunks: 2, client: {learning_rate: 0.5}}
audit:
  random_sampling: {references: 500}
  beam_search: {width: 3}
`

func TestByteExperimentRunsToItsReport(t *testing.T) {
	t.Parallel()
	p := compiled(t, characters, storage.DigestOf(plantest.Text()))
	e := plantest.Executor(t, p)
	c := &p.Cells[0]
	var report reports.Report
	plantest.Decode(t, e, c.Report, reports.CellBlob, &report)
	var u utility.Outcome
	plantest.Outcome(t, &report, "utility", &u)
	if !(u.Perplexity > 1 && u.Perplexity < 300) || u.AllTargets.Tokens <= u.Tokens {
		t.Errorf("utility %+v: want a perplexity per byte, and ends of sentences among all targets", u)
	}
	all := report.Audit.Canaries()
	if len(all) != 4 {
		t.Fatalf("%d canaries", len(all))
	}
	for _, canary := range all {
		text := strings.Join(canary.Words, "")
		if len(text) != 10 || text[:4] != "pin " || text[7] != '-' || !canaries.Digits.Holds(text[4]) {
			t.Errorf("canary %q", text)
		}
		var ranked randomsampling.CanaryOutcome
		var extracted beamsearch.CanaryOutcome
		must.Do(t, errors.Join(canary.Decode(&ranked), canary.Decode(&extracted)))
		if ranked.Rank == nil || *ranked.Rank < 1 || *ranked.Rank > 501 || extracted.Found == nil || len(extracted.Best) != 6 {
			t.Errorf("canary %q was not audited: %+v, %+v", text, ranked, extracted)
		}
	}
}

// The byte level must not change the keys of word-level files.
func TestByteLevelKeepsWordLevelKeys(t *testing.T) {
	t.Parallel()
	digest := storage.DigestOf(plantest.Text())
	before := compiled(t, onePrivate, digest)
	named := compiled(t, onePrivate, digest, "data.level=word", "data.sequence=20")
	if before.Cells[0].Report != named.Cells[0].Report {
		t.Error("naming the defaults gives other keys")
	}
	both := compiled(t, strings.Replace(onePrivate, "vocabulary: {size: 60}, ", "", 1)+
		"grid: {axes: {data: [{level: word, vocabulary: {size: 60}}, {level: byte}]}}\n", digest)
	if both.Cells[0].Report != before.Cells[0].Report || both.Cells[1].Report == before.Cells[0].Report {
		t.Error("a grid over levels has other keys for words, or the same for bytes")
	}
	for key, node := range before.Nodes {
		for _, field := range []string{`"level"`, `"sequence"`, `"alphabet"`, `"format"`} {
			if strings.Contains(string(node.Spec.Params), field) {
				t.Errorf("%s %s has %s among its parameters: %s", node.Spec.Kind, key.Short(), field, node.Spec.Params)
			}
		}
	}
	longer := compiled(t, onePrivate, digest, "data.sequence=30")
	if longer.Cells[0].Report == before.Cells[0].Report {
		t.Error("longer sequences have the same keys")
	}
}

func TestByteLevelDefaults(t *testing.T) {
	t.Parallel()
	for sets, want := range map[string]string{
		"":                            `{"words":10,"alphabet":"lower",`,
		`canaries.format="call ####"`: `{"words":4,"alphabet":"lower","format":"call ####",`,
		`canaries.alphabet=printable`: `{"words":10,"alphabet":"printable",`,
	} {
		content := "name: x\ndata: {source: a, level: byte}\ncanaries: {user_probability: 1, example_probability: 1}\n" +
			"training: {rounds: 1, cohort: 1}\naudit: {random_sampling: {references: 9}, beam_search: {}}\n"
		var options experiment.Options
		if sets != "" {
			options.Sets = []string{sets}
		}
		spec := must.Get(experiment.Parse("x.yaml", []byte(content), options))(t)
		e := &spec.Cells[0].Experiment
		if !strings.Contains(string(e.Canonical()), `"canaries":`+want) {
			t.Errorf("%q: %s, want %s", sets, e.Canonical(), want)
		}
		prefix := max(1, strings.IndexByte(e.Canaries.Format, canaries.Blank))
		sampling, _ := experiment.RequestedFields[*randomsampling.Fields](e.Audit)
		beam, _ := experiment.RequestedFields[*beamsearch.Fields](e.Audit)
		if sampling.RandomSampling.Prefix != prefix || beam.BeamSearch.Prefix != prefix {
			t.Errorf("%q: prefixes %d, %d; want %d", sets, sampling.RandomSampling.Prefix, beam.BeamSearch.Prefix, prefix)
		}
		if got := compile.Recipe(e); got.Complete() != (source.Reading{Level: text.ByteLevel, Sequence: 100}) || got.VocabularySize != 0 {
			t.Errorf("recipe %+v", got)
		}
		again, err := experiment.Parse("again.yaml", e.Canonical(), experiment.Options{})
		if err != nil || again.Digest() != spec.Digest() {
			t.Errorf("%q: the resolved form does not give itself (%v)", sets, err)
		}
	}
}
