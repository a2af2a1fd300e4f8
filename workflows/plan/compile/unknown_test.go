package compile_test

import (
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/plantest"
)

// A record of a run is read without the checks of a file.
func TestUnknownKindsInRecordAreRejected(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*experiment.Experiment){
		`algorithm "gossip": expected one of fedavg, sgd`: func(e *experiment.Experiment) { e.Training.Algorithm = "gossip" },
		`partition "by-day": expected one of by-user`:     func(e *experiment.Experiment) { e.Data.Partition = "by-day" },
	} {
		spec := plantest.Resolve(t, small, []storage.Digest{storage.DigestOf(plantest.Text())})
		change(&spec.Cells[0].Experiment)
		_, err := compile.Plan(spec)
		must.Say(t, err, want)
	}
}
