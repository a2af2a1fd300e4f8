package checkpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"coalmine/internal/lists"
	"coalmine/storage"
	"coalmine/tasks"
)

// Row holds the metrics of one step of a training chain.
type Row struct {
	Round          int64   `json:"round" parquet:"round" doc:"round of federated training, or the last step of a task of central training"`
	Clients        int64   `json:"clients,omitempty" parquet:"clients" doc:"clients of the cohort; 0 in central training"`
	Examples       int64   `json:"examples" parquet:"examples" doc:"examples trained, once for each local epoch"`
	Tokens         int64   `json:"tokens" parquet:"tokens" doc:"tokens trained, once for each local epoch"`
	Loss           float64 `json:"loss" parquet:"loss" doc:"mean training loss before each step: nats per token, of models of images and labels nats per example, of a regressor the absolute error per example"`
	UpdateNorm     float64 `json:"update_norm" parquet:"update_norm" doc:"L2 norm of the change of the model"`
	ClientNorm     float64 `json:"client_norm,omitempty" parquet:"client_norm" doc:"mean L2 norm of the clients' updates before clipping, with DP-SGD of the records' gradients"`
	Clipped        float64 `json:"clipped,omitempty" parquet:"clipped" doc:"share of clients whose update was clipped, with DP-SGD of records whose gradient was"`
	NoiseDeviation float64 `json:"noise_deviation,omitempty" parquet:"noise_deviation" doc:"standard deviation of the noise on the mean update"`
	Spending
	Norms
	// Validation has the last columns of a segment, which exist only if one of its rows has it.
	Validation `parquet:"-"`
	// Metrics are other numbers of the round from an external program, by its own names. Segments
	// have none, because they belong to built-in trainings.
	Metrics map[string]float64 `json:"metrics,omitempty" parquet:"-"`
}

// Validation is the part of a Row of trainings that use the validation part.
type Validation struct {
	// ValidationLoss is the mean loss over the validation part in nats per token, after the step; 0
	// if not measured.
	ValidationLoss float64 `json:"validation_loss,omitempty" parquet:"validation_loss,optional" doc:"mean loss over the validation part after the round, in the unit of loss"`
}

// validatedRow is a Row with all columns.
type validatedRow struct {
	Row
	Validation
}

// Spending is the part of a Row of trainings with clipping. A Parquet segment has its columns, and those of
// Norms, only if one of its rows has them or a Validation.
type Spending struct {
	// Epsilon (noise relative to the clip norm) and EpsilonProved are the privacy spent up to this
	// round, at the training's delta; 0 without accounting, and both 0 with EpsilonInfinite. See
	// package privacy.
	Epsilon         float64 `json:"epsilon,omitempty" parquet:"epsilon,optional" doc:"epsilon spent up to the round by the papers' convention: noise relative to the clip norm"`
	EpsilonProved   float64 `json:"epsilon_proved,omitempty" parquet:"epsilon_proved,optional" doc:"epsilon spent up to the round as Rényi divergences prove it, at least the epsilon_proved of the cell, which other accountants may lower"`
	EpsilonInfinite bool    `json:"epsilon_infinite,omitempty" parquet:"epsilon_infinite,optional" doc:"whether the epsilon spent up to the round is infinite"`
	Stopped         bool    `json:"stopped,omitempty" parquet:"stopped,optional" doc:"whether the training had ended, so that the round changed nothing"`
	Clip            float64 `json:"clip,omitempty" parquet:"clip,optional" doc:"clip norm of the round; 0 without clipping"`
}

// Norms are quantiles of the L2 norms of a round's clients' updates, before clipping: for each the
// least norm that this share of clients does not exceed. They are exact, without noise; all are 0
// without clients. Clipping limits each norm, and so each quantile, to the clip norm.
type Norms struct {
	Min           float64 `json:"client_norm_min,omitempty" parquet:"client_norm_min,optional" doc:"least of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
	Tenth         float64 `json:"client_norm_p10,omitempty" parquet:"client_norm_p10,optional" doc:"10th percentile of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
	Quarter       float64 `json:"client_norm_p25,omitempty" parquet:"client_norm_p25,optional" doc:"25th percentile of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
	Median        float64 `json:"client_norm_median,omitempty" parquet:"client_norm_median,optional" doc:"median of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
	ThreeQuarters float64 `json:"client_norm_p75,omitempty" parquet:"client_norm_p75,optional" doc:"75th percentile of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
	NineTenths    float64 `json:"client_norm_p90,omitempty" parquet:"client_norm_p90,optional" doc:"90th percentile of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
	Largest       float64 `json:"client_norm_max,omitempty" parquet:"client_norm_max,optional" doc:"largest of the clients' update norms before clipping, with DP-SGD of the records' gradient norms"`
}

