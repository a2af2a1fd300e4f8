package results

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/tasks/taskstest"
)

// A cell with four audits of updates, of which one attack could name nobody, and one that has
// not ended.
func TestEveryAttackHasARow(t *testing.T) {
	t.Parallel()
	for _, rows := range []Rows{Attacks, AttackedUsers} {
		for _, format := range FormatNames() {
			var b bytes.Buffer
			err := read(t, "attacks.json").WriteRows(&b, format, rows)
			if f, _ := FormatNamed(format); f.Has(rows) != nil {
				if err == nil || !strings.HasSuffix(err.Error(), "expected one of table, csv, parquet") {
					t.Errorf("%s of %s: %v", rows, format, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
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
func TestAttacksHaveATableOfTheirOwn(t *testing.T) {
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
	}
}
