package results

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"coalmine/storage"
	"coalmine/tasks/checkpoints"
	"coalmine/workflows/availability"
	"coalmine/workflows/compile"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/runs"
)

// Rounds are what the trainings of a run have said about every round that has run.
type Rounds struct {
	Run        string       `json:"run"`
	Experiment string       `json:"experiment"`
	Cells      []CellRounds `json:"cells"`
}

// CellRounds are the rounds of a cell's training, ascending; of central training its
// tasks.
type CellRounds struct {
	Cell   string          `json:"cell"`
	Label  string          `json:"label"`
	Axes   experiment.Axes `json:"axes"`
	Rounds []Round         `json:"rounds"`
}

// Round is one round: its metric row, and the quantiles of the clients' norms once they
// were clipped, where they were. Norms are exact, and outside of any guarantee.
type Round struct {
	checkpoints.Row
	ClippedNorms
}

// ClippedNorms are checkpoints.Norms after clipping.
type ClippedNorms struct {
	Least         float64 `json:"clipped_norm_min,omitempty" parquet:"clipped_norm_min,optional"`
	Tenth         float64 `json:"clipped_norm_p10,omitempty" parquet:"clipped_norm_p10,optional"`
	Quarter       float64 `json:"clipped_norm_p25,omitempty" parquet:"clipped_norm_p25,optional"`
	Median        float64 `json:"clipped_norm_median,omitempty" parquet:"clipped_norm_median,optional"`
	ThreeQuarters float64 `json:"clipped_norm_p75,omitempty" parquet:"clipped_norm_p75,optional"`
	NineTenths    float64 `json:"clipped_norm_p90,omitempty" parquet:"clipped_norm_p90,optional"`
	Largest       float64 `json:"clipped_norm_max,omitempty" parquet:"clipped_norm_max,optional"`
}

func roundOf(row checkpoints.Row) Round {
	r := Round{Row: row}
	if row.Clip > 0 {
		r.ClippedNorms = ClippedNorms(row.Norms.Clipped(row.Clip))
	}
	return r
}

// LoadRounds reads the rounds of all cells of a run.
func LoadRounds(ctx context.Context, archive *storage.Archive, run *runs.Run) (*Rounds, error) {
	spec, err := experiment.ReadSpec(run.Spec.Experiment)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	p, err := compile.Plan(spec)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.ID, err)
	}
	out := &Rounds{Run: run.ID, Experiment: spec.Name}
	for i := range p.Cells {
		c := &spec.Cells[i]
		cell := CellRounds{Cell: c.Name, Label: c.Label, Axes: c.Axes, Rounds: []Round{}}
		rows, err := trainingRows(ctx, archive, &p.Cells[i])
		if err != nil {
			return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, c.Name, err)
		}
		for _, row := range rows {
			// The chain may be another cell's too, which goes on for longer.
			if row.Round <= int64(c.Experiment.Training.Rounds) {
				cell.Rounds = append(cell.Rounds, roundOf(row))
			}
		}
		out.Cells = append(out.Cells, cell)
	}
	return out, nil
}

// trainingRows are those of the cell's chain, and of the tail after it.
func trainingRows(ctx context.Context, archive *storage.Archive, cell *plan.Cell) (rows []checkpoints.Row, err error) {
	if cell.Chain != nil {
		if rows, err = availability.Rows(ctx, archive, cell.Chain, 0); err != nil {
			return nil, err
		}
	}
	if cell.Model.Chain != nil {
		return rows, nil
	}
	tail, err := availability.StepRows(ctx, archive, cell.Model.Key)
	return append(rows, tail...), err
}

// Write writes the rounds as json, whole, or with one row a round as csv or parquet.
func (r *Rounds) Write(w io.Writer, format string) error {
	f, err := formatWith(format, RoundRows)
	if err != nil {
		return err
	}
	return f.writeRounds(r, w)
}

func (r *Rounds) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// roundRow is a round with its cell, as one row.
type roundRow struct {
	Run        string `parquet:"run"`
	Experiment string `parquet:"experiment"`
	Cell       string `parquet:"cell"`
	Label      string `parquet:"label"`
	Round
}

// rows yields all rounds, cell by cell.
func (r *Rounds) rows(yield func(roundRow) bool) {
	for _, c := range r.Cells {
		for _, round := range c.Rounds {
			if !yield(roundRow{r.Run, r.Experiment, c.Cell, c.Label, round}) {
				return
			}
		}
	}
}

func (r *Rounds) writeParquet(w io.Writer) error { return parquet.Write(w, slices.Collect(r.rows)) }

// writeCSV writes a header and a line a round; what is absent is empty.
func (r *Rounds) writeCSV(w io.Writer) error {
	out, schema := csv.NewWriter(w), parquet.SchemaOf(roundRow{})
	var line []string
	for _, column := range schema.Columns() {
		line = append(line, column[0])
	}
	_ = out.Write(line) // Flush keeps the error
	for row := range r.rows {
		line = line[:0]
		for _, v := range schema.Deconstruct(nil, row) {
			line = append(line, roundText(v))
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}

func roundText(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	}
	return v.String()
}
