package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/workflows/modelaudit"
)

func TestAuditRefusesWhatItCannotReadInOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	list, empty, noModel := write("list.txt", "a b c\n"), write("empty.txt", "\n# only a note\n"), write("model.safetensors", "no model")
	for want, args := range map[string][]string{
		`required flag(s) "canaries" not set`: {noModel},
		"accepts 1 arg(s), received 0":        {"--canaries", list},
		"--canaries: open":                    {noModel, "--canaries", filepath.Join(dir, "none.txt")},
		"empty.txt: there is no canary in it": {noModel, "--canaries", empty},
		"none.safetensors: no such file":      {filepath.Join(dir, "none.safetensors"), "--canaries", list},
		"model.safetensors: ":                 {noModel, "--canaries", list},
	} {
		var out, messages bytes.Buffer
		code := execute(t.Context(), append([]string{"audit"}, args...), &out, &messages)
		if code != exitUsage || out.Len() > 0 || strings.Count(messages.String(), "\n") != 1 || !strings.Contains(messages.String(), want) {
			t.Errorf("%v: exit status %d, %q, %q; want one line with %q", args, code, out.String(), messages.String(), want)
		}
	}
}

func TestAuditTableSaysWhatIsOnlyABound(t *testing.T) {
	t.Parallel()
	yes, no, first, far, high, low, se := true, false, int64(1), int64(5200), 17.6, 5.3, 0.1
	var out bytes.Buffer
	err := (&global{stdout: &out}).writeAudit(&modelaudit.Report{
		RandomSampling: &modelaudit.Verdict{Memorized: 1, Of: 3, References: 200_000},
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
`
	if err != nil || out.String() != want {
		t.Errorf("%v, table:\n%s\nwant:\n%s", err, out.String(), want)
	}
}
