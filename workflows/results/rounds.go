package results

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/checkpoints"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/training"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/runs"
)

// Rounds holds the metrics of all completed rounds of a run's trainings.
type Rounds struct {
	Run        string       `json:"run"`
	Experiment string       `json:"experiment"`
	Cells      []CellRounds `json:"cells"`
}

// CellRounds holds the rounds of a cell's training, ascending. In central training they are its tasks.
type CellRounds struct {
	Cell   string          `json:"cell"`
	Label  string          `json:"label"`
	Axes   experiment.Axes `json:"axes"`
	Rounds []Round         `json:"rounds"`
	// Withheld lists the columns that the rounds of a training with a secret key lack.
	Withheld []string `json:"withheld,omitempty"`
}

// Round is one round: its metric row and, if known, the quantiles of the clients' norms after clipping.
// Norms are exact, and outside of any guarantee.
type Round struct {
	checkpoints.Row
	ClippedNorms
	checkpoints.Validation
	Rates

	withheld  bool // values that would reveal a secret cohort are missing
	byProgram bool // trained by an external program, which measures no norms
}

// Rates holds numbers outside of metric rows. The learning rates follow from the recipe; the speed follows
// from the times in commits, which do not affect results.
type Rates struct {
	// LearningRate is the rate of the round's clients, or of the last step of central training. It is 0 if
	// the round changed nothing, or if an external program sets the rate.
	LearningRate       float64 `json:"learning_rate,omitempty" parquet:"learning_rate,optional" doc:"learning rate of the clients, of central training that of the last step"`
	ServerLearningRate float64 `json:"server_learning_rate,omitempty" parquet:"server_learning_rate,optional" doc:"learning rate of the server"`
	// TokensPerSecond is the speed from the start of the round's first task to the end of its last, or 0 if unknown.
	// For rounds whose commits lack times, it is the mean between rounds with known times, including pauses.
	TokensPerSecond float64 `json:"tokens_per_second,omitempty" parquet:"tokens_per_second,optional" doc:"tokens trained in a second, from the start of the first task of the round to the end of the last"`
}

// ClippedNorms are checkpoints.Norms after clipping.
type ClippedNorms struct {
	Min           float64 `json:"clipped_norm_min,omitempty" parquet:"clipped_norm_min,optional" doc:"least of the clients' update norms after clipping"`
	Tenth         float64 `json:"clipped_norm_p10,omitempty" parquet:"clipped_norm_p10,optional" doc:"10th percentile of the clients' update norms after clipping"`
	Quarter       float64 `json:"clipped_norm_p25,omitempty" parquet:"clipped_norm_p25,optional" doc:"25th percentile of the clients' update norms after clipping"`
	Median        float64 `json:"clipped_norm_median,omitempty" parquet:"clipped_norm_median,optional" doc:"median of the clients' update norms after clipping"`
	ThreeQuarters float64 `json:"clipped_norm_p75,omitempty" parquet:"clipped_norm_p75,optional" doc:"75th percentile of the clients' update norms after clipping"`
	NineTenths    float64 `json:"clipped_norm_p90,omitempty" parquet:"clipped_norm_p90,optional" doc:"90th percentile of the clients' update norms after clipping"`
	Largest       float64 `json:"clipped_norm_max,omitempty" parquet:"clipped_norm_max,optional" doc:"largest of the clients' update norms after clipping"`
}

// roundsOf returns the rounds of a cell's training from their rows.
func roundsOf(e *experiment.Experiment, rows []checkpoints.Row) []Round {
	rates, rounds := compile.LearningRates(e), []Round{}
	for _, row := range rows {
		if within(&e.Training, row) { // the chain may continue for another cell
			rounds = append(rounds, roundOf(e, row, rates))
		}
	}
	return rounds
}

func roundOf(e *experiment.Experiment, row checkpoints.Row, rates func(round int) (client, server float64)) Round {
	row = published(e, row)
	r := Round{Row: row, Validation: row.Validation, withheld: e.Training.Privacy.Secret(), byProgram: e.Training.Algorithm == experiment.External}
	if row.Clip > 0 {
		r.ClippedNorms = ClippedNorms(row.Norms.Clipped(row.Clip))
	}
	if !row.Stopped {
		r.LearningRate, r.ServerLearningRate = rates(int(row.Round))
	}
	return r
}

