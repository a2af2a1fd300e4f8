package external

import (
	"slices"
	"testing"
)

func TestTheFilesThatACommandNamesAreFoundWithoutAShell(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"python3 s.py out/model --from=out/a.bin":       {"out/model", "out/a.bin"},
		`sh -c "cat 'out/model' ./out/sub/x"`:           {"out/model", "out/sub/x"},
		"A=out/a ./score <out/b | tee out/c; x out/d/":  {"out/a", "out/b", "out/c", "out/d"},
		"s out/$NAME out/*.pt out/{a,b} /out/x out":     nil,
		"s timeout/x about/out/y >out/log 2>> out/log2": nil,
		"out/score": {"out/score"},
	} {
		if got := namedFiles(line); !slices.Equal(got, want) {
			t.Errorf("%s names %q, want %q", line, got, want)
		}
	}
}
