package deanonymization

import (
	"fmt"
	"math"
	"strings"

	"coalmine/tasks/audits"
)

// factor is how many times chance the average precision of the best attack is.
func factor(outcome audits.Outcome) (audits.Bounded, bool) {
	best := outcome.(*Outcome).Best()
	if best == nil {
		return audits.Bounded{}, false
	}
	return best.factor(), true
}

// heatMaps returns figure 10 of the paper, for each attack.
func (v *Outcome) heatMaps() (maps []*audits.HeatMap) {
	for i := range v.Attacks {
		if o := &v.Attacks[i]; len(o.Matrix) > 0 {
			maps = append(maps, v.heatMap(o))
		}
	}
	return maps
}

// heatMap has a row for each stage that the attack was trained on, with a column for each that
// it was tried on.
func (v *Outcome) heatMap(o *AttackOutcome) *audits.HeatMap {
	m := &audits.HeatMap{
		Name:  "Stages of the training: named AP by " + o.Attack.Title() + ", times chance",
		About: "An attack has learned from the updates of a row's rounds, and was tried on those of a column's; both are called by the first of their rounds. A number is its average precision, times chance; there is none where nobody could be named.",
		Title: fmt.Sprintf("average precision of %s, times chance, by the rounds that it was trained on (downwards) and tried on (to the right)", o.Attack.Title()),
	}
	for _, rounds := range v.Stages {
		m.Rows = append(m.Rows, fmt.Sprint(rounds.From))
	}
	m.Columns = m.Rows
	for _, row := range o.Matrix {
		values := make([]float64, len(row))
		for i, stage := range row {
			values[i] = stage.Factor
			if stage.Users == 0 {
				values[i] = math.NaN()
			}
		}
		m.Values = append(m.Values, values)
	}
	return m
}

// stages are the factors of the matrix, row by row: "4.1 2.5; 2.2 3.9", with a dash where nobody
// could be named; nil without a matrix.
func (o *AttackOutcome) stages() *string {
	if len(o.Matrix) == 0 {
		return nil
	}
	rows := make([]string, len(o.Matrix))
	for i, row := range o.Matrix {
		values := make([]string, len(row))
		for j, stage := range row {
			if values[j] = "-"; stage.Users > 0 {
				values[j] = fmt.Sprintf("%.4g", stage.Factor)
			}
		}
		rows[i] = strings.Join(values, " ")
	}
	return new(strings.Join(rows, "; "))
}
