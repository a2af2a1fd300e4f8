package docs

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/extended"
	"coalmine/tasks/taskstest"
)

// table is a file of rows with named columns.
type table []map[string]string

func readTable(t *testing.T, path string) (rows table) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, name := range lines[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// where are the rows that have the value in the column.
func (rows table) where(column, value string) (found table) {
	for _, row := range rows {
		if row[column] == value {
			found = append(found, row)
		}
	}
	return found
}

// values of a column, each once, in the order of the rows.
func (rows table) values(column string) (found []string) {
	seen := map[string]bool{}
	for _, row := range rows {
		if v := row[column]; !seen[v] {
			seen[v], found = true, append(found, v)
		}
	}
	return found
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// meansOf writes a small table, such as "2" or, of another text, "2-stackexchange", as coalmine has printed
// it, with the rows of the paper's beside it, in the same order.
func meansOf(t *testing.T, n string) string {
	t.Helper()
	ofPaper, _, _ := strings.Cut(n, "-")
	means, paper := readTable(t, "thakkar-2020/table-"+n+"-means.csv"), readTable(t, "thakkar-2020/paper.csv").where("table", ofPaper)
	var b strings.Builder
	b.WriteString("| row | RS memorized | BS memorized | recall@1 % | perplexity | the paper's row | RS /90 | BS /90 | acc. % |\n|---|---|---|---|---|---|---|---|---|\n")
	rows := means.values("row")
	if len(rows) != len(paper) {
		t.Fatalf("table %s has %d rows, and paper.csv %d", n, len(rows), len(paper))
	}
	for i, row := range rows {
		of := means.where("row", row)
		fmt.Fprintf(&b, "| %s |", of[0]["label"])
		for _, measure := range []string{"random_sampling_memorized", "beam_search_memorized"} {
			m := of.where("measure", measure)[0]
			fmt.Fprintf(&b, " %.1f ± %.1f; %s/%s |", number(t, m["mean"]), number(t, m["sd"]), m["pooled_count"], m["pooled_of"])
		}
		recall, perplexity := of.where("measure", "recall_at_1")[0], of.where("measure", "perplexity")[0]
		fmt.Fprintf(&b, " %.2f ± %.2f | %s ± %s |", 100*number(t, recall["mean"]), 100*number(t, recall["sd"]),
			extended.Decimal(number(t, perplexity["mean"]), 1), extended.Decimal(number(t, perplexity["sd"]), 1))
		p := paper[i]
		fmt.Fprintf(&b, " %s | %s | %s | %s |\n", p["label"], p["rs"], p["bs"], p["accuracy"])
	}
	return b.String()
}

// estimate is a number over seeds; of one without a spread there is no interval.
type estimate struct {
	Mean float64  `json:"mean"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
}

// compared is a line of compared.jsonl, which coalmine compare --json prints under rows.
type compared struct {
	Row, Label string
	To         string
	ToLabel    string `json:"to_label"`
	Seeds      []int
	Utility    struct {
		Difference float64
		Matched    bool
	}
	Measures map[string]estimate
	Canaries map[string]struct {
		Pairs, More, Fewer int
		P                  float64
		Difference         estimate
	}
}

// String is the number with its interval, in so many digits.
func (e estimate) text(unit float64, digits int) string {
	text := fmt.Sprintf("%+.*f", digits, unit*e.Mean)
	if e.Low == nil {
		return text
	}
	return fmt.Sprintf("%s (%+.*f to %+.*f)", text, digits, unit**e.Low, digits, unit**e.High)
}

// likeness says in what two rows predict equally well: recall@1 within a point, or nothing but
// perplexity within a twentieth.
type likeness int

const (
	unlike likeness = iota
	alikeInPerplexity
	alike
)

// likeness of the two rows, the second of which has this perplexity.
func (c *compared) likeness(perplexity float64) likeness {
	switch {
	case c.Utility.Matched:
		return alike
	case math.Abs(c.Measures["perplexity"].Mean) <= perplexity/20:
		return alikeInPerplexity
	}
	return unlike
}

// verdict is what a difference says of a claim: that the first row memorizes "less" or "more" than
// the second, or that there is "no" strong effect, which is one beyond strong either way.
func verdict(claim string, utility likeness, e estimate, strong float64) string {
	found := found(claim, e, strong)
	switch {
	case found == "cannot tell" || utility == alike:
		return found
	case utility == alikeInPerplexity:
		return found + " at equal perplexity"
	}
	return "cannot tell: unequal utility"
}

// found is the verdict of an interval, whatever the utility.
func found(claim string, e estimate, strong float64) string {
	if e.Low == nil {
		return "cannot tell"
	}
	low, high := *e.Low, *e.High
	switch claim {
	case "more":
		low, high = -high, -low
	case "no":
		low, high = max(low, -high)-strong, max(high, -low)-strong // how far beyond
	}
	switch {
	case high < 0:
		return "supported"
	case low > 0:
		return "contradicted"
	}
	return "cannot tell"
}

// readCompared are the lines of compared.jsonl by their rows: "table-1-small/r05 table-1-small/r01".
// Those of another text than the addresses have a suffix.
func readCompared(t *testing.T, suffix string) map[string]compared {
	t.Helper()
	data, err := os.ReadFile("thakkar-2020/compared" + suffix + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	byRows := map[string]compared{}
	for line := range bytes.Lines(data) {
		var c compared
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		byRows[rowName.ReplaceAllString(c.Row, "$1/")+" "+rowName.ReplaceAllString(c.To, "$1/")] = c
	}
	return byRows
}

// claimsOf writes what the runs say of each claim of the paper: those on a text of this name, or
// on the addresses where it is empty.
func claimsOf(t *testing.T, text string) string {
	t.Helper()
	suffix, runs := "", "small"
	if text != "" {
		suffix, runs = "-"+text, text
	}
	byRows, means := readCompared(t, suffix), map[string]table{}
	var b strings.Builder
	b.WriteString("| the paper's claim | table | rows | recall@1, points | perplexity | memorized of 100 | verdict | exposure, bits | verdict |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, claim := range readTable(t, "thakkar-2020/claims.csv") {
		prefix := "table-" + claim["table"] + "-" + runs + "/"
		c, there := byRows[prefix+claim["row"]+" "+prefix+claim["to"]]
		if !there {
			t.Fatalf("compared%s.jsonl does not compare %s%s with %s", suffix, prefix, claim["row"], claim["to"])
		}
		n := claim["table"]
		if means[n] == nil {
			means[n] = readTable(t, "thakkar-2020/table-"+n+suffix+"-means.csv").where("measure", "perplexity")
		}
		utility := c.likeness(number(t, means[n].where("row", claim["to"])[0]["mean"]))
		memorized, exposure := c.Canaries["memorized"], c.Canaries["exposure"]
		fmt.Fprintf(&b, "| %s | %s | %s less %s | %+.2f | %s | %s, %d:%d | %s | %s | %s |\n", claim["claim"], claim["table"], c.Label, c.ToLabel,
			100*c.Utility.Difference, signed(c.Measures["perplexity"].Mean), memorized.Difference.text(100, 1), memorized.More, memorized.Fewer, verdict(claim["expected"], utility, memorized.Difference, 0.1),
			exposure.Difference.text(1, 2), verdict(claim["expected"], utility, exposure.Difference, 1))
	}
	return b.String()
}

// signed is a number with its sign and a digit behind the point.
func signed(x float64) string {
	if math.Signbit(x) {
		return extended.Decimal(x, 1)
	}
	return "+" + extended.Decimal(x, 1)
}

// rowName takes the digest of a run out of the name of one of its rows.
var rowName = regexp.MustCompile(`^thakkar-2020-(table-\d-[a-z]+)-[0-9a-f.]+/`)

// The numbers of the page are those of files that coalmine has written.
func TestNumbersOfTheStudyAreThoseOfItsResults(t *testing.T) {
	t.Parallel()
	const path = "thakkar-2020.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile(`(?s)<!-- (table|claims) ?([a-z0-9-]*): made of thakkar-2020/ -->\n.*?<!-- end -->`)
	if n := len(sections.FindAll(page, -1)); n < 2 {
		t.Fatalf("%s has %d sections that are made of results", path, n)
	}
	made := sections.ReplaceAllFunc(page, func(section []byte) []byte {
		match := sections.FindSubmatch(section)
		text, name := "", string(match[2])
		if string(match[1]) == "table" {
			text = meansOf(t, name)
		} else {
			text = claimsOf(t, name)
		}
		head, _, _ := bytes.Cut(section, []byte("\n"))
		return fmt.Appendf(nil, "%s\n%s<!-- end -->", head, text)
	})
	taskstest.File(t, path, made)
}

// drawn are the points of a figure of rows, by their names: what stands after the label.
func drawn(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]string{}
	for _, match := range regexp.MustCompile(`<title>(r\d+), .*: mean exposure of canaries, bits (.*)</title>`).FindAllSubmatch(data, -1) {
		points[string(match[1])] = string(match[2])
	}
	return points
}

// Rows of a figure are as far apart as compared.jsonl says, and as useful as the means say.
func TestFiguresOfTheStudyShowItsResults(t *testing.T) {
	t.Parallel()
	figures, err := filepath.Glob("thakkar-2020/table-*-exposure.svg")
	if err != nil || len(figures) == 0 {
		t.Fatalf("no figures: %v", err)
	}
	for _, path := range figures {
		n := regexp.MustCompile(`table-(\d)`).FindStringSubmatch(path)[1]
		checkExposures(t, n, drawn(t, path))
		checkUtility(t, n, drawn(t, strings.Replace(path, "exposure", "utility", 1)))
	}
}

func checkExposures(t *testing.T, n string, points map[string]string) {
	t.Helper()
	value := func(row string) float64 {
		mean, _, _ := strings.Cut(points[row], " ")
		return number(t, mean)
	}
	checked := 0
	for rows, c := range readCompared(t, "") {
		row, to, _ := strings.Cut(strings.ReplaceAll(rows, "table-"+n+"-small/", ""), " ")
		if strings.Contains(row, "/") {
			continue // of another table
		}
		if want := c.Canaries["exposure"].Difference.Mean; math.Abs(value(row)-value(to)-want) > 0.011 { // two numbers of three digits
			t.Errorf("table %s: %s is drawn at %s and %s at %s, and they differ by %v", n, row, points[row], to, points[to], want)
		}
		checked++
	}
	if checked == 0 {
		t.Errorf("table %s: no comparison of what is drawn", n)
	}
}

func checkUtility(t *testing.T, n string, points map[string]string) {
	t.Helper()
	recalls := readTable(t, "thakkar-2020/table-"+n+"-means.csv").where("measure", "recall_at_1")
	if len(points) != len(recalls) {
		t.Errorf("table %s: %d points of %d rows", n, len(points), len(recalls))
	}
	for _, r := range recalls {
		_, utility, _ := strings.Cut(points[r["row"]], "utility ")
		want := 100 * number(t, r["mean"]) / number(t, recalls[0]["mean"])
		if got := number(t, strings.TrimSuffix(utility, "%")); math.Abs(got-want) > 0.051 {
			t.Errorf("table %s: the utility of %s is drawn as %v%%, want %v%%", n, r["row"], got, want)
		}
	}
}

// A claim is supported only at equal utility, and only by an interval without zero.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	below, above, across, little := estimate{-2, new(-3.0), new(-1.0)}, estimate{2, new(1.0), new(3.0)}, estimate{-1, new(-3.0), new(1.0)}, estimate{-0.2, new(-0.3), new(-0.1)}
	for _, c := range []struct {
		claim   string
		utility likeness
		found   estimate
		want    string
	}{
		{"less", alike, below, "supported"},
		{"less", alike, above, "contradicted"},
		{"less", alike, across, "cannot tell"},
		{"less", alike, estimate{Mean: -2}, "cannot tell"},
		{"less", unlike, below, "cannot tell: unequal utility"},
		{"less", unlike, above, "cannot tell: unequal utility"},
		{"less", unlike, across, "cannot tell"},
		{"less", alikeInPerplexity, below, "supported at equal perplexity"},
		{"more", alikeInPerplexity, below, "contradicted at equal perplexity"},
		{"more", alike, above, "supported"},
		{"more", alike, below, "contradicted"},
		{"no", alike, little, "supported"},
		{"no", alike, across, "cannot tell"},
		{"no", alike, above, "contradicted"},
		{"no", alike, below, "contradicted"},
		{"no", unlike, above, "cannot tell: unequal utility"},
	} {
		if got := verdict(c.claim, c.utility, c.found, 0.5); got != c.want {
			t.Errorf("%s, utility %d, %v: %s, want %s", c.claim, c.utility, c.found.Mean, got, c.want)
		}
	}
	differing := compared{Measures: map[string]estimate{"perplexity": {Mean: -3}}}
	if differing.likeness(61) != alikeInPerplexity || differing.likeness(59) != unlike {
		t.Error("perplexities that are a twentieth apart are not told from others")
	}
	if differing.Utility.Matched = true; differing.likeness(1) != alike {
		t.Error("rows of equal recall are not alike")
	}
}
