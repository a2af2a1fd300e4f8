package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"coalmine/tasks/audits/summary"
	"coalmine/tasks/reports"
)

// ranked is a canary of so many copies.
func ranked(words string, copies int, exposure float64, memorized bool) summary.CanaryResult {
	rank := int64(7)
	return summary.CanaryResult{Words: strings.Fields(words), Holders: copies, Insertions: copies, CanaryOutcome: summary.CanaryOutcome{
		Rank: &rank, Exposure: &exposure, ExposureCensored: &memorized, Memorized: &memorized,
	}}
}

// inspected is the sample, whose first cell has canaries and a curve.
func inspected() *Results {
	r := sample()
	c := &r.Cells[0]
	c.Breaches = []string{"exposure is 20, above the limit of 15"}
	c.Audit.Canaries = []summary.CanaryResult{ranked("<script>alert(1)</script> b", 10, 20.9, true), ranked("c d", 1000, 3.5, false)}
	c.Audit.Controls = []summary.CanaryResult{ranked("held back", 0, 1.25, false)}
	c.Audit.NeverInserted = []summary.CanaryResult{{Words: []string{"unranked"}}}
	zero, one := 0, 1
	c.Curve = []reports.Point{
		{Round: 50, RandomSamplingMemorized: &zero, BeamSearchMemorized: &zero},
		{Round: 100, RandomSamplingMemorized: &one, BeamSearchMemorized: &zero},
	}
	return r
}

func page(t *testing.T, r *Results) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, "html"); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestThePageShowsEveryCanaryAndEveryFailure(t *testing.T) {
	t.Parallel()
	got := page(t, inspected())
	for _, want := range []string{
		"3 of 4 cells done", "<td>54/90</td>", "iid, FedAvg) failed: step 3: training diverged", "gate: exposure is 20, above the limit of 15",
		`<circle class="canary memorized"`, `<circle class="canary control" cx="34"`,
		"b: 10 copies at 10 users; exposure at least 20.9 bits, rank 7</title>", "c d: 1000 copies at 1000 users; exposure 3.5 bits, rank 7</title>",
		`<polyline class="random" points="187,196 340,103"/>`, `<polyline class="beam" points="187,196 340,196"/>`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(got, "<circle"); n != 3 {
		t.Errorf("%d dots, want one for each canary that was ranked", n)
	}
	if strings.Contains(got, "<script") {
		t.Error("the words of a canary are part of the page's markup")
	}
}

func TestAPageWithoutAuditsHasNoFigures(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells = r.Cells[1:]
	if got := page(t, r); strings.Contains(got, "<svg") || strings.Contains(got, "A dot is a canary") {
		t.Errorf("figures of nothing:\n%s", got)
	}
}

// The figures are well-formed: browsers forgive much in HTML, but not in SVG.
func TestFiguresAreWellFormed(t *testing.T) {
	t.Parallel()
	for i, rest := range strings.Split(page(t, inspected()), "<svg")[1:] {
		d := xml.NewDecoder(strings.NewReader("<svg" + rest[:strings.Index(rest, "</svg>")+len("</svg>")]))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("figure %d: %v", i+1, err)
			}
		}
	}
}

// Whatever the values, an axis keeps their order, and all stand within the frame
// with a few numbers beside them.
func TestAxesHoldTheirValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.Float64Range(0, 1e9).Draw(t, "largest")
		a := horizontal(largest, rapid.Bool().Draw(t, "logarithmic"))
		v, w := rapid.Float64Range(0, a.largest).Draw(t, "v"), rapid.Float64Range(0, a.largest).Draw(t, "w")
		if x := a.at(v); x < figureLeft || x > figureRight || (v < w) && x > a.at(w) {
			t.Fatalf("%g stands at %g, %g at %g", v, x, w, a.at(w))
		}
		ticks := a.ticks()
		if last := ticks[len(ticks)-1].At; len(ticks) < 2 || len(ticks) > 12 || last > figureRight {
			t.Fatalf("%d ticks up to %g", len(ticks), last)
		}
	})
}
