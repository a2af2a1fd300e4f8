package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/tasks/audits/canaries/skewnormal"
	"coalmine/workflows/standalone/modelaudit"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

func TestAuditRejectsMissingAndUnreadableInputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, text)
		return path
	}
	list, empty, noModel := write("list.txt", "a b c\n"), write("empty.txt", "\n# only a note\n"), write("model.safetensors", "no model")
	for want, args := range map[string][]string{
		"audit: expected --canaries FILE, or --members FILE and --nonmembers FILE": {noModel, "--members", list},
		"--nonmembers FILE, or all three":                                          {noModel},
		"argument MODEL|FOLDER|URL|RUN is missing":                                 {"--canaries", list},
		"--canaries: open":                    {noModel, "--canaries", filepath.Join(dir, "none.txt")},
		"empty.txt: the file has no canaries": {noModel, "--canaries", empty},
		"none.safetensors: no such file":      {filepath.Join(dir, "none.safetensors"), "--canaries", list},
		"model.safetensors: ":                 {noModel, "--canaries", list},
		"--controls: open":                    {noModel, "--canaries", list, "--controls", filepath.Join(dir, "none.txt")},
		"--controls needs random sampling":    {noModel, "--canaries", list, "--controls", list, "--references", "0"},
		"--controls with --scores":            {"--canaries", list, "--scores", list, "--controls", list},
		"--prefix 0: expected at least 1":     {noModel, "--canaries", list, "--prefix", "0"},
	} {
		refuses(t, want, append([]string{"audit"}, args...)...)
	}
}

func TestAuditTableMarksBoundsAndEstimates(t *testing.T) {
	t.Parallel()
	yes, no, first, far, high, low, se := true, false, int64(1), int64(5200), 17.6, 5.3, 0.1
	var out bytes.Buffer
	err := (&global{stdout: &out}).writeAudit(&modelaudit.Report{
		RandomSampling: &modelaudit.Memorized{Memorized: 1, Of: 3, References: 200_000},
		Canaries: []modelaudit.Canary{
			{Text: "a b", Ranked: modelaudit.Ranked{Rank: &first, RankExact: &yes, Exposure: &high, ExposureCensored: &yes}, Extracted: modelaudit.Extracted{Found: &yes}},
			{Text: "c", Ranked: modelaudit.Ranked{Rank: &far, RankExact: &no, Exposure: &low, ExposureSE: &se, ExposureCensored: &no}, Extracted: modelaudit.Extracted{Found: &no}},
			{Text: "d"},
		},
	})
	const want = `canary  rank        exposure    beam search
a b     1           >= 17.6     found
c       about 5200  5.3 +- 0.1  not found
d       -           -           -
random sampling: 1 of 3 memorized, among 200000 references
` + fluent + "\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, table:\n%s\nwant:\n%s", err, out.String(), want)
	}
}

func TestAuditTableShowsFittedExposures(t *testing.T) {
	t.Parallel()
	bits, se := 38.94, 1.2
	var out bytes.Buffer
	err := (&global{stdout: &out}).writeAudit(&modelaudit.Report{
		SkewNormal: &skewnormal.Outcome{Highest: &bits, Fits: make([]skewnormal.Fit, 2)},
		Canaries:   []modelaudit.Canary{{Text: "a b", Fitted: modelaudit.Fitted{Exposure: &bits, ExposureSE: &se}}, {Text: "c"}},
	})
	const want = `canary  rank  exposure  fitted       beam search
a b     -     -         38.9 +- 1.2  -
c       -     -         -            -
skew-normal fits after 2 prefixes; the least KS p is 0; the references support no exposure; higher ones, as the highest of 38.9 bits, hold only if the distribution is skew-normal there, which their standard errors take for granted
`
	if err != nil || out.String() != want {
		t.Errorf("%v, table:\n%s\nwant:\n%s", err, out.String(), want)
	}
}

// servedModel writes an exported model of untrained weights, and serves it.
func servedModel(t *testing.T, dir string) (*servetest.Completions, string) {
	t.Helper()
	words := make([]string, 40)
	for i := range words {
		words[i] = fmt.Sprintf("w%d", i)
	}
	model := servetest.Untrained(t, models.CIFGLSTM, words)
	path := filepath.Join(dir, "model.safetensors")
	must.Do(t, os.WriteFile(path, model, 0o600))
	return servetest.ServeCompletions(t, model), path
}

