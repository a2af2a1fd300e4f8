package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/workflows/standalone/modelaudit"
	"coalmine/workflows/standalone/modelaudit/servetest"
)

// commandLine is one that scores by a file's model.
func commandLine(t *testing.T, path string) string {
	t.Helper()
	model := contentOf(t, path)
	return "'" + strings.Join(servetest.Command(t, []byte(model)).Args, "' '") + "'"
}

func TestAuditOfCommandMatchesAuditOfFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, model := servedModel(t, dir)
	list := filepath.Join(dir, "list.txt")
	writeFile(t, list, "w1 w2 w3 w4\nw5 w6 w7\n")
	common := []string{"audit", "--canaries", list, "--references", "500"}
	var want, got modelaudit.Report
	for report, args := range map[*modelaudit.Report][]string{&want: {model, "--beam-width", "0"}, &got: {"--command", commandLine(t, model), "--vocabulary", model}} {
		text := prints(t, append(append(common, "--json"), args...)...)
		must.Do(t, json.Unmarshal([]byte(text), report))
	}
	for i, c := range want.Canaries {
		if g := got.Canaries[i]; *g.Rank != *c.Rank || *g.Ranked.LogPerplexity != *c.Ranked.LogPerplexity || g.Text != c.Text || g.Greedy == nil {
			t.Errorf("canary %+v, want %+v", g, c)
		}
	}
	table := prints(t, append(common, "--command", commandLine(t, model), "--vocabulary", model)...)
	for _, want := range []string{"greedy", "samples for a 50% chance", "not found", "command: model ", "declared deterministic", "exposures above 9.0 bits cannot be measured"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s", want, table)
		}
	}
}

func TestAuditRejectsInvalidCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, model := servedModel(t, dir)
	list := filepath.Join(dir, "list.txt")
	writeFile(t, list, "w1 w2 w3 w4\n")
	for want, args := range map[string][]string{
		`unexpected argument "` + model:                            {model, "--command", "true"},
		"--model applies to another kind of model (endpoint: name": {"--command", "true", "--model", "m"},
		"--command-memory applies to another kind of model":        {model, "--command-memory", "1GiB"},
		`--command-memory "much": expected a size such as`:         {"--command", "true", "--command-memory", "much"},
		"--concurrency 0 and --timeout 5m0s":                       {"--command", "true", "--concurrency", "0"},
		"--vocabulary: ":                                           {"--command", "true", "--vocabulary", list},
		`command "echo no torch >&2; exit 3": it ended with exit status 3, and left 1 of 1 requests unanswered; its last lines on standard error:` + "\n  no torch": {"--command", "echo no torch >&2; exit 3"},
		"batches of 0 sequences":             {"--command", commandLine(t, model), "--batch", "0"},
		"the word \\\"w\\\" is not in the v": {"--command", commandLine(t, model), "--alphabet", "printable"},
	} {
		fails(t, want, append([]string{"audit", "--canaries", list}, args...)...)
	}
}
