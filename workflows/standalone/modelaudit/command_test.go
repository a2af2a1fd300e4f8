package modelaudit_test

import (
	"bytes"
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/tasks/audits/canaries/probabilisticextraction"
	"coalmine/tasks/canaries"
	"coalmine/workflows/standalone/modelaudit"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

func TestMain(m *testing.M) { os.Exit(servetest.Main(m)) }

// commanded is a command that scores by a model, asked about words of its vocabulary or bytes.
func commanded(t *testing.T, model []byte, inBytes bool) *modelaudit.Command {
	t.Helper()
	client := must.Get(score.Start(context.WithoutCancel(t.Context()), score.Options{Command: servetest.Command(t, model), Name: "scorer", Concurrency: 3}))(t)
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	vocabulary := modelaudit.BytesVocabulary()
	if !inBytes {
		vocabulary = must.Get(modelaudit.ReadWords(bytes.NewReader(model)))(t)
	}
	return must.Get(modelaudit.NewCommand(client, vocabulary, 64))(t)
}

func TestCommandRanksMatchFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, separator string
		options         modelaudit.Options
	}{
		"words":             {file, " ", modelaudit.Options{Seed: 5, References: 2000}},
		"fits":              {file, " ", modelaudit.Options{Seed: 5, References: 300, SkewNormal: 400}},
		"bytes":             {byteFile, "", modelaudit.Options{Seed: 5, References: 600, Alphabet: canaries.Digits, Format: "Pin ##-#"}},
		"a format of words": {formatFile, " ", modelaudit.Options{Seed: 5, References: 700, Symbols: "w4 w5 w6 w7 w8 w9 w10 w11 w12 w13", Format: "w1 w2. # # w3 #"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, list, model := trainedAs(t, c.file, c.separator)
			opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
			want := must.Get(opened.Run(t.Context(), read(t, list), c.options))(t)
			got := must.Get(commanded(t, model, c.separator == "").Run(t.Context(), read(t, list), c.options))(t)
			checkCommanded(t, got, want)
		})
	}
}

// Canaries with one prefix share their references: each is scored once, 32 of them once more, alone, and
// each canary alone and in a batch. 128 bytes that are characters are scored to see whether probabilities
// add up.
func TestReferencesAreScoredOnce(t *testing.T) {
	t.Parallel()
	_, list, model := trainedAs(t, byteFile, "")
	const references = 600
	options := modelaudit.Options{Seed: 5, References: references, SkewNormal: 300, Exact: true, Alphabet: canaries.Digits, Format: "Pin ##-#"}
	got := must.Get(commanded(t, model, true).Run(t.Context(), read(t, list), options))(t)
	if want := int64(references + 32 + 2*len(got.Canaries) + 128); got.Command.Sequences != want || len(got.Canaries) < 2 {
		t.Errorf("%d sequences are scored for %d canaries, want %d", got.Command.Sequences, len(got.Canaries), want)
	}
}

// checkCommanded compares the report of an exact command with that of the file. The space
// before a canary's secret costs all sequences the same.
func checkCommanded(t *testing.T, got, want *modelaudit.Report) {
	t.Helper()
	d := got.Command
	if d == nil || d.LargestDifference != 0 || d.Compared < 32 || d.Sequences == 0 || d.Requests == 0 || d.Command != "scorer" || !d.Deterministic || len(d.Model) < 64 {
		t.Fatalf("command %+v, want equal scores alone and in a batch", d)
	}
	if *d.MaxExposure != math.Log2(float64(got.RandomSampling.References)) {
		t.Errorf("exposures up to %v of %d references", *d.MaxExposure, got.RandomSampling.References)
	}
	for i := range got.Canaries {
		c, w := &got.Canaries[i], &want.Canaries[i]
		if *c.Rank != *w.Rank || *c.RankLow != *w.Rank || *c.RankHigh != *w.Rank || c.Text != w.Text {
			t.Errorf("%q has rank %d, in %d to %d; want %d", c.Text, *c.Rank, *c.RankLow, *c.RankHigh, *w.Rank)
		}
		if *c.LogProbability != -*c.Ranked.LogPerplexity || *c.Queries < 1 {
			t.Errorf("%q of log-perplexity %v has probability exp(%v), and %v samples", c.Text, *c.Ranked.LogPerplexity, *c.LogProbability, *c.Queries)
		}
		if want.SkewNormal != nil && *c.Fitted.Exposure != *w.Fitted.Exposure {
			t.Errorf("%q has the fitted exposure %v, want %v", c.Text, *c.Fitted.Exposure, *w.Fitted.Exposure)
		}
	}
	if *got.RandomSampling.MemorizedLow != want.RandomSampling.Memorized || got.RandomSampling.Memorized != want.RandomSampling.Memorized {
		t.Errorf("%+v, want %+v", got.RandomSampling, want.RandomSampling)
	}
}

// The answers to canaries alone give the outcome of a run's probabilistic extraction.
func TestCommandMatchesProbabilisticExtraction(t *testing.T) {
	t.Parallel()
	extracting := strings.Replace(file, "beam_search: {width: 3}", "beam_search: {width: 3}, probabilistic_extraction: {}", 1)
	audit, list, model := trainedAs(t, extracting, " ")
	got := must.Get(commanded(t, model, false).Run(t.Context(), read(t, list), modelaudit.Options{Seed: 5, SkewNormal: 100}))(t)
	want := make([]probabilisticextraction.CanaryOutcome, len(got.Canaries))
	for i, c := range all(audit) {
		must.Do(t, c.Decode(&want[i]))
	}
	for i := range got.Canaries {
		c, w := &got.Canaries[i], want[i]
		if math.Abs(*c.LogProbability-*w.LogProbability) > 1e-9 || math.Abs(*c.Queries / *w.Queries - 1) > 1e-6 || *c.Greedy != *w.Greedy {
			t.Errorf("%q: %v, %v samples, greedy %v; want %v, %v, %v", c.Text, *c.LogProbability, *c.Queries, *c.Greedy, *w.LogProbability, *w.Queries, *w.Greedy)
		}
	}
	if got.RandomSampling != nil || got.Command.MaxExposure != nil {
		t.Errorf("without references: %+v, %+v", got.RandomSampling, got.Command)
	}
}

func TestCommandRejectsUnsupportedOptions(t *testing.T) {
	t.Parallel()
	_, _, model := trained(t)
	c := commanded(t, model, true)
	for want, o := range map[string]modelaudit.Options{
		"beam search needs the probabilities of all next tokens":           {References: 10, BeamWidth: 2},
		"there is nothing to measure":                                      {},
		`is not UTF-8, which requests need; expected a prefix that ends b`: {References: 5, Alphabet: canaries.Digits, Format: "ä##", Prefix: 1},
	} {
		if _, err := c.Run(t.Context(), read(t, "ä12"), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
	for text, want := range map[string]string{
		`["pin", "Code"]`:  `entry 2 of the list is "Code"; expected words as texts are read`,
		`["two words"]`:    `entry 1 of the list is "two words"`,
		`["a", "b", "a"]`:  `entry 3 of the list is "a"; expected words as texts are read, each once`,
		`["a", null, "<"]`: "",
	} {
		if _, err := modelaudit.ReadWords(strings.NewReader(text)); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := modelaudit.NewCommand(nil, nil, 0); err == nil {
		t.Error("batches of 0 texts are taken")
	}
}
