package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/numbers"
)

// compare returns the difference of the two rows of a claim: seed by seed from the rows of cells and canaries,
// or the difference printed by coalmine compare, or the difference of the means.
func (s *study) compare(c *claim) (comparison, error) {
	if _, err := s.measured(c.Results); err != nil {
		return comparison{}, err
	}
	if s.compared == nil {
		if err := s.readCompared(); err != nil {
			return comparison{}, err
		}
	}
	if s.tables[c.Results+"-cells"] != nil {
		return s.compareSeeds(c)
	}
	if found, ok := s.compared[c.Results+"/"+c.Row+" "+c.Results+"/"+c.To]; ok {
		return found, lacking(c, found)
	}
	return s.compareMeans(c)
}

// measured reads the tables of these results, and reports whether any exists.
func (s *study) measured(results string) (found bool, err error) {
	for _, part := range []string{"-cells", "-canaries", "-means"} {
		rows, err := s.table(results + part)
		if err != nil {
			return false, err
		}
		found = found || len(rows) > 0
	}
	return found, nil
}

// lacking returns an error if a measure of the claim is not in the comparison.
func lacking(c *claim, found comparison) error {
	for _, name := range c.Measures {
		if _, ok := found.measures[name]; !ok {
			return fmt.Errorf("%s does not compare %s of %s with %s", c.Results, name, c.Row, c.To)
		}
	}
	return nil
}

// counts are the columns of means that count a column of canaries.
var counts = map[string]string{"memorized": "random_sampling_memorized", "beam_found": "beam_search_memorized"}

// compareMeans compares counts of canaries. Means have no exposures, so claims are decided without them.
func (s *study) compareMeans(c *claim) (comparison, error) {
	means := s.tables[c.Results+"-means"]
	for i, name := range c.Measures {
		if counted, ok := counts[name]; ok {
			c.Measures[i] = counted
		}
	}
	c.Measures = slices.DeleteFunc(c.Measures, func(name string) bool { return name == "exposure" })
	found := comparison{measures: map[string]estimate{}}
	for _, name := range c.Measures {
		own, other := pair(name)
		row, to := means.where("row="+c.Row+" measure="+own), means.where("row="+c.To+" measure="+other)
		if len(row) == 1 && len(to) == 1 {
			found.label, found.toLabel, found.measures[name] = row[0]["label"], to[0]["label"], welch(row[0], to[0])
		}
	}
	return found, lacking(c, found)
}

func (s *study) compareSeeds(c *claim) (comparison, error) {
	found := comparison{label: s.label(c.Results, c.Row), toLabel: s.label(c.Results, c.To), measures: map[string]estimate{}}
	for _, name := range c.Measures {
		own, other := pair(name)
		row := s.bySeed(c.Results, c.Row, own)
		to := s.bySeed(c.Results, c.To, other)
		constant, isConstant := number(c.To)
		var differences []float64
		for _, seed := range slices.Sorted(maps.Keys(row)) {
			if there, ok := to[seed]; ok {
				differences = append(differences, row[seed]-there)
			} else if isConstant {
				differences = append(differences, row[seed]-constant)
			}
		}
		if len(differences) > 0 {
			low, high := differencesOf(name, constant, isConstant)
			found.measures[name] = newEstimate(differences, c.Level, low, high)
		}
	}
	return found, lacking(c, found)
}

// differencesOf returns the range of a measure's differences between two rows, or between a row and a constant.
// Measures in percent that are not quotients are shares of at most 1.
func differencesOf(measure string, constant float64, isConstant bool) (low, high float64) {
	own, _ := pair(measure)
	switch m := measures[own]; {
	case m.unit != 100 || m.of != nil:
		return math.Inf(-1), math.Inf(1)
	case isConstant:
		return 0 - constant, 1 - constant
	}
	return -1, 1
}

// pair are the measures of the two rows.
func pair(name string) (own, other string) {
	own, other, two := strings.Cut(name, ":")
	if !two {
		other = own
	}
	return own, other
}

