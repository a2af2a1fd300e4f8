package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"coalmine/internal/extended"
)

// compare is the difference of the two rows of a claim: seed by seed from the rows of cells and canaries,
// or as coalmine compare has printed it, or from the means.
func (s *study) compare(c *claim) (comparison, error) {
	for _, part := range []string{"-cells", "-canaries", "-means"} {
		if _, err := s.table(c.Results + part); err != nil {
			return comparison{}, err
		}
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

// lacking is an error if a measure of the claim is not in the comparison.
func lacking(c *claim, found comparison) error {
	for _, name := range c.Measures {
		if _, ok := found.measures[name]; !ok {
			return fmt.Errorf("%s does not compare %s of %s with %s", c.Results, name, c.Row, c.To)
		}
	}
	return nil
}

func (s *study) compareMeans(c *claim) (comparison, error) {
	means := s.tables[c.Results+"-means"]
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
		row, _ := s.bySeed(c.Results, c.Row, own)
		to, _ := s.bySeed(c.Results, c.To, other)
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
			found.measures[name] = newEstimate(differences)
		}
	}
	return found, lacking(c, found)
}

// pair are the measures of the two rows.
func pair(name string) (own, other string) {
	own, other, two := strings.Cut(name, ":")
	if !two {
		other = own
	}
	return own, other
}

// label of a row with its conditions: "dropout 0.2, insertions=4".
func (s *study) label(results, spec string) string {
	row, conditions, _ := strings.Cut(spec, " ")
	label := spec
	if cells := s.tables[results+"-cells"].where("row=" + row); len(cells) > 0 {
		label = cells[0]["label"]
		if conditions != "" {
			label = strings.TrimPrefix(label+", "+conditions, ", ")
		}
	}
	return label
}

// bySeed has the mean of a measure over the cells, or the canaries, of a row, by seed.
func (s *study) bySeed(results, spec, measure string) (means map[string]float64, ok bool) {
	rows := s.tables[results+"-cells"]
	if canaries := s.tables[results+"-canaries"]; len(canaries) > 0 && hasColumn(canaries, measure) {
		rows = canaries
	}
	values := map[string][]float64{}
	for _, row := range rows.where("row=" + spec) {
		if x, known := number(row[measure]); known {
			values[row["seed"]] = append(values[row["seed"]], x)
		}
	}
	means = map[string]float64{}
	for seed, list := range values {
		means[seed] = stat.Mean(list, nil)
	}
	return means, len(means) > 0
}

func hasColumn(rows table, column string) bool {
	_, ok := rows[0][column]
	return ok
}

// levels are the means of a measure over the seeds, of both rows of a claim.
func (s *study) levels(c *claim, measure string) (levels [2]float64) {
	for i, spec := range []string{c.Row, c.To} {
		if seeds, ok := s.bySeed(c.Results, firstWord(spec), measure); ok {
			levels[i] = mean(seeds)
		} else if means := s.tables[c.Results+"-means"].where("row=" + spec + " measure=" + measure); len(means) > 0 {
			levels[i], _ = number(means[0]["mean"])
		}
	}
	return levels
}

func mean(values map[string]float64) float64 {
	return stat.Mean(slices.Collect(maps.Values(values)), nil)
}

func decimal(x float64) string { return extended.Decimal(x, 1) }
