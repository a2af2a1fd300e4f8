package oneshot_test

import (
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/privacy"
	"coalmine/privacy/pld"
	"coalmine/storage"
	"coalmine/tasks/audits/membership/oneshot"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/plantest"
)

// oneShotFile is a training of 74 users, who hardly change the model, and 300 canary clients.
const oneShotFile = `
name: one-shot
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 32, units: 32}
training:
  rounds: 1
  cohort: 374
  chunks: 2
  client: {learning_rate: 1e-6}
  privacy: {clip: 0.5, noise_multiplier: 1, delta: 1e-3}
audit:
  utility: false
  one_shot: {canaries: 300}
`

func oneShot(t *testing.T, sets ...string) (*oneshot.Outcome, *reports.Report) {
	t.Helper()
	r := plantest.CellReport(t, oneShotFile, sets...)
	v := new(oneshot.Outcome)
	plantest.Outcome(t, &r, "one_shot", v)
	return v, &r
}

// Where everybody takes part in the only round the training is a Gaussian mechanism, whose
// epsilon is known. The seed is fixed; another would leave four standard errors, and the
// share that canaries hide of each other, with a probability of 1e-4.
func TestOneRoundOfAllIsTheGaussianMechanism(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set    string
		server bool // takes the mean as it is, so that the model changes by it
	}{
		{"training.privacy.noise_multiplier=1", true}, {"training.privacy.noise_multiplier=4", true}, {"training.sampling=poisson", true},
		{"training.server={optimizer: adam, learning_rate: 0.01}", false},
	} {
		v, r := oneShot(t, c.set)
		exact := pld.GaussianEpsilon(r.Training.NoiseMultiplier, 1e-3)
		off := math.Abs(v.AllIterates.Epsilon-exact) - 4*v.AllIterates.StandardError
		if c.server {
			off = max(off, math.Abs(v.Final.Epsilon-exact)-4*v.Final.StandardError)
		}
		if hidden := exact * 300 / float64(v.Dimension); off > hidden {
			t.Errorf("%s: estimates %+v and %+v of epsilon %v", c.set, v.Final, v.AllIterates, exact)
		}
	}
}

// The seed is fixed; another would leave four standard errors with a probability of 1e-4.
func TestFaultsOfClippingShow(t *testing.T) {
	t.Parallel()
	right, _ := oneShot(t)
	for _, control := range []string{"double-sensitivity", "clip-per-batch"} {
		v, _ := oneShot(t, "audit.control="+control)
		if gap := v.Final.Epsilon - right.Final.Epsilon; gap < 4*math.Hypot(v.Final.StandardError, right.Final.StandardError) {
			t.Errorf("%s: %+v, and without the fault %+v", control, v.Final, right.Final)
		}
	}
}

// In one round, and with a server that takes the mean as it is, the two statistics are one.
func TestStatisticsOfOneRoundAreEqual(t *testing.T) {
	t.Parallel()
	v, _ := oneShot(t)
	if len(v.Clients) != 600 || v.Canaries != 300 || v.Unseen != 300 || v.Neighbouring != privacy.AddOrRemoveOne || v.Unit != "balanced user" {
		t.Errorf("outcome %d %d %d %s %s", len(v.Clients), v.Canaries, v.Unseen, v.Neighbouring, v.Unit)
	}
	for i, c := range v.Clients[:300] {
		if math.Abs(*c.FinalCosine-*c.LargestCosine) > 1e-5 {
			t.Fatalf("canary %d has the cosines %v and %v", i, *c.FinalCosine, *c.LargestCosine)
		}
	}
}

// Canaries are users of the population that is accounted for.
func TestCanaryClientsAreAccountedFor(t *testing.T) {
	t.Parallel()
	_, r := oneShot(t, "training.cohort=40")
	if r.Privacy.Population != 374 || r.Training.Users != 374 {
		t.Errorf("epsilon of %d users, want 74 and 300 canaries", r.Privacy.Population)
	}
}

