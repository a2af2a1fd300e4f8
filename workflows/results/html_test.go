package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// ranked is the JSON of a canary of so many copies.
func ranked(words string, copies int, exposure float64, memorized bool) string {
	return fmt.Sprintf(`{"words": ["%s"], "users": 0, "holders": %d, "insertions": %[2]d, "rank": 7, "exposure": %v, "exposure_censored": %v, "memorized": %[4]v}`,
		strings.ReplaceAll(words, " ", `","`), copies, exposure, memorized)
}

// inspected is the sample, whose first cell has canaries and a curve.
func inspected() *Results {
	r := sample()
	c := &r.Cells[0]
	c.Breaches = []string{"exposure is 20, above the limit of 15"}
	c.Report = reported(fmt.Sprintf(`{
		"utility": {"recall_at_1": 0.24, "perplexity": 62.2, "tokens": 123456},
		"audit": {
			"random_sampling": {"memorized": 54, "of": 90, "references": 2000000, "lowest": {"user_probability": 2e-5, "example_probability": 0.1}},
			"beam_search": {"memorized": 0, "of": 2, "width": 5, "lowest": null},
			"canaries": [%s, %s], "never_inserted": [{"words": ["unranked"]}], "controls": [%s]},
		"curve": [{"round": 50, "random_sampling_memorized": 0, "beam_search_memorized": 0}, {"round": 100, "random_sampling_memorized": 45, "beam_search_memorized": 0}]}`,
		ranked("<script>alert(1)</script> b", 10, 20.9, true), ranked("c d", 1000, 3.5, false), ranked("held back", 0, 1.25, false)))
	return r
}

// inspectedAndMapped has every sort of figure.
func inspectedAndMapped() *Results {
	r := inspected()
	r.Cells = append(r.Cells, stages(), attacked("c06", 0.2, 3, "seed", "1"), attacked("c07", 0.1, 4, "seed", "2"))
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
		`<circle class="dot filled"`, `<circle class="dot grey" cx="34"`,
		"b: 10 copies at 10 users; exposure at least 20.9 bits, rank 7</title>", "c d: 1000 copies at 1000 users; exposure 3.5 bits, rank 7</title>",
		`<polyline class="solid" points="187,196 340,103"/>`, `<polyline class="dashed" points="187,196 340,196"/>`,
		"Canaries memorized, by round: random sampling solid, beam search dashed</figcaption>",
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
	for i, rest := range strings.Split(page(t, inspectedAndMapped()), "<svg")[1:] {
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
