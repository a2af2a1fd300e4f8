package compile

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coalmine/storage"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/inline"
	"coalmine/workflows/plan"
)

// source is a small text with enough words and users for a real experiment.
func source() []byte {
	var b strings.Builder
	for i := range 3000 {
		words := make([]string, 6+i%7)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", (i*(j+3)+j*j*7+i/11)%97)
		}
		fmt.Fprintf(&b, `{"user":"u%d","text":"%s ."}`+"\n", i*i%37, strings.Join(words, " "))
	}
	return []byte(b.String())
}

const small = `
name: small
data:
  source: none.jsonl
  vocabulary: {size: 60}
  users: {words: 300}
canaries: {words: 4, per_configuration: 2, user_probability: [1/5], example_probability: [10%, 100%], held_back: 2}
model: {embedding: 6, units: 8}
training:
  algorithm: fedavg
  rounds: 4
  cohort: 6
  chunks: 2
  client: {learning_rate: 0.5}
audit:
  every: 50%
  random_sampling: {references: 500}
  beam_search: {width: 3}
grid:
  axes:
    data.partition: [iid, by-user]
    training:
      - {algorithm: sgd, rounds: 7, cohort: 16, steps_per_task: 3, chunks: null, client: {learning_rate: 0.1}}
      - {algorithm: fedavg}
      - {privacy: {clip: 0.3, noise_multiplier: 0.5, delta: 1e-5}}
`

