package deanonymization

import (
	"testing"

	"coalmine/models/attacks"
	"coalmine/tasks/audits"
	"coalmine/tasks/updates"
)

// An attack that learns from two updates of each of ten users takes a fiftieth of one that learns from
// half of 2,000, as far as the users are known.
func TestAnAttackOnFewUpdatesOfEachUserCostsLess(t *testing.T) {
	t.Parallel()
	s := &audits.Setting{Training: audits.Training{Rounds: 100, Cohort: 20}, Recorded: &audits.Recorded{
		Recording: updates.Recording{Every: 1}, Layout: updates.Layout{Layers: []updates.Layer{{Values: 30}}},
	}}
	work := func(examples int) float64 { return AttacksWork(s, []attacks.Kind{attacks.MLP}, 5, 32, examples) }
	if all := work(0); all <= 0 || work(2) != all {
		t.Errorf("%g for all updates, and %g for two of each of users that nobody has counted", all, work(2))
	}
	s.Data = &audits.Data{Seen: 10}
	if few, all := work(2), work(0); few != all/50 || work(1000) != all {
		t.Errorf("%g for two updates of each of 10 users and %g for a thousand, %g for all", few, work(1000), all)
	}
}