// QuantilesOf returns the quantiles of norms without reordering them.
func QuantilesOf(norms []float32) Norms {
	if len(norms) == 0 {
		return Norms{}
	}
	sorted := slices.Sorted(slices.Values(norms))
	quantile := func(percent int) float64 { return float64(sorted[(percent*len(sorted)+99)/100-1]) }
	return Norms{float64(sorted[0]), quantile(10), quantile(25), quantile(50), quantile(75), quantile(90), quantile(100)}
}

// Clipped returns the quantiles after clipping; 0 means no clip.
func (n Norms) Clipped(clip float64) Norms {
	if clip == 0 {
		return n
	}
	return Norms{
		min(n.Min, clip), min(n.Tenth, clip), min(n.Quarter, clip), min(n.Median, clip),
		min(n.ThreeQuarters, clip), min(n.NineTenths, clip), min(n.Largest, clip),
	}
}

// plainRow is a Row without Spending and Norms, for segments of central training.
type plainRow struct {
	Round          int64   `parquet:"round"`
	Clients        int64   `parquet:"clients"`
	Examples       int64   `parquet:"examples"`
	Tokens         int64   `parquet:"tokens"`
	Loss           float64 `parquet:"loss"`
	UpdateNorm     float64 `parquet:"update_norm"`
	ClientNorm     float64 `parquet:"client_norm"`
	Clipped        float64 `parquet:"clipped"`
	NoiseDeviation float64 `parquet:"noise_deviation"`
}

// plainSchema is the schema of a plainRow, under the name of the rows of all segments.
var plainSchema = parquet.NewSchema("Row", parquet.SchemaOf(plainRow{}))

func (r Row) plain() plainRow {
	return plainRow{
		r.Round, r.Clients, r.Examples, r.Tokens, r.Loss, r.UpdateNorm, r.ClientNorm, r.Clipped, r.NoiseDeviation,
	}
}

// writeSegment encodes the rows of a whole segment.
func writeSegment(rows []Row) ([]byte, error) {
	var file bytes.Buffer
	var err error
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Validation != Validation{} }) {
		all := lists.Map(rows, func(r Row) validatedRow { return validatedRow{r, r.Validation} })
		err = parquet.Write(&file, all, parquet.NewSchema("Row", parquet.SchemaOf(validatedRow{})))
	} else if slices.ContainsFunc(rows, func(r Row) bool { return r.Spending != Spending{} || r.Norms != Norms{} }) {
		err = parquet.Write(&file, rows)
	} else {
		err = parquet.Write(&file, lists.Map(rows, Row.plain), plainSchema)
	}
	return file.Bytes(), err
}

// AppendRow records the row of the task's step. Inside a segment each step passes the rows so far
// to the next; the last step writes them all as one Parquet blob and the next segment starts empty.
// A standing node, the tail of a training, records only its own row.
func AppendRow(ctx context.Context, t *tasks.Task, row Row) error {
	rows, err := openRows(ctx, t)
	if err != nil {
		return err
	}
	rows = append(rows, row)
	if t.Step%tasks.SegmentSteps != 0 || t.Step == 0 {
		data, err := json.Marshal(rows)
		if err != nil {
			return tasks.Permanent(fmt.Errorf("metric rows of step %d: %w", t.Step, err))
		}
		return t.Put(ctx, tasks.RowsBlob, data)
	}
	file, err := writeSegment(rows)
	if err != nil {
		return fmt.Errorf("metric rows of the segment that ends at step %d: %w", t.Step, err)
	}
	return t.Put(ctx, tasks.SegmentBlob, file)
}

// openRows returns the rows of the segment's earlier steps.
func openRows(ctx context.Context, t *tasks.Task) ([]Row, error) {
	if t.Step == 0 || (t.Step-1)%tasks.SegmentSteps == 0 {
		return nil, nil
	}
	data, err := t.Blob(ctx, tasks.PreviousInput, tasks.RowsBlob)
	if err != nil {
		return nil, err
	}
	return DecodeRows(data)
}

// DecodeRows reads a rows blob.
func DecodeRows(data []byte) ([]Row, error) {
	var rows []Row
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, tasks.Permanent(fmt.Errorf("metric rows: %w", err))
	}
	return rows, nil
}

// segmentFormat is the format of segment blobs. Files of format 1 do not name it, to keep their
// bytes; later formats have a storage.Stamp in the metadata field formatField.
var segmentFormat = storage.Format{Name: "metric rows of a segment", Number: 1}

// formatField is the metadata field of a file with its format.
const formatField = "coalmine.format"

// DecodeSegment reads a segment blob.
func DecodeSegment(data []byte) ([]Row, error) {
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err == nil {
		stamp, _ := file.Lookup(formatField)
		err = segmentFormat.Check(storage.ParseStamp(stamp))
	}
	var found []validatedRow
	if err == nil {
		found, err = parquet.Read[validatedRow](bytes.NewReader(data), int64(len(data)))
	}
	if err != nil {
		return nil, tasks.Permanent(fmt.Errorf("metric rows of a segment: %w", err))
	}
	return lists.Map(found, func(f validatedRow) Row {
		f.Row.Validation = f.Validation
		return f.Row
	}), nil
}
