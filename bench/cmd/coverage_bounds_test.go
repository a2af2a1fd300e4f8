package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"coalmine/internal/must"
)

// Of 500 bounds that hold in 95% of audits or more, fewer than 457 hold with a probability below 3e-4. The
// seed is fixed. The simulation tells a bound that does not hold: canaries that are not independent. The page
// docs/method/privacy-audits.md has a row for each bound.
func TestBoundsCover(t *testing.T) {
	t.Parallel()
	rows := must.Get(RunBounds(500, 1))(t)
	printed := map[string]string{}
	for _, r := range rows {
		if r.Goal != "" && r.Covered < 457.0/500 {
			t.Errorf("%+v", r)
		}
		cell := fmt.Sprintf("%.1f", 100*r.Covered)
		if r.Goal == "" {
			cell = "(" + cell + ")"
		}
		printed[r.Bound] += "|" + cell
	}
	if last := rows[len(rows)-1]; len(printed) != len(privacyBounds) || last.Audits != 500 {
		t.Errorf("%d bounds, last %+v", len(printed), last)
	}
	page := string(must.Get(os.ReadFile("../../docs/method/privacy-audits.md"))(t))
	for name, cells := range printed {
		if row := "|" + name + cells + "|"; !strings.Contains(page, row) {
			t.Errorf("docs/method/privacy-audits.md has no row %s", row)
		}
	}
	for _, r := range rows {
		if strings.HasSuffix(r.Bound, "independent canaries") && strings.HasPrefix(r.Mechanism, "all coins") && (r.Goal != "" || r.Covered > 0.9) {
			t.Errorf("%+v; want a share near 0.8 without a goal", r)
		}
	}
}
