package results

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"coalmine/internal/must"
	"coalmine/storage"
)

// ranked is the JSON of a canary with the given number of copies.
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
	must.Do(t, r.Write(&b, "html"))
	return b.String()
}

func TestThePageShowsEveryCanaryAndEveryFailure(t *testing.T) {
	t.Parallel()
	got := page(t, inspected())
	for _, want := range []string{
		"3 of 4 cells done", "<td>54/90</td>", "iid, FedAvg) failed: step 3: training diverged", "gate: exposure is 20, above the limit of 15",
		"b: 10 copies at 10 users; exposure at least 20.9 bits, rank 7</title>", "c d: 1000 copies at 1000 users; exposure 3.5 bits, rank 7</title>",
		">memorized</text>", ">not memorized</text>", ">controls</text>", ">exposure (bits)</text>", ">copies in the training data</text>",
		"<figcaption>Canaries memorized, by round ", ">random sampling</text>", ">beam search</text>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, kind := range []string{`svg" href="data:image/svg+xml;base64,`, `csv" href="data:text/csv;base64,`} {
		if !strings.Contains(got, `<a class="save" download="canaries-memorized-by-round-c01.`+kind) {
			t.Errorf("a figure cannot be saved as %s", kind)
		}
	}
	if n := strings.Count(got, " bits, rank 7</title>"); n != 3 {
		t.Errorf("%d dots, want one for each canary that was ranked", n)
	}
	if strings.Contains(got, "<script") {
		t.Error("the words of a canary are part of the page's markup")
	}
}

// savedNumbers are the CSV files of the figures of a page.
func savedNumbers(t *testing.T, page string) string {
	t.Helper()
	var all []byte
	for _, file := range regexp.MustCompile(`data:text/csv;base64,([^"]*)"`).FindAllStringSubmatch(page, -1) {
		data := must.Get(base64.StdEncoding.DecodeString(html.UnescapeString(file[1])))(t)
		all = append(all, data...)
	}
	return string(all)
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
	const caption = "<figcaption>Extractable by n samples, canaries inserted 4 times (3) "
	if n := strings.Count(got, caption); n != 2 || strings.Count(got, "<figcaption>Extractable by n samples, canaries held back (2) ") != 2 || strings.Count(got, ">p 0.999</text>") != 4 {
		t.Errorf("%d figures of the canaries that were inserted, want one after 30 and one after 10", n)
	}
	last, earlier, found := strings.Cut(got, "<details><summary>after 10</summary>")
	if !found || strings.Count(got, "<summary>after ") != 1 {
		t.Fatal("the page lacks the figures of round 10, or has more")
	}
	if !strings.Contains(savedNumbers(t, last), "p 0.1,1e+06,,,,100,,,\n") || !strings.Contains(savedNumbers(t, earlier), "p 0.1,1e+06,,,,25,,,\n") {
		t.Errorf("all lie at a million samples after 30, a quarter after 10:\n%s", got)
	}
	if strings.Count(got, "what n samples give without memorization") != 1 {
		t.Error("what the figures are is not said, or said again")
	}
}

func TestInvalidVerdictOfRoundIsReported(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Cells[0].Report = reported(`{"audit": {"canaries": []}, "curve": [{"round": 10, "probabilistic_extraction": []}, {"round": 20}]}`)
	must.Say(t, r.Write(io.Discard, "html"), "round 10: probabilistic_extraction: json")
}

// named has every part of the page; every name has the given text.
func named(text string) *Results {
	r := inspectedAndMapped()
	r.Run, r.Experiment, r.Origin = text, text, &Origin{Recipe: text}
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Label, c.Breaches, c.Errors = text, []string{text}, []string{text}
		for round := range 2 {
			r.Pictures = append(r.Pictures, Picture{Cell: c.Cell, Round: round, Title: text, Caption: text, Text: text})
		}
	}
	return r
}

// markup lists the sorts of elements of a page with the names of their attributes. How many there
// are depends on the texts: figures break long ones into lines.
func markup(t *testing.T, page string) (elements []string) {
	t.Helper()
	for z := html.NewTokenizer(strings.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			slices.Sort(elements)
			return slices.Compact(elements)
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			for _, a := range token.Attr {
				token.Data += " " + a.Key
			}
			elements = append(elements, token.Data)
		}
	}
}

func TestHTMLEscapesTexts(t *testing.T) {
	t.Parallel()
	got, want := markup(t, page(t, named(`"><script>alert(1)</script><p onclick='x' a="&lt;`))), markup(t, page(t, named("harmless")))
	if !slices.Equal(got, want) {
		t.Errorf("with hostile texts the page has other elements:\n%q\nwith harmless ones\n%q", got, want)
	}
}

func TestThePageReportsProvenance(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Origin = &Origin{Recipe: "name: sample\nseed: 7\n", Seeds: []uint64{7}, Submitted: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)}
	r.Cells[0].Made = storage.Provenance{Version: "0.9.0", Host: "n1", Arch: "amd64", Kernels: "avx2"}
	got := page(t, r)
	for _, want := range []string{
		"Made: submitted 2026-05-04 03:02:01 UTC; coalmine 0.9.0 on n1 (amd64, avx2 kernels); seed 7.", "<pre>name: sample\nseed: 7\n</pre>", `.yaml" href="data:application/yaml;base64,`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestTablesHaveTheChosenColumns(t *testing.T) {
	t.Parallel()
	r := replicated(t)
	must.Do(t, r.Choose([]string{"accuracy %"}))
	if got := written(t, r, "latex"); !strings.Contains(got, "setting & seeds & accuracy \\% \\\\\n") || !strings.Contains(got, "iid, b=8 & 3 & 21.5 $\\pm$ 0.1 \\\\\n") || !strings.Contains(got, "iid, b=8 & iid, b=5 & 3 & $-0.5$ ($-0.7$, $-0.3$) \\\\\n") {
		t.Error(got)
	}
	if err := r.Choose([]string{"accurcy"}); err == nil || !strings.Contains(err.Error(), `column "accurcy": expected headers of the table: setting, seeds, RS memorized`) {
		t.Error(err)
	}
}

// A table of replicates fits the width of two columns; LaTeX says so.
func TestLaTeXFitsTwoColumns(t *testing.T) {
	t.Parallel()
	latex, err := exec.LookPath("pdflatex")
	if err != nil {
		t.Skip("there is no pdflatex")
	}
	dir := t.TempDir()
	document := "\\documentclass[twocolumn]{article}\\usepackage[utf8]{inputenc}\\usepackage{booktabs}\\textwidth=178mm\\begin{document}\\begin{table*}\n" +
		written(t, replicated(t), "latex") + "\\end{table*}\\end{document}\n"
	must.Do(t, os.WriteFile(filepath.Join(dir, "t.tex"), []byte(document), 0o600))
	command := exec.CommandContext(t.Context(), latex, "-interaction=nonstopmode", "-halt-on-error", "t.tex")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil || strings.Contains(string(out), "Overfull \\hbox") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLinesDoNotBreakWithinBrackets(t *testing.T) {
	t.Parallel()
	const nbsp = "\u00a0"
	if got, want := unbroken("RS rarest (p_u, p_e), 12 (3 to 40) of 90"), "RS rarest (p_u,"+nbsp+"p_e), 12 (3"+nbsp+"to"+nbsp+"40) of 90"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
