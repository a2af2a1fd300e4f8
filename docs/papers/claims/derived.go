package main

import (
	"cmp"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
)

// rarest is the place of the rarest configuration with a canary for which the column is true, counted from 1
// among the configurations of a model; without such a canary it is the number of configurations plus 1.
// Configurations are ordered as in the paper's tables by p_u p_e, then by p_u (Thakkar et al. 2020, section 4.3).
func rarest(column string) func(table) (float64, bool) {
	return func(canaries table) (float64, bool) {
		type configuration struct{ frequency, users float64 }
		of := func(canary map[string]string) configuration {
			users, _ := number(canary["user_probability"])
			examples, _ := number(canary["example_probability"])
			return configuration{users * examples, users}
		}
		compare := func(a, b configuration) int {
			return cmp.Or(cmp.Compare(a.frequency, b.frequency), cmp.Compare(a.users, b.users))
		}
		var all []configuration
		for _, canary := range canaries {
			all = append(all, of(canary))
		}
		slices.SortFunc(all, compare)
		all = slices.Compact(all)
		place := len(all)
		for _, canary := range canaries.where(column + "=true") {
			at, _ := slices.BinarySearchFunc(all, of(canary), compare)
			place = min(place, at)
		}
		return float64(place + 1), len(all) > 0
	}
}

// perplexityAgainstExposure is Pearson's correlation, over the rows of a grid, of the perplexity with the
// mean fitted exposure of the canaries (Carlini et al. 2019, section 6.2).
func perplexityAgainstExposure(canaries table) (float64, bool) {
	var perplexities, exposures []float64
	for _, row := range canaries.values("row") {
		canaries := canaries.where("row=" + row)
		perplexity, known := canaries.mean(perplexityOfCell)
		exposure, fitted := canaries.mean("fitted_exposure")
		if known && fitted {
			perplexities, exposures = append(perplexities, perplexity), append(exposures, exposure)
		}
	}
	return stat.Correlation(perplexities, exposures, nil), len(perplexities) > 2
}

// usersBelowHalf counts the users for whom the prepared classifier is right in less than half of the cases: the
// lower half of its histogram over [0, 1] (Augenstein et al. 2020, figure 5).
func usersBelowHalf(cells table) (users float64, ok bool) {
	for _, cell := range cells {
		bins := strings.Fields(cell["prepared_users_accuracy_histogram"])
		for _, bin := range bins[:len(bins)/2] {
			n, _ := number(bin)
			users += n
		}
		ok = ok || len(bins) > 0
	}
	return users, ok
}

// keptAtOtherStages is the mean factor of attacks tried at another stage of the training than the stage they
// learned from, divided by the mean factor of attacks tried at the same stage (Orekondy et al. 2018, figure 10).
func keptAtOtherStages(cells table) (share float64, ok bool) {
	var same, other []float64
	for _, cell := range cells {
		for i, row := range strings.Split(cell["deanonymization_stages"], "; ") {
			for j, text := range strings.Fields(row) {
				x, _ := number(text)
				if i == j {
					same = append(same, x)
				} else {
					other = append(other, x)
				}
			}
		}
	}
	return stat.Mean(other, nil) / stat.Mean(same, nil), len(other) > 0
}

// federatedShare is a measure of FedAvg, the first row, divided by the same measure of SGD, the second (Orekondy
// et al. 2018, table 2).
func federatedShare(measure string) func(table) (float64, bool) {
	return func(cells table) (float64, bool) {
		federated, one := cells.where("row=r01").mean(measure)
		central, two := cells.where("row=r02").mean(measure)
		return federated / central, one && two
	}
}