// LoadRounds reads the rounds of all cells of a run.
func LoadRounds(ctx context.Context, archive *storage.Archive, run *runs.Run) (*Rounds, error) {
	planned, err := runs.ReadPlanned(ctx, archive, run)
	if err == nil {
		err = planned.Readable("the table of its rounds")
	}
	if err != nil {
		return nil, err
	}
	spec, p := planned.Spec, planned.Plan
	out := &Rounds{Run: run.ID, Experiment: spec.Name}
	for i := range p.Cells {
		c := &spec.Cells[i]
		if err := planned.CheckReports(ctx, archive, &p.Cells[i]); err != nil {
			return nil, err
		}
		rounds, _, err := loadRounds(ctx, archive, c, &p.Cells[i], 0)
		if err != nil {
			return nil, fmt.Errorf("run %s, cell %s: %w", run.ID, c.Name, err)
		}
		out.Cells = append(out.Cells, CellRounds{Cell: c.Name, Label: c.Label, Axes: c.Axes, Rounds: rounds, Withheld: withheldFrom(&c.Experiment)})
	}
	return out, nil
}

// loadRounds reads the rounds of a cell, from at most the given number of segments (0 means all), and the
// completion times of some rounds.
func loadRounds(ctx context.Context, archive *storage.Archive, spec *experiment.Cell, cell *plan.Cell, segments int) ([]Round, []Tick, error) {
	rows, err := trainingRows(ctx, archive, cell, segments)
	if err != nil {
		return nil, nil, err
	}
	clock, err := readClock(ctx, archive, cell)
	if err != nil {
		return nil, nil, err
	}
	rounds := roundsOf(&spec.Experiment, rows)
	addSpeeds(rounds, clock, cell)
	return rounds, clock, nil
}

// within reports whether a row belongs to a cell's training. An external training is never shared, and may
// number its rounds differently.
func within(t *experiment.Training, row checkpoints.Row) bool {
	return t.Algorithm == experiment.External || row.Round <= int64(t.Rounds)
}

// trainingRows reads the rows of the cell's chain, and of the tail after it, from at most the given number
// of segments; 0 means all.
func trainingRows(ctx context.Context, archive *storage.Archive, cell *plan.Cell, segments int) (rows []checkpoints.Row, err error) {
	if cell.Chain != nil {
		if rows, err = plan.Rows(ctx, archive, cell.Chain, segments); err != nil {
			return nil, err
		}
	}
	if cell.Tail.Rounds == 0 {
		return rows, nil
	}
	tail, err := plan.TailRows(ctx, archive, cell.Tail.Node.Key)
	return append(rows, tail...), err
}

// Write writes the rounds as a JSON document, or with one row per round as CSV or Parquet.
func (r *Rounds) Write(w io.Writer, format string) error {
	f, err := formatWith(format, RoundRows)
	if err != nil {
		return err
	}
	if f.Name == jsonName {
		return encodeJSON(w, r)
	}
	return f.flat(r.table(), w)
}

// WriteScreen writes the table for a terminal.
func (r *Rounds) WriteScreen(w io.Writer, s *Terminal) error { return s.writeListed(r.table(), w) }

// table returns one row per round, cell by cell.
func (r *Rounds) table() *flatTable {
	t := newFlatTable("roundRow", parts[RoundRows])
	t.mayLackThoseOf(r.Cells)
	var metrics []map[string]float64
	for _, c := range r.Cells {
		for _, round := range c.Rounds {
			metrics = append(metrics, round.Metrics)
			t.add([]any{ofCell{r.Run, r.Experiment, c.Cell, c.Label}, round})
			t.lackThoseOf(&round)
		}
	}
	t.withMetrics(metrics)
	return t
}

