package pld

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"coalmine/internal/must"
)

// The bounds on the pair that dominates samples of fixed size hold its epsilon in numbers of 170
// bits between them (testdata/reference.py), and are within 1e-4 of it.
func TestFixedSizeBoundsHoldTheReferenceBetweenThem(t *testing.T) {
	t.Parallel()
	for _, row := range references(t, "testdata/replacing.csv", 43) {
		rate, sigma, rounds, delta, want := row[0], row[1], int(row[2]), row[3], row[4]
		got, err := FixedSizeEpsilon([]Step{{rate, sigma, rounds}}, delta)
		const rounded = 1e-13 // of closed forms, whose bounds are one number
		if err != nil || got.Lower > want*(1+rounded) || got.Upper < want*(1-rounded) || got.Upper > want*(1+1e-4) || got.Lower < want*(1-1e-4) {
			t.Errorf("rate %v, sigma %v, %d rounds, delta %v: %+v, %v, want %v between them", rate, sigma, rounds, delta, got, err, want)
		}
	}
}

// The epsilons of 200 random recipes, by a grid of losses (testdata/grid.py), which is good to 1e-6.
func TestFixedSizeBoundsHoldAGridBetweenThem(t *testing.T) {
	t.Parallel()
	for _, row := range references(t, "testdata/grid.csv", 200) {
		rate, sigma, rounds, delta, want := row[0], row[1], int(row[2]), row[3], row[4]
		got, err := FixedSizeEpsilon([]Step{{rate, sigma, rounds}}, delta)
		const off = 1e-6
		if err != nil || got.Lower > want*(1+off) || got.Upper < want*(1-off) || got.Upper > want*(1+1e-4) || got.Lower < want*(1-1e-4) {
			t.Errorf("rate %v, sigma %v, %d rounds, delta %v: %+v, %v, want %v between them", rate, sigma, rounds, delta, got, err, want)
		}
	}
}

// references reads count rows of a file.
func references(t *testing.T, name string, count int) (numbers [][5]float64) {
	file := must.Get(os.Open(name))(t)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) != 1+count {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		var parsed [5]float64
		for i, text := range row {
			if parsed[i], err = strconv.ParseFloat(text, 64); err != nil || math.IsNaN(parsed[i]) {
				t.Fatalf("%v: %v", row, err)
			}
		}
		numbers = append(numbers, parsed)
	}
	return numbers
}