// label of a row with its conditions: "dropout=0.2, 4 copies".
func (s *study) label(results, spec string) string {
	row, conditions, _ := strings.Cut(spec, " ")
	cells := s.tables[results+"-cells"].where("row=" + row)
	if len(cells) == 0 {
		return spec
	}
	parts := rowLabel(cells[0])
	if row == anything {
		parts = []string{"all rows"}
	}
	for condition := range strings.FieldsSeq(conditions) {
		name, value, _ := strings.Cut(condition, "=")
		switch {
		case condition == "insertions=1":
			parts = append(parts, "1 copy")
		case name == "insertions":
			parts = append(parts, value+" copies")
		case value == "":
			at := strings.IndexAny(name, "<>")
			parts = append(parts, fmt.Sprintf("%s %c %s", measures[name[:at]].name, name[at], name[at+1:]))
		case value != "inserted":
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, ", ")
}

// rowLabel is the label of a cell without the seed, and without fields that disable a
// feature.
func rowLabel(cell map[string]string) (parts []string) {
	for part := range strings.SplitSeq(cell["label"], ", ") {
		plain := strings.HasPrefix(part, "no training.") || strings.HasSuffix(part, "=0")
		if part != "seed "+cell["seed"] && !plain {
			parts = append(parts, strings.TrimPrefix(part, "training.client."))
		}
	}
	if len(parts) == 0 {
		parts = []string{"plain"}
	}
	return parts
}

// bySeed has a measure of the cells, or of the canaries, of a row, by seed.
func (s *study) bySeed(results, spec, measure string) map[string]float64 {
	rows := s.tables[results+"-cells"]
	if canaries := s.tables[results+"-canaries"]; len(canaries) > 0 && (hasColumn(canaries, measure) || measures[measure].of != nil) {
		rows = canaries
	}
	of := measures[measure].of
	if of == nil {
		of = func(rows table) (float64, bool) { return rows.mean(measure) }
	}
	fitting := rows.where("row=" + spec)
	lost := s.diverged(results, firstWord(spec))
	found := map[string]float64{}
	for _, seed := range fitting.values("seed") {
		if x, known := of(fitting.where("seed=" + seed)); known && !lost[seed] {
			found[seed] = x
		}
	}
	return found
}

// diverged are the seeds with which a row learned nothing.
func (s *study) diverged(results, row string) map[string]bool {
	seeds := map[string]bool{}
	for _, cell := range s.tables[results+"-cells"].where("row=" + row) {
		if x, known := number(cell["perplexity"]); known && x > diverged {
			seeds[cell["seed"]] = true
		}
	}
	return seeds
}

func hasColumn(rows table, column string) bool {
	_, ok := rows[0][column]
	return ok
}

// levels are the means of a measure over the common seeds of both rows of a claim.
func (s *study) levels(c *claim, measure string) (levels [2]float64) {
	specs := [2]string{firstWord(c.Row), firstWord(c.To)}
	row := s.bySeed(c.Results, specs[0], measure)
	to := s.bySeed(c.Results, specs[1], measure)
	for i, seeds := range []map[string]float64{row, to} {
		maps.DeleteFunc(seeds, func(seed string, _ float64) bool {
			_, first := row[seed]
			_, second := to[seed]
			return !first || !second
		})
		if len(seeds) > 0 {
			levels[i] = mean(seeds)
		} else if means := s.tables[c.Results+"-means"].where("row=" + specs[i] + " measure=" + measure); len(means) > 0 {
			levels[i], _ = number(means[0]["mean"])
		}
	}
	return levels
}

// mean adds in the order of the seeds, which determines the last digits.
func mean(bySeed map[string]float64) float64 {
	var values []float64
	for _, seed := range slices.Sorted(maps.Keys(bySeed)) {
		values = append(values, bySeed[seed])
	}
	return stat.Mean(values, nil)
}

func decimal(x float64) string { return numbers.Decimal(x, 1) }
