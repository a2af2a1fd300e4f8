package results

import (
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// bestOf returns the choice if the last of four rows memorizes nothing in its first seeds, the only ones
// that are done, at some recall@1.
func bestOf(t *testing.T, seeds int, recall float64) *Best {
	t.Helper()
	r := replicated(t)
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Row.Name == "r04" {
			c.State, c.Status, c.Report = Pending, Pending, nil
			if seeds > 0 {
				seeds--
				c.State, c.Status = Done, Done
				c.Report = reported(fmt.Sprintf(`{"utility": {"recall_at_1": %g, "perplexity": 70.5, "tokens": 1000}, "audit": {
					"random_sampling": {"memorized": 0, "of": 12, "references": 1000, "lowest": null}, "canaries": [], "never_inserted": [], "controls": []}}`, recall))
			}
		}
	}
	v := must.Get(r.view())(t)
	return v.best
}

func TestBestSettingNeedsSeedsAndUtility(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		seeds  int
		recall float64
		want   string
	}{
		"a lucky seed":           {1, 0.22, "r02 of r01, r02, undecided r01"},
		"two seeds":              {2, 0.22, "r04 of r01, r02, r04, undecided r01, r02"},
		"less useful models":     {3, 0.2, "r02 of r01, r02, undecided r01"},
		"models that know words": {3, 0, "r02 of r01, r02, undecided r01"},
		"the most useful":        {3, 0.5, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := "none"
			if b := bestOf(t, c.seeds, c.recall); b != nil {
				got = fmt.Sprintf("%s of %s, undecided %s", b.Row, strings.Join(b.Among, ", "), strings.Join(b.Undecided, ", "))
			}
			if got != c.want {
				t.Errorf("the best is %s, want %s", got, c.want)
			}
		})
	}
}

func TestBestSettingNeedsReplicates(t *testing.T) {
	t.Parallel()
	if table := written(t, sample(), "table"); strings.Contains(table, "Best at") {
		t.Errorf("the table is\n%s", table)
	}
}
