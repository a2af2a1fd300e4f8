package external

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
	"coalmine/internal/score"
	"coalmine/tasks/checkpoints"
)

// State is the part of a kept training in addition to its files.
type State struct {
	Rows []checkpoints.Row `json:"rows"`
	// Folders are the folders below checkpoint and out, as paths in the directory.
	Folders []string `json:"folders,omitempty"`
}

// metricRows holds the metrics of a command's rounds, one row per round. If there are too many
// rounds, it keeps the last of every few.
type metricRows struct {
	// rounds is the number of rounds of the job; clients bounds the clients of a round; 0 means no
	// bound.
	rounds  int64
	clients int64
	rows    map[int64]checkpoints.Row // by group of rounds
	last    int64                     // last round
	changes int
	// first is the first round that the command reported, 0 before the first.
	first int64
}

// maxRows is the largest number of rows kept.
const maxRows = 10_000

// group returns the number of a round's group, the same in each execution.
func (m *metricRows) group(round int64) int64 {
	every := max(1, (m.rounds+maxRows-1)/maxRows)
	return (round - 1) / every
}

// metricLine is a line of out/metrics.jsonl. Other numeric fields are the program's own metrics;
// other fields are ignored.
type metricLine struct {
	Round          int64   `json:"round"`
	Loss           float64 `json:"loss"`
	ValidationLoss float64 `json:"validation_loss"`
	Examples       int64   `json:"examples"`
	Tokens         int64   `json:"tokens"`
	Clients        int64   `json:"clients"`
}

// read parses whole lines.
func (m *metricRows) read(lines []byte) error {
	for line := range bytes.Lines(lines) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var l metricLine
		if err := json.Unmarshal(line, &l); err != nil {
			return MetricLines.Errorf("its %s has the line %s: %v", metricsFile, shown(line), err)
		}
		if err := m.check(&l, line); err != nil {
			return err
		}
		own, err := ownMetrics(line)
		if err != nil {
			return MetricLines.Errorf("its %s has the line %s: %v", metricsFile, shown(line), err)
		}
		row := checkpoints.Row{Round: l.Round, Loss: l.Loss, Examples: l.Examples, Tokens: l.Tokens, Clients: l.Clients, Metrics: own}
		row.ValidationLoss = l.ValidationLoss
		m.first = cmp.Or(m.first, row.Round)
		m.add(row)
	}
	return nil
}

// ownMetrics returns the numbers of a line outside the fields of a metricLine; nil for none.
func ownMetrics(line []byte) (map[string]float64, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return nil, err
	}
	var own map[string]float64
	for name, value := range fields {
		if isNumber := value[0] == '-' || value[0] >= '0' && value[0] <= '9'; !isNumber || isLineField(name) {
			continue
		}
		if own == nil {
			own = map[string]float64{}
		}
		var number float64
		if err := json.Unmarshal(value, &number); err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		own[name] = number
	}
	return own, nil
}

// isLineField reports whether a name is a field of metricLine, ignoring case as JSON decoding does.
func isLineField(name string) bool {
	return slices.ContainsFunc([]string{"round", "loss", "validation_loss", "examples", "tokens", "clients"}, func(known string) bool {
		return strings.EqualFold(known, name)
	})
}

// maxCount bounds the examples or tokens of a round, so that the sums over all rows fit an int64.
const maxCount = 1 << 48

// check returns an error for a line whose numbers the job cannot have.
func (m *metricRows) check(l *metricLine, line []byte) error {
	switch {
	case l.Round < 1 || l.Round > m.rounds:
		return MetricLines.Errorf("its %s has the line %s; expected a round from 1 to %d, which are those of the job; raise training.rounds if there are more", metricsFile, shown(line), m.rounds)
	case min(l.Examples, l.Tokens, l.Clients) < 0 || max(l.Examples, l.Tokens) > maxCount:
		return MetricLines.Errorf("its %s has the line %s; expected counts from 0 to 2^48", metricsFile, shown(line))
	case m.clients > 0 && l.Clients > m.clients:
		return MetricLines.Errorf("its %s has the line %s; expected at most %d clients, which are the users of the data and the canary clients of the job", metricsFile, shown(line), m.clients)
	case !plausible(l.Loss) || !plausible(l.ValidationLoss):
		return MetricLines.Errorf("its %s has the line %s; expected losses of at most %g", metricsFile, shown(line), score.MaxLoss)
	}
	return nil
}

// plausible reports whether a number can be a loss; losses may be negative.
func plausible(loss float64) bool { return math.Abs(loss) <= score.MaxLoss }

func shown(line []byte) string {
	const most = 200
	return childprocess.Printable(string(line), most)
}

// add adds a row, replacing one of the same round or of an earlier round of its group.
func (m *metricRows) add(row checkpoints.Row) {
	if m.rows == nil {
		m.rows = map[int64]checkpoints.Row{}
	}
	m.last = row.Round
	group := m.group(row.Round)
	if before, there := m.rows[group]; there && (before.Round > row.Round || reflect.DeepEqual(before, row)) {
		return
	}
	m.rows[group] = row
	m.changes++
}

// list returns the rows in the order of rounds.
func (m *metricRows) list() []checkpoints.Row {
	list := slices.AppendSeq(make([]checkpoints.Row, 0, len(m.rows)), maps.Values(m.rows))
	slices.SortFunc(list, func(a, b checkpoints.Row) int { return int(a.Round - b.Round) })
	return list
}

// newestMetrics is the largest number of a program's own metrics in a status. They are the first in order of name.
const newestMetrics = 8

// newest returns the losses and the program's own metrics of the last round, by name; nil before the first round.
func (m *metricRows) newest() map[string]float64 {
	row, there := m.rows[m.group(m.last)]
	if !there {
		return nil
	}
	newest := map[string]float64{}
	if row.Loss != 0 {
		newest["loss"] = row.Loss
	}
	if row.ValidationLoss != 0 {
		newest["validation_loss"] = row.ValidationLoss
	}
	names := slices.Sorted(maps.Keys(row.Metrics))
	for _, name := range names[:min(newestMetrics, len(names))] {
		newest["metrics."+name] = row.Metrics[name]
	}
	return newest
}

func (m *metricRows) tokens() (n int64) {
	for _, row := range m.rows {
		n += row.Tokens
	}
	return n
}

// restore adds kept rows, and returns them as lines for the command.
func (m *metricRows) restore(rows []checkpoints.Row) []byte {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, row := range rows {
		m.add(row)
		line := map[string]any{
			"round": row.Round, "loss": row.Loss, "validation_loss": row.ValidationLoss, "examples": row.Examples, "tokens": row.Tokens, "clients": row.Clients,
		}
		for name, value := range row.Metrics {
			line[name] = value
		}
		_ = encoder.Encode(line) // cannot fail: finite numbers, to memory
	}
	return lines.Bytes()
}
