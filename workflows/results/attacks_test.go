package results

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/taskstest"
)

// Cells with four audits of updates, of which one attack could name nobody, one that has not ended, and one with
// attacks on membership.
func TestEveryAttackHasARow(t *testing.T) {
	t.Parallel()
	for rows, file := range map[Rows]string{Attacks: "attacks.json", AttackedUsers: "attacks.json", Membership: "membership.json"} {
		for _, format := range FormatNames() {
			var b bytes.Buffer
			err := read(t, file).WriteRows(&b, format, rows)
			if f, _ := FormatNamed(format); f.Has(rows) != nil {
				if err == nil || !strings.HasSuffix(err.Error(), "expected one of table, csv, parquet") {
					t.Errorf("%s of %s: %v", rows, format, err)
				}
				continue
			}
			must.Do(t, err)
			written := b.Bytes()
			if format == "parquet" {
				written = describeParquet(t, written)
			}
			taskstest.File(t, filepath.Join("testdata", string(rows)+"."+format), written)
		}
	}
}

// Table 3 of Orekondy et al. 2018: each attack with its average precision and how many times
// chance that is, and how often the user is among the first. The notes say when a baseline is
// higher.
func TestAttacksHaveSeparateTable(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"latex", "html"} {
		text := written(t, read(t, "attacks.json"), format)
		taskstest.File(t, filepath.Join("testdata", "attacks."+format), []byte(text))
		if !strings.Contains(text, "needs no training and is higher") {
			t.Errorf("%s does not say that the cosine is higher", format)
		}
		if strings.Contains(written(t, recorded(t), format), "attack") {
			t.Errorf("%s has attacks where nothing was attacked", format)
		}
		text = written(t, read(t, "membership.json"), format)
		for _, want := range []string{"loss, 64", "6.2 (1.0 to 25.0)", "points above blind", "ReCaLL"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", format, want)
			}
		}
	}
}
