// Package trackers writes the results of a run for programs that track experiments: a file store of
// MLflow, and event files of TensorBoard.
//
// Every cell becomes a run of such a program. Its parameters are the cell's resolved experiment. Its
// metrics, by round (of SGD by step), have three groups:
//
//	training/…  numbers of every round, the columns of results --rows rounds
//	audit/…     measurements along the training, the numbers of the curve in the JSON
//	final/…     outcomes, the columns of numbers of results --rows cells
//
// Equal runs give equal bytes. No time comes from a clock: all times are the time of the submission, or 0
// if it is unknown.
package trackers

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
)

// Run is a run in the form that trackers use.
type Run struct {
	ID, Experiment string
	// Submitted is the time of the submission, used for all times; zero if unknown.
	Submitted time.Time
	Cells     []Cell
}

type Cell struct {
	Name, Label string
	// Status is a state of a cell in package results, such as results.Done.
	Status string
	// Digest is the digest of the run's id, the cell's name and its resolved experiment.
	Digest [sha256.Size]byte
	// Params are the leaves of the resolved experiment by their paths, ascending, and the axes that the
	// cell lacks, as null.
	Params experiment.Axes
	// Texts are the texts of results --rows cells, in the order of the columns.
	Texts []results.Value
	// Series are ordered by name.
	Series []Series
}

// Series is a metric.
type Series struct {
	Name   string
	Points []Point // ascending by Step
}

// Point is the value of a metric after a round, of SGD after a step.
type Point struct {
	Step  int64
	Value float64 // finite
}

// New returns a run from its results, rounds and resolved experiment, which must have the same cells.
func New(r *results.Results, rounds *results.Rounds, spec *experiment.Spec, submitted time.Time) (*Run, error) {
	run := &Run{ID: r.Run, Experiment: r.Experiment, Submitted: submitted}
	if len(r.Cells) != len(spec.Cells) || len(r.Cells) != len(rounds.Cells) {
		return nil, fmt.Errorf("run %s: results of %d cells, rounds of %d and experiments of %d; expected equal numbers", r.Run, len(r.Cells), len(rounds.Cells), len(spec.Cells))
	}
	values, err := r.CellValues()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.Run, err)
	}
	for i := range r.Cells {
		cell, err := newCell(r, &r.Cells[i], values[i], &rounds.Cells[i], &spec.Cells[i])
		if err != nil {
			return nil, fmt.Errorf("run %s, cell %s: %w", r.Run, r.Cells[i].Cell, err)
		}
		run.Cells = append(run.Cells, *cell)
	}
	return run, nil
}

func newCell(r *results.Results, c *results.Cell, values []results.Value, rounds *results.CellRounds, spec *experiment.Cell) (*Cell, error) {
	resolved, err := json.Marshal(spec.Experiment)
	if err != nil {
		return nil, err
	}
	cell := &Cell{
		Name: c.Cell, Label: c.Label, Status: c.Status,
		Digest: sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", r.Run, c.Cell, resolved)),
		Params: params(resolved, spec.Axes),
	}
	series := metrics{}
	series.addRounds(rounds)
	if c.Report != nil {
		if err := series.addCurve(c.Curve); err != nil {
			return nil, err
		}
	}
	cell.Texts = series.addFinal(values, c.Report)
	cell.Series = series.sorted()
	return cell, nil
}

// params returns the leaves of an experiment, and the axes that it lacks.
func params(resolved json.RawMessage, axes experiment.Axes) experiment.Axes {
	missing := lists.Filter(axes, func(a experiment.Axis) bool { return string(a.Value) == "null" })
	list := append(experiment.Leaves("", resolved), missing...)
	slices.SortStableFunc(list, func(a, b experiment.Axis) int { return cmp.Compare(a.Path, b.Path) })
	return slices.CompactFunc(list, func(a, b experiment.Axis) bool { return a.Path == b.Path })
}

// metrics holds points by the names of their series and by their steps.
type metrics map[string]map[int64]float64

// The groups of metrics; see the package comment.
const (
	training = "training/"
	audit    = "audit/"
	final    = "final/"
)

// add adds a point. It omits numbers that are not finite.
func (m metrics) add(group, name string, step int64, value float64) {
	if !numbers.IsFinite(value) {
		return
	}
	name = group + safe(name)
	if m[name] == nil {
		m[name] = map[int64]float64{}
	}
	m[name][step] = value
}

// safe returns a name that trackers and file systems accept. Other characters become "_".
func safe(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.", r) {
			return r
		}
		return '_'
	}, name)
}

