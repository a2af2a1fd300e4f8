package main

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/clone"
	"coalmine/internal/must"
	"coalmine/internal/testserver"
)

// documents are the pages and the examples of the repository, by their paths from its root.
func documents(t *testing.T) (root string, all map[string]string) {
	t.Helper()
	root, ok := clone.Root()
	if !ok {
		t.Fatal("the pages are those of a clone, and this test runs in none")
	}
	all = map[string]string{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/*/*.md", "examples/*.yaml", "examples/*/*.yaml", "examples/*/*/*.md", "examples/*/*/*.yaml"} {
		paths := must.Get(filepath.Glob(filepath.Join(root, pattern)))(t)
		for _, path := range paths {
			text := contentOf(t, path)
			name := must.Get(filepath.Rel(root, path))(t)
			all[filepath.ToSlash(name)] = string(text)
		}
	}
	return root, all
}

var (
	// accountLine is a command whose recipe is in its flags, and the epsilons that it is said to print.
	accountLine = regexp.MustCompile(`(?m)^[# ]*coalmine account (--[^#\n]*?) *(?:#(.*))?$`)
	shellWord   = regexp.MustCompile(`"[^"]*"|\S+`)
	number      = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?`)
	// saidEpsilon is an epsilon in a sentence, with those after it.
	saidEpsilon = regexp.MustCompile("(?i)epsilons?(?:_proved|_renyi)?`?(?: of these runs)?,?(?: (?:of|is|are|has|have|near|proved|within|an|from))* ((?:" + number.String() + ")(?:(?: to |, | and |,? \\((?:proved )?)(?:" + number.String() + ")\\)?)*)")
)

// notOfRecipes are numbers after the word epsilon in pages that no recipe of account has, by a part of their line.
var notOfRecipes = map[string]string{
	"epsilon 1e-3":      "epsilon of an optimizer",
	"over the orders a": "a formula",
	"log(1-1/a)":        "a formula",
	"epsilon is 1e-3":   "epsilon of an optimizer",
	"with epsilon 1e-3": "epsilon of an optimizer",
	"refute epsilon":    "a bound from below, by coins",
	"the epsilons 0.5, 1 and 5 of Gaussian mechanisms": "given, of published values",
	"epsilon 0 and 23 deltas":                          "where a curve begins",
	"|gradient|8.00|":                                  "of the run that the table is compared with",
	"|update|8.00|":                                    "of the run that the table is compared with",
	"|1,000 canaries in one run|8.00|":                 "of the run that the bounds are of",
	"|one canary in each of 200 runs|8.00|":            "of the runs that the bounds are of",
	"|0.86|7.96|":                                      "the mean over populations of 20 seeds",
	"|1.98|1.99|":                                      "the mean over populations of 20 seeds",
}

func exempt(line string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(notOfRecipes)), func(part string) bool { return strings.Contains(line, part) })
}

// values returns the epsilons in the JSON of the command, and the value that it solved for.
func values(t *testing.T, root, arguments string) (found []float64) {
	t.Helper()
	args := []string{"--json"}
	for _, a := range shellWord.FindAllString(arguments, -1) {
		a = strings.Trim(a, `"`)
		if args[len(args)-1] == "--compose" {
			a = filepath.Join(root, a)
		}
		args = append(args, a)
	}
	code, out, stderr := account(t, args...)
	if code != exitDone {
		t.Errorf("coalmine account %s: exit status %d: %s", arguments, code, stderr)
		return nil
	}
	var answer any
	decodeJSON(t, out, &answer)
	return costs(answer)
}

// costNames are the fields of account's JSON whose values pages print.
var costNames = []string{"epsilon", "epsilon_proved", "epsilon_renyi", "lower", "upper", "rho", "mu", "noise_multiplier", "delta", "rounds", "cohort", "members"}

// costs are the numbers of those fields, wherever they are.
func costs(answer any) (found []float64) {
	switch v := answer.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if x, ok := v[name].(float64); ok && slices.Contains(costNames, name) {
				found = append(found, x)
			}
			found = append(found, costs(v[name])...)
		}
	case []any:
		for _, element := range v {
			found = append(found, costs(element)...)
		}
	}
	return found
}

