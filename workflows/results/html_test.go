package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
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
	if !strings.Contains(got, `<a class="save" download="canaries-memorized-by-round-c01.svg" href="data:image/svg+xml;base64,`) {
		t.Error("a figure cannot be saved")
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

// extractable is an outcome of probabilistic extraction whose second curve reaches a share by
// a million samples.
func extractable(share float64) string {
	return fmt.Sprintf(`{"extractable": 1, "of": 3, "queries": 1000, "chance": 0.5, "curves": [
		{"configuration": null, "canaries": 2, "points": [{"queries": 1, "shares": [0, 0, 0, 0, 0]}]},
		{"configuration": {"inserted_times": 4}, "canaries": 3, "points": [
			{"queries": 1, "shares": [0, 0, 0, 0, 0]}, {"queries": 1e6, "shares": [%v, 0.5, 0, 0, 0]}]}]}`, share)
}

func TestThePageHasACurveForEveryConfigurationAndRound(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells = r.Cells[:1]
	r.Cells[0].Report = reported(fmt.Sprintf(`{"utility": {"recall_at_1": 0.2, "perplexity": 60, "tokens": 5}, "audit": {"probabilistic_extraction": %s, "canaries": []},
		"curve": [{"round": 10, "probabilistic_extraction": %s}, {"round": 20}, {"round": 30, "probabilistic_extraction": %[1]s}]}`, extractable(1), extractable(0.25)))
	got := page(t, r)
	const caption = "Extractable by n samples, canaries inserted 4 times (3): p 0.1 solid, p 0.5 dashed, p 0.9 dotted, p 0.99 dash-dotted, p 0.999 long-dashed</figcaption>"
	if n := strings.Count(got, caption); n != 2 || strings.Count(got, "canaries held back (2): p 0.1 solid") != 2 {
		t.Errorf("%d figures of the canaries that were inserted, want one after 30 and one after 10", n)
	}
	last, earlier, found := strings.Cut(got, "<details><summary>after 10</summary>")
	if !found || strings.Count(got, "<details>") != 1 {
		t.Fatal("the page lacks the figures of round 10, or has more")
	}
	if !strings.Contains(last, `<polyline class="solid" points="41.7,196 187,10"/>`) || !strings.Contains(earlier, `<polyline class="solid" points="41.7,196 187,149.5"/>`) {
		t.Errorf("all lie at a million samples after 30, a quarter after 10:\n%s", got)
	}
	if strings.Count(got, "what so many samples give without memory") != 1 {
		t.Error("what the figures are is not said, or said again")
	}
}

func TestAVerdictOfARoundThatIsNoneIsAnError(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells[0].Report = reported(`{"audit": {"canaries": []}, "curve": [{"round": 10, "probabilistic_extraction": []}, {"round": 20}]}`)
	if err := r.Write(io.Discard, "html"); err == nil || !strings.Contains(err.Error(), "round 10: probabilistic_extraction: json") {
		t.Errorf("got %v", err)
	}
}

// named has every part of the page; whatever can be named has the given text.
func named(text string) *Results {
	r := inspectedAndMapped()
	r.Run, r.Experiment = text, text
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Label, c.Breaches, c.Errors = text, []string{text}, []string{text}
		for round := range 2 {
			r.Pictures = append(r.Pictures, Picture{Cell: c.Cell, Round: round, Title: text, Caption: text, Text: text})
		}
	}
	return r
}

// markup lists the elements of a page with the names of their attributes.
func markup(t *testing.T, page string) (elements []string) {
	t.Helper()
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return elements
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			for _, a := range token.Attr {
				token.Data += " " + a.Key
			}
			elements = append(elements, token.Data)
		}
	}
}

func TestTextsAreNoMarkup(t *testing.T) {
	t.Parallel()
	got, want := markup(t, page(t, named(`"><script>alert(1)</script><p onclick='x' a="&lt;`))), markup(t, page(t, named("harmless")))
	if !slices.Equal(got, want) {
		t.Errorf("with hostile texts the page has other elements:\n%q\nwith harmless ones\n%q", got, want)
	}
}
