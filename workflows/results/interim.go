package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/external"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
)

// Interim is the newest measurement of a cell in training. It does not describe the last model.
type Interim struct {
	// Unit is the unit of a round, and Steps is the length of the training in it.
	Unit  plan.Unit `json:"unit"`
	Steps int       `json:"steps"`
	// Measured holds the numbers, named as in the curve of a report.
	Measured reports.Point `json:"measured"`
	// Audit holds the outcomes, named as in the audit of a report.
	Audit encoding.Object `json:"audit"`
}

// roundsLookedAt is the number of measured rounds searched for a finished measurement. Audits run during
// the training, a few rounds behind.
const roundsLookedAt = 4

// readSoFar returns the newest measurement of a cell, or nil before the first. open are the nodes that storage has
// once there is a newer one.
func readSoFar(ctx context.Context, archive *storage.Archive, spec *experiment.Cell, report *plan.Node, cell *plan.Cell) (found *Interim, open []storage.Key, err error) {
	params, err := plan.ParamsOf[reports.CellParams](report)
	if err != nil {
		return nil, nil, err
	}
	reached, err := roundReached(ctx, archive, cell)
	if err != nil {
		return nil, nil, err
	}
	behind := sort.SearchInts(params.Measured, reached+1)
	for i := behind - 1; i >= max(0, behind-roundsLookedAt); i-- {
		point, err := measured(ctx, archive, report, params, params.Measured[i])
		if err != nil {
			return nil, nil, fmt.Errorf("after round %d: %w", params.Measured[i], err)
		}
		if point.Utility == nil && len(point.Metrics) == 0 {
			continue
		}
		training := &spec.Experiment.Training
		found = &Interim{Unit: compile.Unit(training), Steps: training.Rounds, Measured: point}
		open, err = found.readOutcomes(ctx, archive, report, params)
		return found, append(open, nextMeasured(report, params, i+1)...), err
	}
	return nil, nextMeasured(report, params, max(0, behind-roundsLookedAt)), nil
}

// nextMeasured returns the first node that measures after the i-th measured round, or nil.
func nextMeasured(report *plan.Node, params *reports.CellParams, i int) []storage.Key {
	first := slices.IndexFunc(params.Audits, func(a reports.AuditParams) bool { return !a.AtEnd })
	if first < 0 || i >= len(params.Measured) {
		return nil
	}
	return []storage.Key{report.Input(reports.AuditInput(params.Audits[first].Name, params.Measured[i]))}
}

// roundReached returns the last completed round of a cell's chain. For a cell that has not begun, as most
// cells of a large grid, two queries suffice.
func roundReached(ctx context.Context, archive *storage.Archive, cell *plan.Cell) (int, error) {
	if cell.Chain == nil {
		return 0, nil
	}
	for _, step := range []int{1, min(tasks.SegmentSteps, cell.Chain.Steps)} {
		begun, err := archive.HasCommit(ctx, cell.Chain.Key(step))
		if err != nil {
			return 0, err
		}
		if begun {
			step, err := plan.LastStep(ctx, archive, cell.Chain)
			return min(step, cell.ChainSteps()) * cell.Chain.StepRounds, err
		}
	}
	return 0, nil
}

// readOutcomes reads the audits' outcomes of the measured model, and returns the nodes of the unfinished ones.
func (s *Interim) readOutcomes(ctx context.Context, archive *storage.Archive, report *plan.Node, params *reports.CellParams) (open []storage.Key, err error) {
	for _, a := range params.Audits {
		if a.AtEnd {
			continue
		}
		key := report.Input(reports.AuditInput(a.Name, s.Measured.Round))
		if a.OutcomeBlob == "" {
			if a.Name == reports.Utility && s.Measured.Utility == nil {
				open = append(open, key)
			}
			continue
		}
		outcome, err := readOutput(ctx, archive, key, a.OutcomeBlob)
		switch {
		case err != nil:
		case outcome == nil:
			open = append(open, key)
		default:
			err = s.Audit.Set(a.Name, json.RawMessage(outcome))
		}
		if err != nil {
			return nil, fmt.Errorf("%s after round %d: %w", a.Name, s.Measured.Round, err)
		}
	}
	return open, nil
}

// outcome returns an audit's outcome of the measured model.
func (s *Interim) outcome(audit string) (json.RawMessage, bool) {
	if audit == reports.Utility {
		return s.Measured.Utility, s.Measured.Utility != nil
	}
	return s.Audit.Get(audit)
}

// at returns a text such as "round 300 of 800".
func (s *Interim) at() string { return fmt.Sprintf("%s %d of %d", s.Unit, s.Measured.Round, s.Steps) }

// String returns a text such as "so far: round 300 of 800".
func (s *Interim) String() string { return "so far: " + s.at() }

// Latest is the last measurement of a cell in training, as text.
type Latest struct {
	// At is a text such as "round 300 of 800", and Numbers one such as "accuracy % 24.0, perplexity 62.2".
	At, Numbers string
}

// String returns a text such as "so far: round 300 of 800: accuracy % 24.0, perplexity 62.2".
func (l Latest) String() string { return "so far: " + l.At + ": " + l.Numbers }

// InterimMeasurements returns the last measurement of each measured cell in training, by cell name.
func (r *Results) InterimMeasurements() (map[string]Latest, error) {
	latest := make(map[string]Latest)
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Report != nil || c.Interim == nil {
			continue
		}
		v, err := newViewCell(c)
		if err != nil {
			return nil, fmt.Errorf("results of cell %s: %w", c.Cell, err)
		}
		alone := &view{Results: r, cells: []viewCell{v}}
		var texts []string
		for _, column := range alone.columns() {
			if outcome := v.shown(column.place); outcome != nil && column.cell(outcome) != "" {
				texts = append(texts, column.Header+" "+column.text(outcome))
			}
		}
		latest[c.Cell] = Latest{c.Interim.at(), strings.Join(texts, ", ")}
	}
	return latest, nil
}

// ReportedRounds is the last round that a cell's training program reported, with the planned number.
type ReportedRounds struct {
	Round int64 `json:"round"`
	// Of is training.rounds.
	Of int `json:"of"`
}

// readReportedRounds returns the last round that the training of a cell reported. It returns nil if that is
// the last round of the experiment, or unknown.
func readReportedRounds(ctx context.Context, archive *storage.Archive, e *experiment.Experiment, planned *plan.Cell) (*ReportedRounds, error) {
	if e.Training.Algorithm != experiment.External {
		return nil, nil
	}
	commit, err := archive.Committed(ctx, planned.Model.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	var m external.Metrics
	if err == nil {
		err = json.Unmarshal(commit.Metrics, &m)
	}
	before := m.Rows > 0 && m.LastRound == 0 // the record is older than LastRound
	if err != nil || before || m.LastRound >= int64(e.Training.Rounds) {
		return nil, err
	}
	return &ReportedRounds{m.LastRound, e.Training.Rounds}, nil
}

// String returns a note for the table.
func (t *ReportedRounds) String() string {
	if t.Round == 0 {
		return fmt.Sprintf("the program reported no round in out/metrics.jsonl, but training.rounds is %d", t.Of)
	}
	return fmt.Sprintf("the last round that the program reported in out/metrics.jsonl is %d, but training.rounds is %d", t.Round, t.Of)
}
