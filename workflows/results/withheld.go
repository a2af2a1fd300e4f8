package results

import (
	"encoding/json"
	"slices"

	"coalmine/tasks/checkpoints"
	"coalmine/workflows/experiment"
)

// withheld are the columns of a round's metric row that results of a training with a secret key omit. Each
// is an exact function of the participants' data, so that a reader with the data could infer the cohort
// from it; the guarantee assumes that the cohort is unknown. The other columns follow from the file, the
// validation part or the noised model. The stored rows have all columns.
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

// unmeasured are the columns that external programs do not report.
var unmeasured = []string{"update_norm", "client_norm", "clipped", "noise_deviation"}

// lacks returns the columns that a round lacks.
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

// MarshalJSON implements json.Marshaler. It leaves out the columns that the round lacks.
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
	}{plainRound(r), pointer(r.Examples, has("examples")), pointer(r.Tokens, has("tokens")), pointer(r.Loss, has("loss")), pointer(r.UpdateNorm, has("update_norm"))})
}

// pointer returns a pointer to a value, nil if it is unknown.
func pointer[T any](value T, is bool) *T {
	if !is {
		return nil
	}
	return &value
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

// mayLackThoseOf allows nulls in the columns that some round of some cells lacks.
func (t *flatTable) mayLackThoseOf(cells []CellRounds) {
	for _, c := range cells {
		for i := range c.Rounds {
			t.mayLack(c.Rounds[i].lacks())
		}
	}
}

// lackThoseOf sets the columns that a round lacks to null in the last row.
func (t *flatTable) lackThoseOf(r *Round) { t.lack(r.lacks()) }