// printedAmong reports whether a value is the printed number, to its digits.
func printedAmong(values []float64, text string) bool {
	text = strings.ReplaceAll(text, ",", "")
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	mantissa, exponent, _ := strings.Cut(text, "e")
	whole, decimals, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent)
	power -= len(decimals)
	if decimals == "" {
		power += len(whole) - len(strings.TrimRight(whole, "0")) // 361,000 has three digits
	}
	return slices.ContainsFunc(values, func(v float64) bool { return math.Abs(v-x) <= 0.5001*math.Pow10(power) })
}

// epsilonsOf are the epsilons that a page prints, in tables and sentences, each with its line.
func epsilonsOf(page string) (found [][2]string) {
	var columns []int
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			columns = nil
			for _, said := range saidEpsilon.FindAllStringSubmatch(line, -1) {
				for _, text := range number.FindAllString(said[1], -1) {
					found = append(found, [2]string{text, line})
				}
			}
			continue
		}
		cells := strings.Split(line, "|")
		if columns == nil {
			columns = []int{-1} // of a table without epsilons
			for i, cell := range cells {
				if strings.Contains(strings.ToLower(cell), "epsilon") {
					columns = append(columns, i)
				}
			}
			if strings.Contains(cells[1], "the paper's table") {
				columns = []int{-1}
			}
			continue
		}
		for _, i := range columns {
			if i < 0 || i >= len(cells) {
				continue
			}
			for _, text := range number.FindAllString(cells[i], -1) {
				found = append(found, [2]string{text, line})
			}
		}
	}
	return found
}

// Every account command in the pages and in the heads of the examples prints the epsilons beside it,
// and a page with such commands has no other epsilon.
func TestEpsilonsInTheDocsMatchCommands(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	root, all := documents(t)
	commands := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var known []float64
		for _, match := range accountLine.FindAllStringSubmatch(all[name], -1) {
			commands++
			printed := values(t, root, match[1])
			known = append(known, printed...)
			for _, text := range number.FindAllString(match[2], -1) {
				if !printedAmong(printed, text) {
					t.Errorf("%s: %s\nis said to print %s; it prints %v", name, strings.TrimSpace(match[0]), text, printed)
				}
			}
		}
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, e := range epsilonsOf(all[name]) {
			if !printedAmong(known, e[0]) && !exempt(e[1]) {
				t.Errorf("%s: no command on the page prints the epsilon %s of\n%s", name, e[0], e[1])
			}
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands are in the docs", commands)
	}
}

// recipeTable is a table whose first columns are a recipe, and whose others, from the seventh on, are its epsilons.
var recipeTable = regexp.MustCompile(`(?m)^\|population\|cohort\|rounds\|z\|delta\|.*\n\|[-|: ]*\n((?:\|.*\n)+)`)

// Cohorts of fixed size with either conversion, and Poisson cohorts, have the epsilons of the table of the papers' recipes.
func TestEpsilonsInTheDocsOfThePapersRecipes(t *testing.T) {
	t.Parallel()
	testserver.WithoutRace(t)
	root, all := documents(t)
	match := recipeTable.FindStringSubmatch(all["docs/privacy.md"])
	if match == nil {
		t.Fatal("docs/privacy.md has no table of recipes")
	}
	for row := range strings.Lines(match[1]) {
		cells := strings.Split(strings.ReplaceAll(row, ",", ""), "|")
		recipe := fmt.Sprintf("--population %s --cohort %s --rounds %s --noise-multiplier %s --delta %s", cells[1], cells[2], cells[3], cells[4], cells[5])
		var known []float64
		for _, options := range []string{"", " --conversion improved", " --sampling poisson --conversion improved"} {
			known = append(known, values(t, root, recipe+options)...)
		}
		for _, cell := range cells[7 : len(cells)-1] {
			text, _, _ := strings.Cut(strings.TrimSpace(cell), " ")
			if !printedAmong(known, text) {
				t.Errorf("coalmine account%s prints %v; docs/privacy.md has %s in\n%s", recipe, known, text, row)
			}
		}
	}
}