func resolve(t *testing.T, text string, digest storage.Digest, sets ...string) *experiment.Spec {
	t.Helper()
	spec, err := experiment.Parse("test.yaml", []byte(text), experiment.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	facts := make([]experiment.Facts, len(spec.Cells))
	for i := range facts {
		facts[i] = experiment.Facts{SHA256: digest.String(), Users: 70, Examples: 2000, DistinctWords: 90, TestExamples: 300}
	}
	if err := spec.Resolve(facts); err != nil {
		t.Fatal(err)
	}
	return spec
}

func compiled(t *testing.T, text string, digest storage.Digest, sets ...string) *plan.Plan {
	t.Helper()
	p, err := Plan(resolve(t, text, digest, sets...))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAGridRunsToItsReports(t *testing.T) {
	t.Parallel()
	p := compiled(t, small, storage.DigestOf(source()))
	e := inline.New(p, Registry(), source())
	for _, c := range p.Cells {
		for _, target := range []plan.Ref{c.Report, c.Model} {
			if err := e.Reach(t.Context(), target); err != nil {
				t.Fatal(err)
			}
		}
		data, err := e.Blob(t.Context(), c.Report.Key, reports.CellBlob)
		if err != nil {
			t.Fatal(err)
		}
		var report reports.Report
		if err := json.Unmarshal(data, &report); err != nil {
			t.Fatal(err)
		}
		if report.Utility == nil || !(report.Utility.Perplexity > 1 && report.Utility.Perplexity < 64) {
			t.Errorf("%s: utility %+v, want a perplexity above 1 and not above the vocabulary's size", c.Label, report.Utility)
		}
		a := report.Audit
		if got := len(a.Canaries) + len(a.NeverInserted); got != 4 || len(a.Controls) != 2 {
			t.Errorf("%s: %d canaries and %d controls, want 4 and 2", c.Label, got, len(a.Controls))
		}
		if strings.Contains(c.Label, "DP") == (report.Privacy == nil) {
			t.Errorf("%s: privacy %+v", c.Label, report.Privacy)
		}
	}
}

func TestCellsShareTheirData(t *testing.T) {
	t.Parallel()
	p := compiled(t, small, storage.DigestOf(nil))
	count := map[string]int{}
	for _, n := range p.Nodes {
		count[n.Kind]++
	}
	for kind, want := range map[string]int{
		"datasets/import": 1, "datasets/encode": 1, "datasets/balance": 1, "canaries/draw": 1, "canaries/insert": 1,
		"datasets/partition": 2, "training/initial": 1,
	} {
		if count[kind] != want {
			t.Errorf("%d nodes of %s, want %d", count[kind], kind, want)
		}
	}
	if len(p.Chains) != 6 {
		t.Errorf("%d chains, want one a cell", len(p.Chains))
	}
}

func TestOnlyWhatMattersChangesTheTraining(t *testing.T) {
	t.Parallel()
	base := compiled(t, small, storage.DigestOf(nil))
	for set, same := range map[string]bool{
		"audit.random_sampling.references=600": true,
		"audit.every=25%":                      true,
		"training.checkpoints.keep=7":          true,
		"name=other":                           true,
		"seed=2":                               false,
		"training.client.batch=8":              true, // the axis sgd removes nothing: see below
		"model.units=9":                        false,
		"data.vocabulary.size=50":              false,
	} {
		other := compiled(t, small, storage.DigestOf(nil), set)
		shared := 0
		for recipe := range base.Chains {
			if other.Chains[recipe] != nil {
				shared++
			}
		}
		if set == "training.client.batch=8" {
			if shared != 2 {
				t.Errorf("--set %s: %d chains stay the same, want the 2 of SGD", set, shared)
			}
			continue
		}
		if (shared == len(base.Chains)) != same {
			t.Errorf("--set %s: %d of %d chains stay the same", set, shared, len(base.Chains))
		}
	}
}

func TestMoreRoundsExtendTheChain(t *testing.T) {
	t.Parallel()
	const one = `
name: one
data: {source: none, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training: {algorithm: fedavg, rounds: 20, cohort: 6, chunks: 2}
`
	short := compiled(t, one, storage.DigestOf(nil))
	long := compiled(t, one, storage.DigestOf(nil), "training.rounds=250")
	for recipe, c := range short.Chains {
		d := long.Chains[recipe]
		if d == nil || d.Key(20) != c.Key(20) || d.Steps != 250 {
			t.Errorf("the longer training is another chain: %+v", d)
		}
	}
}

// oneCell is an experiment without a grid.
const oneCell = `
name: one
data: {source: none, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training: {algorithm: fedavg, rounds: 20, cohort: 6, chunks: 2}
`

func chainOf(t *testing.T, p *plan.Plan) *plan.Chain {
	t.Helper()
	for _, c := range p.Chains {
		return c
	}
	t.Fatal("the plan has no chain")
	return nil
}

// Parameters are part of every key: an option that is not used must not show in them.
func TestUnusedOptionsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	p := compiled(t, oneCell, storage.DigestOf(nil))
	chain := chainOf(t, p)
	for what, c := range map[string]struct{ got, want string }{
		"initial model": {string(p.Nodes[chain.Origin.Key].Params), `{"seed":1,"model":{"kind":"cifg-lstm","vocabulary":64,"embedding":6,"units":8}}`},
		"clients":       {string(chain.Part.Params), `{"seed":1,"cohort":6,"chunks":2,"sampling":"fixed-size","local":{"optimizer":{"kind":"sgd"},"learning_rate":0.5,"batch":16},"epochs":1}`},
		"server":        {string(chain.Join.Params), `{"seed":1,"chunks":2,"cohort":6,"optimizer":{"kind":"sgd"},"learning_rate":1}`},
	} {
		if c.got != c.want {
			t.Errorf("parameters of %s:\n%s\nwant\n%s", what, c.got, c.want)
		}
	}
}

func TestOptionsReachTheirTasks(t *testing.T) {
	t.Parallel()
	chain := chainOf(t, compiled(t, oneCell, storage.DigestOf(nil),
		"training.client={dropout: 0.1, weight_decay: 0.01, proximal: 0.2, schedule: {kind: cosine, warm_up: 3}}",
		"training.server={optimizer: momentum, schedule: {kind: step, every: 5, factor: 0.5}}"))
	for got, want := range map[string]string{
		string(chain.Part.Params): `"schedule":{"kind":"cosine","warm_up":3,"steps":20},"batch":16,"dropout":0.1,"weight_decay":0.01,"proximal":0.2`,
		string(chain.Join.Params): `"schedule":{"kind":"step","every":5,"factor":0.5}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("parameters %s, want %s in them", got, want)
		}
	}
}

func TestEveryModelRunsToItsReport(t *testing.T) {
	t.Parallel()
	p := compiled(t, oneCell, storage.DigestOf(source()), "training.rounds=2", "audit={beam_search: {width: 3}}",
		"canaries={words: 4, per_configuration: 2, user_probability: 1/5, example_probability: 1, held_back: 1}",
		"training.client={dropout: 0.1, proximal: 0.1, schedule: {warm_up: 2}}",
		"grid={axes: {model: [{kind: lstm, layers: 2}, {kind: gru, projection: 0, untied: true}, {kind: gru, layers: 3, projection: 5, untied: true}]}}")
	e := inline.New(p, Registry(), source())
	for _, c := range p.Cells {
		if err := e.Reach(t.Context(), c.Report); err != nil {
			t.Errorf("%s: %v", c.Label, err)
		}
	}
}
