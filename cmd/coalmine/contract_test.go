package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/score"
)

func TestContractCheckSaysWhatIsBroken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, model := servedModel(t, dir)
	texts := filepath.Join(dir, "texts.txt")
	writeFile(t, texts, "w1 w2 w3 w4\nw5 w6 w7\nw8 w9 w10\n")
	line := commandLine(t, model)
	passed := prints(t, "contract", "check", "score", "--command", line, "--texts", texts)
	for _, want := range []string{"pass   describes itself\n", "pass   ends with its input\n", "longest input 2000 tokens, methods [\"loglikelihood\" ", "0 of 12 checks failed"} {
		if !strings.Contains(passed, want) {
			t.Errorf("%q is missing in\n%s", want, passed)
		}
	}
	var out, messages bytes.Buffer
	code := execute(t.Context(), []string{"contract", "check", "score", "--texts", texts, "--command", line + " | sed -u 's/NaN//; /\"id\":2,/i Loading'"}, &out, &messages)
	for _, want := range []string{
		"fail   scores several pairs in their order\n", `it printed "Loading" to standard output; expected answers alone`,
		"       rule 1: " + score.OneObjectALine.Sentence, " of 12 checks failed",
	} {
		if code != exitCellFailed || !strings.Contains(out.String(), want) {
			t.Errorf("exit status %d, %q is missing in\n%s%s", code, want, &out, &messages)
		}
	}
	var report score.Report
	text := prints(t, "contract", "check", "score", "--json", "--command", line, "--texts", texts)
	if decodeJSON(t, text, &report); len(report.Findings) != 12 || report.Command == nil {
		t.Errorf("%+v", report)
	}
	writeFile(t, texts, "w1 w2\nw3 w4 w5\nw6 w7 w8\n")
	refuses(t, "--texts: "+texts+": text 1 is", "contract", "check", "score", "--command", "true", "--texts", texts)
	refuses(t, `required flag(s) "command" not set`, "contract", "check", "score")
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
