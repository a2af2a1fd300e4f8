package results

import (
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coalmine/privacy"
	"coalmine/tasks/audits/onerun"
	"coalmine/tasks/audits/summary"
)

// columns are those of Table 1 of Thakkar et al. 2020, with the privacy cost
// where there is any.
var columns = []string{"setting", "RS memorized", "RS lowest (p_u, p_e)", "BS memorized", "BS lowest", "accuracy %", "perplexity"}

// Columns that stand only where there is something in them.
const (
	epsilonColumn = "epsilon (proved)"
	oneRunColumn  = "one-run epsilon >= (of)"
)

// rows are the cells as text, without the header.
func (r *Results) rows() (header []string, rows [][]string) {
	private := slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Report != nil && c.Privacy != nil })
	oneRun := slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.oneRun() != nil })
	header = slices.Clone(columns)
	if private {
		header = append(header, epsilonColumn)
	}
	if oneRun {
		header = append(header, oneRunColumn)
	}
	for i := range r.Cells {
		row := r.Cells[i].row()
		if private {
			row = append(row, r.Cells[i].epsilon())
		}
		if oneRun {
			row = append(row, r.Cells[i].epsilonLower())
		}
		rows = append(rows, row)
	}
	return header, rows
}

func (c *Cell) row() []string {
	row := []string{c.Label, "", "", "", "", "", ""}
	if c.Report == nil {
		row[1] = c.Status
		return row
	}
	if c.Audit != nil && c.Audit.RandomSampling != nil {
		v := c.Audit.RandomSampling
		row[1], row[2] = fmt.Sprintf("%d/%d", v.Memorized, v.Of), lowest(v.Lowest)
	}
	if c.Audit != nil && c.Audit.BeamSearch != nil {
		v := c.Audit.BeamSearch
		row[3], row[4] = fmt.Sprintf("%d/%d", v.Memorized, v.Of), lowest(v.Lowest)
	}
	if c.Utility != nil {
		row[5], row[6] = fmt.Sprintf("%.1f", 100*c.Utility.RecallAt1), fmt.Sprintf("%.1f", c.Utility.Perplexity)
	}
	return row
}

// epsilon is never bare: the proved bound stands beside it.
func (c *Cell) epsilon() string {
	if c.Report == nil || c.Privacy == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", c.Privacy.Epsilon, c.Privacy.EpsilonProved)
}

// oneRun is the cell's lower bound on epsilon, nil without one.
func (c *Cell) oneRun() *onerun.Verdict {
	if c.Report == nil || c.Audit == nil {
		return nil
	}
	return c.Audit.OneRun
}

// epsilonLower has beside it the most that its audit could have found.
func (c *Cell) epsilonLower() string {
	v := c.oneRun()
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
}

// notes say what the epsilons of the table mean, and what went otherwise than
// asked.
func (r *Results) notes() []string {
	var notes []string
	for i := range r.Cells {
		c := &r.Cells[i]
		note := func(format string, args ...any) {
			notes = append(notes, fmt.Sprintf("%s (%s)", c.Cell, c.Label)+fmt.Sprintf(format, args...))
		}
		if c.Report != nil && c.Privacy != nil {
			note(": %s", c.Privacy.Summary())
		}
		if v := c.oneRun(); v != nil {
			note(": %s%s", v.Summary(), c.contradiction())
		}
		if c.Report != nil && c.Budget != nil && c.Budget.Stopped {
			note(" stopped after %d rounds: its privacy budget is epsilon_proved %g at delta %g", c.Training.Rounds, c.Budget.Epsilon, c.Budget.Delta)
		}
		for _, e := range c.Errors {
			note(" failed: %s", e)
		}
	}
	return notes
}

// contradiction says that the bounds cross, which one audit in twenty may show
// of a right training at 95% confidence, and every audit of a wrong one.
func (c *Cell) contradiction() string {
	v := c.oneRun()
	if c.Privacy == nil || v.EpsilonLower <= float64(c.Privacy.EpsilonProved) {
		return ""
	}
	return fmt.Sprintf("; this is ABOVE epsilon_proved %s: repeat it with other seeds, and if it stays so, the training is not as private as was proved", c.Privacy.EpsilonProved)
}

// lowest is a configuration as the paper prints it: "1/5000, 10%"; "-" for none.
func lowest(c *summary.Configuration) string {
	if c == nil {
		return "-"
	}
	return probability(c.UserProbability) + ", " + probability(c.ExampleProbability)
}

// probability is a whole percentage if it is one, else a fraction if that is
// short, else a decimal.
func probability(p float64) string {
	decimal := strconv.FormatFloat(p, 'f', -1, 64)
	exact, ok := new(big.Rat).SetString(decimal)
	if !ok {
		return decimal
	}
	if percent := new(big.Rat).Mul(exact, big.NewRat(100, 1)); percent.IsInt() {
		return percent.Num().String() + "%"
	}
	if fraction := exact.RatString(); len(fraction) <= 12 {
		return fraction
	}
	return strconv.FormatFloat(p, 'g', 3, 64)
}

// WriteTable writes an aligned table for people, and below it what its epsilons
// mean, and the failures.
func (r *Results) WriteTable(w io.Writer) error {
	header, rows := r.rows()
	var b strings.Builder
	writeAligned(&b, header, rows)
	for _, note := range r.notes() {
		b.WriteString(note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeAligned writes a header, a rule and rows in columns.
func writeAligned(b *strings.Builder, header []string, rows [][]string) {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, text := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	writeRow(b, widths, header)
	rule := make([]string, len(header))
	for i := range rule {
		rule[i] = strings.Repeat("-", widths[i])
	}
	writeRow(b, widths, rule)
	for _, row := range rows {
		writeRow(b, widths, row)
	}
}

func writeRow(b *strings.Builder, widths []int, row []string) {
	for i, text := range row {
		if i > 0 {
			b.WriteString("  ")
		}
		b.WriteString(text)
		if i+1 < len(row) {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)))
		}
	}
	b.WriteByte('\n')
}
