package modelaudit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/text"
	"coalmine/workflows/control"
	"coalmine/workflows/standalone/modelaudit"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

// endpoint is a server's model with its own vocabulary.
func endpoint(t *testing.T, s *servetest.Completions, model []byte) *modelaudit.Endpoint {
	t.Helper()
	vocabulary := must.Get(modelaudit.ReadVocabulary(bytes.NewReader(model), -1))(t)
	return asked(t, s, vocabulary)
}

func asked(t *testing.T, s *servetest.Completions, vocabulary *modelaudit.Vocabulary) *modelaudit.Endpoint {
	t.Helper()
	return must.Get(modelaudit.NewEndpoint(&modelaudit.CompletionsClient{URL: s.URL, Model: "small", Concurrency: 2}, vocabulary, 64))(t)
}

func TestEndpointRanksMatchFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, separator string
		options         modelaudit.Options
	}{
		"words":             {file, " ", modelaudit.Options{Seed: 5, References: 3000}},
		"fits":              {file, " ", modelaudit.Options{Seed: 5, References: 300, SkewNormal: 400}},
		"fits of bytes":     {byteFile, "", modelaudit.Options{Seed: 5, References: 100, SkewNormal: 500, Alphabet: canaries.Digits, Format: "Pin ##-#"}},
		"estimated ranks":   {file, " ", modelaudit.Options{Seed: 5, References: 21_000}},
		"bytes":             {byteFile, "", modelaudit.Options{Seed: 5, References: 600, Alphabet: canaries.Digits, Format: "Pin ##-#"}},
		"a format of words": {formatFile, " ", modelaudit.Options{Seed: 5, References: 700, Symbols: "w4 w5 w6 w7 w8 w9 w10 w11 w12 w13", Format: "w1 w2. # # w3 #"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, list, model := trainedAs(t, c.file, c.separator)
			if c.options.References > 20_000 {
				list = strings.Join(strings.Split(list, "\n")[5:], "\n") // those that were held back
			}
			opened := must.Get(modelaudit.OpenModel(bytes.NewReader(model)))(t)
			want := must.Get(opened.Run(t.Context(), read(t, list), c.options))(t)
			s := servetest.ServeCompletions(t, model)
			got := must.Get(endpoint(t, s, model).Run(t.Context(), read(t, list), c.options))(t)
			checkServed(t, got, want)
			if s.Largest.Load() != 64 {
				t.Errorf("at most %d prompts in a request, want 64", s.Largest.Load())
			}
		})
	}
}

