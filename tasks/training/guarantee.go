package training

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/checkpoints"
)

// Guarantee adds the privacy cost so far to every metric row of a training.
type Guarantee struct {
	Sampling privacy.Sampling `json:"sampling"`
	Delta    float64          `json:"delta"`
	// Separation and Participations are as in the clients' parameters.
	Separation     int `json:"separation,omitempty"`
	Participations int `json:"participations,omitempty"`
	// Conversion is empty for privacy.Classic.
	Conversion privacy.Conversion `json:"conversion,omitempty"`
	// Accountant is the accountant of the budget, empty for privacy.RDP.
	Accountant privacy.Accountant `json:"accountant,omitempty"`
	// Budget, if set, ends the training: a round (a step of central training) beyond the budget
	// leaves the model unchanged.
	Budget *privacy.Budget `json:"budget,omitempty"`
}

// Ledger is the privacy account of a training. A nil Ledger claims nothing.
type Ledger struct {
	guarantee *Guarantee
	meter     *privacy.Meter
}

// OpenLedger prepares the account of a recipe completed by the guarantee. The costly part is
// computed once for all tasks of a worker with the same population key.
func OpenLedger(t *tasks.Task, population storage.Key, g *Guarantee, recipe privacy.Recipe) (*Ledger, error) {
	recipe.Sampling, recipe.Delta, recipe.Conversion = g.Sampling, g.Delta, g.Conversion
	recipe.Separation, recipe.Participations = g.Separation, g.Participations
	recipe.Accountant = cmp.Or(g.Accountant, privacy.RDP)
	name, err := json.Marshal(recipe)
	if err != nil {
		return nil, tasks.Permanent(err)
	}
	meter, err := tasks.Memoize(t, population, "meter "+string(name), func() (*privacy.Meter, int64, error) {
		m, err := privacy.NewMeter(recipe)
		return m, meterBytes, tasks.Permanent(err)
	})
	if err != nil {
		return nil, fmt.Errorf("privacy account: %w", err)
	}
	return &Ledger{g, meter}, nil
}

// meterBytes is about the size of a meter: two curves of a few hundred orders.
const meterBytes = 16 << 10

// Allowed returns how many of the rounds (steps) the budget allows.
func (l *Ledger) Allowed(rounds int) int {
	if l == nil || l.guarantee.Budget == nil {
		return rounds
	}
	return min(rounds, l.guarantee.Budget.RoundsWithin(l.meter))
}

// Charge sets the cost in a row: of the rounds (steps) up to the row's, by Rényi divergences. If
// the budget has ended the training, only allowed rounds count.
func (l *Ledger) Charge(row *checkpoints.Row) {
	if l == nil {
		return
	}
	epsilon, proved := l.meter.Spent(l.Allowed(int(row.Round)))
	if row.EpsilonInfinite = math.IsInf(float64(proved), 1); !row.EpsilonInfinite {
		row.Epsilon, row.EpsilonProved = float64(epsilon), float64(proved)
	}
}
