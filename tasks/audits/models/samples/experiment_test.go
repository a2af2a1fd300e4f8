package samples_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/samples"
	"coalmine/workflows/plan/plantest"
)

const wordFile = `
name: sampled
data: {source: none.jsonl, vocabulary: {size: 40}, users: {words: 300}}
model: {embedding: 8, units: 16}
training: {rounds: 20, cohort: 20, chunks: 2, client: {learning_rate: 2}}
audit: {utility: false, samples: {count: 6000}}
`

func TestWordsOutOfVocabularyAreCountedByPosition(t *testing.T) {
	t.Parallel()
	report := plantest.CellReport(t, wordFile)
	var v samples.Outcome
	plantest.Outcome(t, &report, "samples", &v)
	u := v.Unknown
	if v.Samples != 6000 || len(v.Shown) != 20 || len(u.Positions) != 10 || v.Length != 10 || v.Search != nil {
		t.Fatalf("outcome %+v", v)
	}
	if first := u.Positions[0]; first.Of < 5900 || first.Of > 6000 || math.Abs(first.Share-u.FirstProbability) > 0.03 {
		t.Errorf("first words %+v, by the model %v", first, u.FirstProbability)
	}
	// About half of the words of the text are out of such a small vocabulary.
	if u.All.Share < 0.2 || u.All.Share > 0.8 || u.All.High-u.All.Low > 0.05 {
		t.Errorf("all words %+v", u.All)
	}
	if figure := v.Figure(nil); len(figure.Bars) != 10 || len(figure.Ranges) != 10 {
		t.Errorf("figure %+v", figure)
	}
	point := report.Curve[len(report.Curve)-1]
	if percent, ok := point.Metric("samples_first_unknown_percent"); !ok || percent != 100*u.Positions[0].Share {
		t.Errorf("metric %v of %+v", percent, u.Positions[0])
	}
}

const byteFile = `
name: sampled
data: {source: none.jsonl, level: byte, users: {words: 300}}
model: {kind: gru, embedding: 8, units: 16, projection: 0, untied: true}
training: {rounds: 12, cohort: 20, chunks: 2, client: {learning_rate: 1}}
audit: {utility: false, samples: {count: 2000, length: 12, expansions: 1500}}
`

func TestTheMostProbableWordsOfBytesAreFound(t *testing.T) {
	t.Parallel()
	report := plantest.CellReport(t, byteFile)
	var v samples.Outcome
	plantest.Outcome(t, &report, "samples", &v)
	if v.Unknown != nil || v.Spaces == nil || v.Search == nil || v.Search.Expanded < 1500 && v.Search.Certain < 20 {
		t.Fatalf("outcome %+v", v)
	}
	for i, w := range v.Search.Words {
		if i > 0 && w.LogProbability > v.Search.Words[i-1].LogProbability {
			t.Errorf("number %d is more probable than the one before it: %+v", i, w)
		}
	}
	if v.Spaces.Of != len(v.Search.Words) || v.Spaces.Samples.Of != v.Samples-v.Cut {
		t.Errorf("spaces %+v of %d words, %d samples, %d cut", v.Spaces, len(v.Search.Words), v.Samples, v.Cut)
	}
	if v.Figure(nil) != nil {
		t.Error("a figure by position was drawn of bytes")
	}
}

// A limit is passed where the share is above it, and by more than chance allows.
func TestLimitsAreTests(t *testing.T) {
	t.Parallel()
	spec := plantest.Resolve(t, wordFile, nil, "audit.fail_if={samples_out_of_vocabulary: 10%}")
	breaches := func(v *samples.Outcome) (all []string) {
		for _, l := range spec.Cells[0].Experiment.Audit.FailIf.GivenLimits() {
			all = append(all, l.Breaches(&audits.Cell{Outcomes: []audits.Outcome{v}}, l.Value)...)
		}
		return all
	}
	of := func(counts ...int) *samples.Outcome {
		v := &samples.Outcome{Significance: 0.001, Unknown: new(samples.Unknown)}
		for _, n := range counts {
			v.Unknown.Positions = append(v.Unknown.Positions, audits.NewShare(n, 1000))
		}
		return v
	}
	if got := breaches(of(100, 120, 0)); len(got) != 0 {
		t.Errorf("breaches %q", got)
	}
	got := breaches(of(200, 120, 0))
	if len(got) != 1 || !strings.HasPrefix(got[0], "samples_out_of_vocabulary is 0.2 at position 1 (200 of 1000), above the limit of 10%") {
		t.Errorf("breaches %q", got)
	}
	alarms := spec.FalseAlarms()
	if len(alarms) != 1 || alarms[0].Probability != 0.001 || !strings.Contains(alarms[0].String(), "samples in total: 6000, cells: 1, the model at the limit") {
		t.Errorf("false alarms %+v", alarms)
	}
}
