package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"coalmine/internal/must"
)

func parsed(t *testing.T, text string) float64 {
	t.Helper()
	x, ok := number(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return x
}

// drawn are the points of a figure of rows, by their names: the text after the label.
func drawn(t *testing.T, path string) map[string]string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	points := map[string]string{}
	for _, match := range regexp.MustCompile(`<title>(r\d+), .*: mean exposure of canaries, bits (.*)</title>`).FindAllSubmatch(data, -1) {
		points[string(match[1])] = string(match[2])
	}
	return points
}

// Rows of a figure are as far apart as compared.jsonl says, and as useful as the means say.
func TestFiguresOfTheStudyShowItsResults(t *testing.T) {
	t.Parallel()
	figures, err := filepath.Glob("../thakkar-2020/table-*-exposure.svg")
	if err != nil || len(figures) == 0 {
		t.Fatalf("no figures: %v", err)
	}
	s := &study{folder: "../thakkar-2020", tables: map[string]table{}}
	must.Do(t, s.readCompared())
	for _, path := range figures {
		name := regexp.MustCompile(`table-\d`).FindString(path)
		checkExposures(t, s, name, drawn(t, path))
		checkUtility(t, s, name, drawn(t, strings.Replace(path, "exposure", "utility", 1)))
	}
}

func checkExposures(t *testing.T, s *study, name string, points map[string]string) {
	t.Helper()
	value := func(row string) float64 {
		mean, _, _ := strings.Cut(points[row], " ")
		return parsed(t, mean)
	}
	checked := 0
	for rows, c := range s.compared {
		row, to, _ := strings.Cut(strings.ReplaceAll(rows, name+"/", ""), " ")
		if strings.Contains(row, "/") {
			continue // of another table
		}
		if want := c.measures["exposure"].Mean; math.Abs(value(row)-value(to)-want) > 0.011 { // two numbers of three digits
			t.Errorf("%s: %s is drawn at %s and %s at %s, and they differ by %v", name, row, points[row], to, points[to], want)
		}
		checked++
	}
	if checked == 0 {
		t.Errorf("%s: no comparison of what is drawn", name)
	}
}

func checkUtility(t *testing.T, s *study, name string, points map[string]string) {
	t.Helper()
	means := must.Get(s.table(name + "-means"))(t)
	recalls := means.where("measure=recall_at_1")
	if len(points) != len(recalls) {
		t.Errorf("%s: %d points of %d rows", name, len(points), len(recalls))
	}
	for _, r := range recalls {
		_, utility, _ := strings.Cut(points[r["row"]], "utility ")
		want := 100 * parsed(t, r["mean"]) / parsed(t, recalls[0]["mean"])
		if got := parsed(t, strings.TrimSuffix(utility, "%")); math.Abs(got-want) > 0.051 {
			t.Errorf("%s: the utility of %s is drawn as %v%%, want %v%%", name, r["row"], got, want)
		}
	}
}
