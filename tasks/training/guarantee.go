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
	// Separation and Participations are those of the clients' parameters.
	Separation     int `json:"separation,omitempty"`
	Participations int `json:"participations,omitempty"`
	// Conversion is empty for the classic one.
	Conversion privacy.Conversion `json:"conversion,omitempty"`
	// Accountant is that of the budget, empty for privacy.RDP.
	Accountant privacy.Accountant `json:"accountant,omitempty"`
	// Budget, where there is one, ends the training: a round, of central training a
	// step, that would pass it leaves the model as it was.
	Budget *privacy.Budget `json:"budget,omitempty"`
}

// Ledger is the privacy account of a training. A nil one claims nothing.
type Ledger struct {
	guarantee *Guarantee
	meter     *privacy.Meter
}

// OpenLedger prepares the account of a recipe, which the guarantee completes; the
// costly part of it once for all tasks of a worker over the same population, whose
// key is given.
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

// Allowed returns the number of the given rounds (steps) that the budget allows.
func (l *Ledger) Allowed(rounds int) int {
	if l == nil || l.guarantee.Budget == nil {
		return rounds
	}
	return min(rounds, l.guarantee.Budget.RoundsWithin(l.meter))
}

// Charge writes into a row the cost of the rounds (steps) up to its own, by Rényi
// divergences. If the budget has ended the training, only the allowed ones count.
func (l *Ledger) Charge(row *checkpoints.Row) {
	if l == nil {
		return
	}
	epsilon, proved := l.meter.Spent(l.Allowed(int(row.Round)))
	if row.EpsilonInfinite = math.IsInf(float64(proved), 1); !row.EpsilonInfinite {
		row.Epsilon, row.EpsilonProved = float64(epsilon), float64(proved)
	}
}