// Missing noise shows: the estimate is far above that of the noise which was claimed.
func TestMissingNoiseGivesLargeEstimate(t *testing.T) {
	t.Parallel()
	noisy, _ := oneShot(t, "training.cohort=60", "training.rounds=6", "training.sampling=poisson", "training.privacy.noise_multiplier=3")
	bare, _ := oneShot(t, "training.cohort=60", "training.rounds=6", "training.sampling=poisson", "training.privacy.noise_multiplier=0", "audit.one_shot.delta=1e-3")
	if !(bare.Final.Epsilon > 5*noisy.Final.Epsilon+5 && bare.AllIterates.Epsilon > 5*noisy.AllIterates.Epsilon+5) {
		t.Errorf("without noise %v and %v, with noise %v and %v", bare.Final, bare.AllIterates, noisy.Final, noisy.AllIterates)
	}
}

func TestEveryTrainingOfClientsIsEstimated(t *testing.T) {
	t.Parallel()
	for _, sets := range []string{
		"training.privacy=null audit.one_shot.norm=0.5",
		"training.privacy.adaptive={quantile:0.5}",
		"training.privacy.mechanism={kind:tree} training.sampling=separated training.separation=3",
		"training.privacy.randomness=secret",
		"training.client.compress={keep:0.5,bits:8}",
		"data.partition=iid",
		"audit.one_shot.statistic=all-iterates",
		"audit.one_shot.statistic=final",
		"training.privacy.budget={epsilon:30,delta:1e-3}",
	} {
		v, _ := oneShot(t, append([]string{"training.rounds=3", "training.cohort=40", "audit.one_shot.canaries=60"}, strings.Fields(sets)...)...)
		final, all := !strings.Contains(sets, "=all-iterates"), !strings.Contains(sets, "=final")
		if (v.Final != nil) != final || (v.AllIterates != nil) != all {
			t.Errorf("%s: %+v and %+v", sets, v.Final, v.AllIterates)
		}
		if zeroed := strings.Contains(sets, "separated"); zeroed != (v.Neighbouring == privacy.ZeroOutOne) {
			t.Errorf("%s: neighbouring is %s", sets, v.Neighbouring)
		}
	}
}

func TestRecipeDependsOnWatchedCanariesOnly(t *testing.T) {
	t.Parallel()
	digest := storage.DigestOf(nil)
	recipe := func(p *plan.Plan) storage.Key { return p.Cells[0].Chain.Recipe }
	base := recipe(plantest.Compiled(t, oneShotFile, digest))
	for set, same := range map[string]bool{
		"audit.utility=true":                    true,
		"audit.one_shot.canaries=299":           false,
		"audit.one_shot.unseen=299":             false,
		"audit.one_shot.statistic=final":        false,
		"audit={one_shot: null, utility: true}": false,
	} {
		if got := recipe(plantest.Compiled(t, oneShotFile, digest, set, "training.cohort=70")); same != (got == recipe(plantest.Compiled(t, oneShotFile, digest, "training.cohort=70"))) || got == base {
			t.Errorf("--set %s: the training is the same: %v, want %v", set, !same, same)
		}
	}
}

// Both designs stand side by side.
func TestOneShotRunsAlongsideOneRun(t *testing.T) {
	t.Parallel()
	r := plantest.CellReport(t, oneShotFile, "training.cohort=40", "audit.one_run={canaries: 40}", "audit.one_shot.canaries=50")
	if r.Training.Users != 124 {
		t.Errorf("%d users, want 74 and 50", r.Training.Users)
	}
	for _, audit := range []string{"one_run", "one_shot"} {
		if _, ok := r.Outcome(audit); !ok {
			t.Errorf("no verdict of %s", audit)
		}
	}
}

func TestManyCanaryClientsGiveAWarning(t *testing.T) {
	t.Parallel()
	const file = "name: x\ndata: {source: a.jsonl}\ntraining: {cohort: 50, rounds: 100, privacy: {clip: 1}}\naudit: {one_shot: {canaries: 100}}\n"
	for canaries, want := range map[string]int{"3900": 0, "4000": 1} {
		spec := must.Get(experiment.Parse("x.yaml", []byte(file), experiment.Options{Sets: []string{"audit.one_shot.canaries=" + canaries}}))(t)
		facts := experiment.Facts{Files: []storage.Digest{storage.DigestOf([]byte("text"))}, Users: 392_000, Examples: 93_000_000, DistinctWords: 500_000, TestExamples: 16_000_000}
		must.Do(t, spec.Resolve([]experiment.Facts{facts}))
		if got := spec.Cells[0].Warnings(); len(got) != want {
			t.Errorf("%s canaries: got %q, want %d warnings", canaries, got, want)
		}
	}
}
