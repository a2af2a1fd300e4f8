package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/score"
)

func TestContractCheckReportsBrokenScoreRules(t *testing.T) {
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
	code, out, messages := coalmine(t, "contract", "check", "score", "--texts", texts, "--command", line+" | sed -u 's/NaN//; /\"id\":2,/i Loading'")
	for _, want := range []string{
		"fail   scores several pairs in their order\n", `it printed "Loading" to standard output; expected answers alone`,
		"       rule 1: " + score.OneObjectALine.Sentence, " of 12 checks failed",
	} {
		if code != exitCellFailed || !strings.Contains(out, want) {
			t.Errorf("exit status %d, %q is missing in\n%s%s", code, want, out, messages)
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
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

func writeFile[T string | []byte](t *testing.T, path string, data T) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(data), 0o600))
}