// checkServed compares the report of an exact server with that of the file: equal, except
// for fields that only a server has.
func checkServed(t *testing.T, got, want *modelaudit.Report) {
	t.Helper()
	r := got.Endpoint
	if r == nil || r.LargestDifference != 0 || r.Compared < 32 || r.Sequences == 0 || r.Requests == 0 {
		t.Fatalf("endpoint %+v, want equal scores alone and in a batch", r)
	}
	estimates := 0
	for i := range got.Canaries {
		c := &got.Canaries[i]
		if *c.RankLow != *c.Rank || *c.RankHigh != *c.Rank {
			t.Errorf("rank %d in %d to %d of exact scores", *c.Rank, *c.RankLow, *c.RankHigh)
		}
		if !*c.RankExact {
			estimates++
		}
		c.RankLow, c.RankHigh = nil, nil
	}
	if v := got.RandomSampling; *v.MemorizedLow != v.Memorized || *v.MemorizedHigh != v.Memorized {
		t.Errorf("%d memorized, in %d to %d", v.Memorized, *v.MemorizedLow, *v.MemorizedHigh)
	}
	if v := got.RandomSampling; v.References > 20_000 && estimates == 0 {
		t.Error("no rank is estimated")
	}
	got.Endpoint, got.RandomSampling.MemorizedLow, got.RandomSampling.MemorizedHigh = nil, nil, nil
	if g, w := indented(t, got), indented(t, want); g != w {
		t.Errorf("the endpoint's report is\n%s\nthe file's\n%s", g, w)
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	return string(must.Get(json.MarshalIndent(v, "", " "))(t))
}

// A server whose scores depend on the place in a batch gives ranks between bounds, which
// hold the rank of exact scores.
func TestRanksOfNoisyServerAreIntervals(t *testing.T) {
	t.Parallel()
	_, list, model := trained(t)
	options := modelaudit.Options{Seed: 5, References: 2000}
	exact := must.Get(endpoint(t, servetest.ServeCompletions(t, model), model).Run(t.Context(), read(t, list), options))(t)
	s := servetest.ServeCompletions(t, model)
	s.Noise = 1e-3
	got := must.Get(endpoint(t, s, model).Run(t.Context(), read(t, list), options))(t)
	// 32 references are compared in one batch; the last of them is off by 32 units in each of
	// the three words after the prefix.
	if d := got.Endpoint.LargestDifference; math.Abs(d-3*1e-3*32) > 1e-9 || got.Endpoint.Compared != 32+len(got.Canaries) {
		t.Errorf("%d sequences differ by at most %g", got.Endpoint.Compared, d)
	}
	wide := 0
	for i, c := range got.Canaries {
		rank := *exact.Canaries[i].Rank
		if *c.RankLow > rank || *c.RankHigh < rank || *c.RankLow > *c.Rank || *c.RankHigh < *c.Rank {
			t.Errorf("ranks %d to %d around %d, want those around %d too", *c.RankLow, *c.RankHigh, *c.Rank, rank)
		}
		if *c.RankLow < *c.RankHigh {
			wide++
		}
	}
	if wide == 0 {
		t.Error("no rank is an interval")
	}
	if v := got.RandomSampling; *v.MemorizedLow > v.Memorized || *v.MemorizedHigh < v.Memorized {
		t.Errorf("%d memorized, in %d to %d", v.Memorized, *v.MemorizedLow, *v.MemorizedHigh)
	}
}

// A list of tokens by their ids stands for the vocabulary; canaries are then lists of ids,
// unless it is the list of an export.
func TestTokenListServesAsVocabulary(t *testing.T) {
	t.Parallel()
	_, list, model := trained(t)
	options := modelaudit.Options{Seed: 5, References: 300}
	s := servetest.ServeCompletions(t, model)
	want := must.Get(endpoint(t, s, model).Run(t.Context(), read(t, list), options))(t)
	words := must.Get(control.ExportedVocabulary(model))(t)
	var ids, texts strings.Builder
	tokens := make([]any, len(words))
	for id := text.FirstWord; id < len(words); id++ {
		tokens[id] = words[id]
	}
	for _, c := range want.Canaries {
		of := make([]int, len(c.Words))
		for i, word := range c.Words {
			of[i] = slices.Index(words, word)
		}
		fmt.Fprintln(&ids, strings.Join(strings.Fields(fmt.Sprint(of)), ", "))
		fmt.Fprintln(&texts, c.Text)
	}
	for name, c := range map[string]struct {
		vocabulary any
		begin      int
		list       string
	}{
		"export's words": {words, -1, texts.String()},
		"foreign tokens": {tokens, text.Begin, ids.String()},
	} {
		data := must.Get(json.Marshal(c.vocabulary))(t)
		vocabulary := must.Get(modelaudit.ReadVocabulary(bytes.NewReader(data), c.begin))(t)
		got := must.Get(asked(t, s, vocabulary).Run(t.Context(), read(t, c.list), options))(t)
		for i := range got.Canaries {
			if *got.Canaries[i].Rank != *want.Canaries[i].Rank {
				t.Errorf("%s: rank %d, want %d", name, *got.Canaries[i].Rank, *want.Canaries[i].Rank)
			}
		}
	}
}

func TestBadVocabulariesAreRejected(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"the file is empty":                                     "",
		"not a JSON list of the texts of tokens":                `["a", 3]`,
		"the list is empty":                                     `[null, null]`,
		"the begin token is 7, but the vocabulary has 2 tokens": `["a", "b"]`,
	} {
		if _, err := modelaudit.ReadVocabulary(strings.NewReader(text), 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := modelaudit.ReadVocabulary(strings.NewReader("no model"), -1); err == nil {
		t.Error("a file of text was taken for a model")
	}
}

// The tokens of a text by a foreign tokenizer are unknown, so a canary is a list of ids.
func TestListedVocabularyRejectsTextCanaries(t *testing.T) {
	t.Parallel()
	vocabulary, err := modelaudit.ReadVocabulary(strings.NewReader(`["a", "b", "c"]`), -1)
	must.Do(t, err)
	e := must.Get(modelaudit.NewEndpoint(&modelaudit.CompletionsClient{URL: "http://localhost/"}, vocabulary, 64))(t)
	for line, want := range map[string]string{"a b c": `"a b c": expected a list of token ids`, "[0, 9]": `"9" is not in the model's vocabulary`} {
		_, err = e.Run(t.Context(), read(t, line), modelaudit.Options{References: 1, Prefix: 1})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// The half of the vocabulary that a server's list lacks is found by the first answer that
// names another token, or by a canary that has one.
func TestEndpointWithAnotherVocabularyIsRejected(t *testing.T) {
	t.Parallel()
	_, list, model := trained(t)
	s := servetest.ServeCompletions(t, model)
	words := must.Get(control.ExportedVocabulary(model))(t)
	swapped := slices.Clone(words)
	slices.Reverse(swapped[text.FirstWord:])
	for want, words := range map[string][]string{
		"different tokens than in the request": swapped,
		"is not in the model's vocabulary":     words[:20],
	} {
		data, err := json.Marshal(words)
		must.Do(t, err)
		vocabulary := must.Get(modelaudit.ReadVocabulary(bytes.NewReader(data), -1))(t)
		_, err = asked(t, s, vocabulary).Run(t.Context(), read(t, list), modelaudit.Options{References: 100})
		must.Say(t, err, want)
	}
}

func TestEndpointRejectsUnsupportedOptionsUnasked(t *testing.T) {
	t.Parallel()
	_, list, model := trained(t)
	s := servetest.ServeCompletions(t, model)
	e := endpoint(t, s, model)
	for want, o := range map[string]modelaudit.Options{
		"beam search needs the probabilities of all next tokens": {References: 10, BeamWidth: 2},
		"there is nothing to measure":                            {},
		"references and 5 canaries":                              {References: 60, Prefix: 3},
	} {
		if _, err := e.Run(t.Context(), read(t, list), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
	if s.Largest.Load() != 0 {
		t.Error("the endpoint was asked")
	}
	_, err := modelaudit.NewEndpoint(&modelaudit.CompletionsClient{URL: "localhost:8000"}, new(modelaudit.Vocabulary), 1)
	must.Say(t, err, "expected a URL such as")
}

func TestEndpointAuditCanBeInterrupted(t *testing.T) {
	t.Parallel()
	_, list, model := trained(t)
	s := servetest.ServeCompletions(t, model)
	ctx, interrupt := context.WithCancel(t.Context())
	s.Before = func(http.ResponseWriter, *http.Request) bool {
		interrupt()
		return false
	}
	if _, err := endpoint(t, s, model).Run(ctx, read(t, list), modelaudit.Options{References: 100}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}

func TestVocabularyWithoutBeginIsReported(t *testing.T) {
	t.Parallel()
	const list = `["<s>", null, "to", "be", "<|endoftext|>"]`
	for begin, want := range map[int]string{-1: "true [{0 <s>} {4 <|endoftext|>}]", 0: "false []"} {
		v := must.Get(modelaudit.ReadVocabulary(strings.NewReader(list), begin))(t)
		e := must.Get(modelaudit.NewEndpoint(&modelaudit.CompletionsClient{URL: "http://localhost:1/v1/completions", Model: "m"}, v, 8))(t)
		if s := e.Served(); fmt.Sprint(s.NoBegin, s.Begins) != want {
			t.Errorf("--begin %d: %v %v, want %s", begin, s.NoBegin, s.Begins, want)
		}
	}
}