// readBatches returns the effect of short batches on the learning rate of a cell's clients. It returns nil
// if there is none, or if storage no longer has the population.
func readBatches(ctx context.Context, archive *storage.Archive, e *experiment.Experiment, planned *plan.Cell) (*training.Batches, error) {
	if !e.TrainsClients() || planned.Chain == nil {
		return nil, nil
	}
	inputs := planned.Chain.Part.Inputs
	at := slices.IndexFunc(inputs, func(in tasks.Input) bool { return in.Name == training.PopulationInput })
	if at < 0 {
		return nil, nil
	}
	data, err := readOutput(ctx, archive, inputs[at].Key, population.MembersIndexBlob)
	if err != nil || data == nil {
		return nil, err
	}
	index, err := population.DecodeIndex(data)
	if err != nil {
		return nil, fmt.Errorf("population %s: %w", inputs[at].Key.Short(), err)
	}
	return e.Batches(index.Sizes()), nil
}

// withheld lists the columns of a round's metric row that results of a training with a secret key omit.
// Each is an exact function of the participants' data, so a reader with the data could infer the cohort
// from it, but the guarantee assumes that the cohort is unknown. The other columns follow from the file,
// the validation part or the noised model. The stored rows have all columns.
var withheld = []string{
	"clients", "examples", "tokens", "loss", "client_norm", "clipped",
	"client_norm_min", "client_norm_p10", "client_norm_p25", "client_norm_median", "client_norm_p75", "client_norm_p90", "client_norm_max",
}

// withheldFrom returns the columns that the rounds of an experiment lack.
func withheldFrom(e *experiment.Experiment) []string {
	if e.Training.Privacy.Secret() {
		return withheld
	}
	return nil
}

// published returns the metric row of a round without its withheld columns.
func published(e *experiment.Experiment, row checkpoints.Row) checkpoints.Row {
	if e.Training.Privacy.Secret() {
		row.Clients, row.Examples, row.Tokens, row.Loss, row.ClientNorm, row.Clipped = 0, 0, 0, 0, 0, 0
		row.Norms, row.Metrics = checkpoints.Norms{}, nil
	}
	return row
}

// plainRound is a Round without its methods for JSON.
type plainRound Round

// unmeasured lists the columns that external programs do not report.
var unmeasured = []string{"update_norm", "client_norm", "clipped", "noise_deviation"}

func (r *Round) lacks() (columns []string) {
	if r.withheld {
		columns = append(columns, withheld...)
	}
	if r.Loss == 0 { // 0 would mean a perfect model
		columns = append(columns, "loss")
	}
	if r.Clients == 0 && (r.byProgram || r.Examples > 0) { // central training has no clients
		columns = append(columns, "clients", "client_norm")
	}
	if !r.byProgram {
		return columns
	}
	for name, count := range map[string]int64{"examples": r.Examples, "tokens": r.Tokens} {
		if count == 0 {
			columns = append(columns, name)
		}
	}
	return append(columns, unmeasured...)
}

// MarshalJSON implements json.Marshaler. It omits the columns that the round lacks.
func (r Round) MarshalJSON() ([]byte, error) {
	lacks := r.lacks()
	if len(lacks) == 0 {
		return json.Marshal(plainRound(r))
	}
	has := func(column string) bool { return !slices.Contains(lacks, column) }
	return json.Marshal(struct {
		plainRound
		Examples   *int64   `json:"examples,omitempty"`
		Tokens     *int64   `json:"tokens,omitempty"`
		Loss       *float64 `json:"loss,omitempty"`
		UpdateNorm *float64 `json:"update_norm,omitempty"`
	}{plainRound(r), audits.When(has("examples"), r.Examples), audits.When(has("tokens"), r.Tokens), audits.When(has("loss"), r.Loss), audits.When(has("update_norm"), r.UpdateNorm)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Round) UnmarshalJSON(data []byte) error {
	var found struct {
		Examples   json.RawMessage `json:"examples"`
		UpdateNorm json.RawMessage `json:"update_norm"`
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return err
	}
	r.byProgram = found.UpdateNorm == nil
	r.withheld = found.Examples == nil && !r.byProgram
	return json.Unmarshal(data, (*plainRound)(r))
}

// mayLackThoseOf allows nulls in the columns that some round of some cell lacks.
func (t *flatTable) mayLackThoseOf(cells []CellRounds) {
	for _, c := range cells {
		for i := range c.Rounds {
			t.mayLack(c.Rounds[i].lacks())
		}
	}
}

// lackThoseOf sets the columns that a round lacks to null in the last row.
func (t *flatTable) lackThoseOf(r *Round) { t.lack(r.lacks()) }