// addRounds adds the columns of the rounds. It omits columns that are 0 in all rounds, because they do not
// apply to the training.
func (m metrics) addRounds(c *results.CellRounds) {
	rows, applies := c.Values(), map[string]bool{}
	for _, row := range rows {
		for _, v := range row {
			applies[v.Column] = applies[v.Column] || v.Number != 0
		}
	}
	for i, row := range rows {
		for _, v := range row {
			if v.Column != "round" && applies[v.Column] {
				m.add(training, v.Column, c.Rounds[i].Round, v.Number)
			}
		}
	}
}

// addCurve adds the numbers of the measurements along the training, by their paths.
func (m metrics) addCurve(curve []reports.Point) error {
	for _, point := range curve {
		data, err := json.Marshal(point)
		if err != nil {
			return fmt.Errorf("the measurement after round %d: %w", point.Round, err)
		}
		for _, leaf := range experiment.Leaves("", data) {
			var number *float64
			if leaf.Path != "round" && json.Unmarshal(leaf.Value, &number) == nil && number != nil {
				m.add(audit, leaf.Path, int64(point.Round), *number)
			}
		}
	}
	return nil
}

// addFinal adds the numbers of the cell's row after the last round, and returns its texts.
func (m metrics) addFinal(values []results.Value, report *reports.Report) (texts []results.Value) {
	var last int64
	if report != nil {
		last = int64(report.Training.Rounds)
	}
	for _, v := range values {
		if v.Text != "" {
			texts = append(texts, v)
		} else {
			m.add(final, v.Column, last, v.Number)
		}
	}
	return texts
}

// sorted returns the series ordered by name.
func (m metrics) sorted() (list []Series) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		s := Series{Name: name}
		for _, step := range slices.Sorted(maps.Keys(m[name])) {
			s.Points = append(s.Points, Point{step, m[name][step]})
		}
		list = append(list, s)
	}
	return list
}

// Format is a format of several files.
type Format struct {
	// Name is the format's name in --format.
	Name string
	// Description describes the format in a few words.
	Description string
	// Reader is a command that shows a folder of the tracker, with %s in place of the folder.
	Reader string

	// folder is the name of the run's folder in the tracker's folder.
	folder func(*Run) string
	// about returns the files of the whole run, and cell those of one cell, below folder.
	about func(*Run) []file
	cell  func(*Run, *Cell) []file
}

// file is a file to write.
type file struct {
	path string // with slashes
	data []byte
}

var formats = []Format{
	{
		Name: "mlflow", Description: "a file store of MLflow with a run for each cell; needs -o", Reader: "mlflow ui --backend-store-uri %s",
		folder: experimentID, about: mlflowExperiment, cell: mlflowRun,
	},
	{
		Name: "tensorboard", Description: "event files of TensorBoard with a folder for each cell; needs -o", Reader: "tensorboard --logdir %s",
		folder: func(r *Run) string { return r.ID }, about: func(*Run) []file { return nil }, cell: tensorBoardRun,
	},
}

// Formats lists the formats.
func Formats() []Format { return append([]Format(nil), formats...) }

// Named returns the format with a name.
func Named(name string) (Format, bool) {
	for _, f := range formats {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Written describes the written files.
type Written struct {
	Run string `json:"run"`
	// Folder is the folder of the run.
	Folder string `json:"folder"`
	Cells  int    `json:"cells"`
	Files  int    `json:"files"`
}

// Write writes a run into the tracker's folder dir, which it creates if needed and which may hold other
// runs. The run's own folder must not exist; it appears completely or not at all.
func (f Format) Write(dir string, run *Run) (*Written, error) {
	out := &Written{Run: run.ID, Folder: filepath.Join(dir, f.folder(run)), Cells: len(run.Cells)}
	if _, err := os.Lstat(out.Folder); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: run %s already exists and is not overwritten: name another directory with -o, or remove it", out.Folder, run.ID)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unfinished, err := os.MkdirTemp(dir, ".unfinished-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(unfinished)
	if out.Files, err = f.writeFiles(unfinished, run); err != nil {
		return nil, err
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return nil, err
	}
	return out, os.Rename(unfinished, out.Folder)
}

// writeFiles writes all files of a run below a folder and returns their number.
func (f Format) writeFiles(folder string, run *Run) (written int, err error) {
	write := func(files []file) error {
		for _, file := range files {
			if err := file.write(folder); err != nil {
				return err
			}
			written++
		}
		return nil
	}
	if err := write(f.about(run)); err != nil {
		return written, err
	}
	for i := range run.Cells {
		if err := write(f.cell(run, &run.Cells[i])); err != nil {
			return written, fmt.Errorf("cell %s: %w", run.Cells[i].Name, err)
		}
	}
	return written, nil
}

func (f *file) write(folder string) error {
	if !filepath.IsLocal(filepath.FromSlash(f.path)) {
		return fmt.Errorf("file %q: expected a path below the folder of the run", strings.ToValidUTF8(f.path, "?"))
	}
	path := filepath.Join(folder, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, f.data, 0o644)
}
