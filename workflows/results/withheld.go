package results

import (
	"encoding/json"
	"slices"

	"coalmine/tasks/checkpoints"
	"coalmine/workflows/experiment"
)

// withheld are the columns of a round's metric row that the results of a training with a secret key leave
// out. Each is an exact function of the participants' data, so that a reader with the data could infer the
// cohort from it; the guarantee assumes that the cohort is unknown. The other columns follow from the
// file, the validation part or the noised model. The stored rows have all columns.
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

// untold are the columns of a round that a program need not tell. A round that was not trained has none either.
var untold = []string{"loss"}

// isUntold reports whether a round has no loss.
func (r *Round) isUntold() bool { return r.Loss == 0 }

// MarshalJSON implements json.Marshaler. It leaves out the withheld columns, and a loss that is not known.
func (r Round) MarshalJSON() ([]byte, error) {
	switch {
	case r.withheld:
		return json.Marshal(struct {
			plainRound
			Examples *int64   `json:"examples,omitempty"`
			Tokens   *int64   `json:"tokens,omitempty"`
			Loss     *float64 `json:"loss,omitempty"`
		}{plainRound: plainRound(r)})
	case r.isUntold():
		return json.Marshal(struct {
			plainRound
			Loss *float64 `json:"loss,omitempty"`
		}{plainRound: plainRound(r)})
	}
	return json.Marshal(plainRound(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Round) UnmarshalJSON(data []byte) error {
	var found struct {
		Examples json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return err
	}
	r.withheld = found.Examples == nil
	return json.Unmarshal(data, (*plainRound)(r))
}

// lacks are the columns that a round lacks.
func (r *Round) lacks() (columns []string) {
	if r.withheld {
		columns = withheld
	}
	if r.isUntold() {
		columns = append(slices.Clip(columns), untold...)
	}
	return columns
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