// An audit of an endpoint prints the output of the audit of the same model's file, and
// the precision of the server.
func TestAuditOfEndpointMatchesAuditOfFile(t *testing.T) {
	dir := t.TempDir()
	s, model := servedModel(t, dir)
	list := filepath.Join(dir, "list.txt")
	writeFile(t, list, "w1 w2 w3 w4\nw5 w6 w7\n")
	t.Setenv(endpointKey, "sk-1")
	s.Before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "Bearer sk-1" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return false
	}
	audit := func(args ...string) (report modelaudit.Report, messages string) {
		args = append([]string{"audit", "--json", "--canaries", list, "--references", "500"}, args...)
		code, out, messages := coalmine(t, args...)
		if code != exitDone {
			t.Fatalf("%v: exit status %d, %s", args, code, messages)
		}
		decodeJSON(t, out, &report)
		return report, messages
	}
	want, _ := audit(model, "--beam-width", "0")
	got, notes := audit(s.URL, "--model", "m", "--vocabulary", model)
	for i, c := range want.Canaries {
		if g := got.Canaries[i]; *g.Rank != *c.Rank || *g.Ranked.LogPerplexity != *c.Ranked.LogPerplexity || *g.RankLow != *c.Rank || g.Text != c.Text {
			t.Errorf("canary %+v, want %+v", g, c)
		}
	}
	if got.Endpoint.URL != s.URL || !strings.Contains(notes, "2 of 2 canaries ranked") {
		t.Errorf("endpoint %+v, notes %q", got.Endpoint, notes)
	}
}

func TestAuditRejectsInvalidEndpoints(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, model := servedModel(t, dir)
	s.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, `{"choices": [{"index": 0, "text": "w9"}]}`)
		return true
	}
	list := filepath.Join(dir, "list.txt")
	writeFile(t, list, "w1 w2 w3 w4\nw1 w2 w3 w5\n")
	for want, args := range map[string][]string{
		"an endpoint needs --model":                                {s.URL, "--vocabulary", model},
		"and --vocabulary, which gives":                            {s.URL, "--model", "m"},
		"--vocabulary: " + list + ": ":                             {s.URL, "--model", "m", "--vocabulary", list},
		"--concurrency 0 and --timeout 5m0s":                       {s.URL, "--model", "m", "--vocabulary", model, "--concurrency", "0"},
		"batches of 0 sequences":                                   {s.URL, "--model", "m", "--vocabulary", model, "--batch", "0"},
		"beam search needs the probabilities of all next tokens":   {s.URL, "--model", "m", "--vocabulary", model, "--beam-width", "5"},
		"--model applies to another kind of model (endpoint: name": {model, "--model", "m"},
		"no log-probabilities of the prompt; an audit needs":       {s.URL, "--model", "m", "--vocabulary", model, "--batch", "1"},
		"1 completions for 2 prompts":                              {s.URL, "--model", "m", "--vocabulary", model, "--batch", "64", "--concurrency", "1"},
		`endpoint "http:": expected a URL such as http://local`:    {"http://", "--model", "m", "--vocabulary", model},
	} {
		refuses(t, want, append([]string{"audit", "--canaries", list}, args...)...)
	}
}

func TestAuditTableShowsEndpointIntervals(t *testing.T) {
	t.Parallel()
	yes, no, rank, low, high, exposure := true, false, int64(3), int64(1), int64(8), 6.1
	var out bytes.Buffer
	err := (&global{stdout: &out}).writeAudit(&modelaudit.Report{
		RandomSampling: &modelaudit.Memorized{Memorized: 0, Of: 1, References: 200, MemorizedLow: new(0), MemorizedHigh: new(1)},
		Canaries: []modelaudit.Canary{{
			Text: "a b", Ranked: modelaudit.Ranked{Rank: &rank, RankExact: &yes, Exposure: &exposure, ExposureCensored: &no}, RankLow: &low, RankHigh: &high,
		}},
		Endpoint: &modelaudit.Served{Queries: modelaudit.Queries{Sequences: 233, Requests: 40, Compared: 33, LargestDifference: 0.0625}},
	})
	const want = `canary  rank        exposure  beam search
a b     3 (1 to 8)  6.1       -
random sampling: 0 of 1 memorized (0 to 1), among 200 references
endpoint: 233 sequences in 40 requests; alone and in a batch, the log-perplexities of 33 differ by at most 0.0625 nats
`
	if err != nil || out.String() != want {
		t.Errorf("%v, table:\n%s\nwant:\n%s", err, out.String(), want)
	}
}
