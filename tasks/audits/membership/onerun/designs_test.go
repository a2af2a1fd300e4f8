package onerun_test

import (
	"os"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/storage"
	"coalmine/tasks/audits/membership/manyruns"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/reports"
	"coalmine/workflows/experiment"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/plan/plantest"
)

// digitsFile trains a classifier until it knows some of its images by heart.
const digitsFile = `
name: digits
data: {source: digits.jsonl.gz, level: image, share: 30%, test: {fraction: 10%}}
model: {kind: cnn}
training: {algorithm: sgd, rounds: 600, cohort: 32, client: {learning_rate: 0.1}}
canaries: {design: mislabelled}
audit:
  utility: false
  one_run: {canaries: 60, guesses: {k_plus: 20, k_minus: 20}}
`

func digits(t *testing.T, sets ...string) *onerun.Outcome {
	t.Helper()
	images := must.Get(os.ReadFile("../../../../examples/data/handwriting.jsonl.gz"))(t)
	p := plantest.Compiled(t, digitsFile, storage.DigestOf(images), sets...)
	var report reports.Report
	plantest.Decode(t, localexec.New(p, compile.Registry(), images), p.Cells[0].Report, reports.CellBlob, &report)
	v := new(onerun.Outcome)
	plantest.Outcome(t, &report, "one_run", v)
	return v
}

// Of 120 guesses each design has. If both told coins equally well, at 85%, and guesses were independent, one would
// have 15 right ones more than the other with a probability of 0.5%. The seeds are fixed.
func TestMislabelledImagesRevealMoreThanRandom(t *testing.T) {
	t.Parallel()
	right := map[string]int{}
	for _, seed := range []string{"1", "2", "3"} {
		for _, design := range []string{"mislabelled", "random"} {
			right[design] += digits(t, "seed="+seed, "canaries.design="+design).Correct
		}
	}
	if right["mislabelled"] < right["random"]+15 {
		t.Errorf("right guesses of 120: %v", right)
	}
}

// The coin of a user replaces all its images, or with Poisson cohorts decides whether the user exists.
func TestUsersCarryMislabelledImages(t *testing.T) {
	t.Parallel()
	for _, sampling := range []string{"fixed-size", "poisson"} {
		v := digits(t, "training={algorithm: fedavg, rounds: 3, cohort: 20, chunks: 1, sampling: "+sampling+"}")
		if v.Unit != "user" || len(v.Units) != 60 || len(v.Units[0].Words) != 3 || v.Units[0].Words[0] == v.Units[0].Words[2] {
			t.Errorf("%s: %+v", sampling, v)
		}
	}
}

// Vectors are sent in trainings of any model: a little noise hides few, much of it all. A right claim is refuted with a
// probability of at most 5%; the seed is fixed.
func TestVectorsAreAuditedInTrainingsOfImages(t *testing.T) {
	t.Parallel()
	sets := []string{"training={algorithm: fedavg, rounds: 3, cohort: 60, chunks: 1, sampling: poisson}", "canaries=null", "audit.one_run={canaries: 70, canaries_of: update}"}
	noise := func(z string, more ...string) *onerun.Outcome {
		return digits(t, slices.Concat(sets, more, []string{"training.privacy={clip: 0.1, noise_multiplier: " + z + ", delta: 1e-5}"})...)
	}
	if v := noise("0.05", "audit.one_run.trade_off=false"); v.Correct < (v.KPlus+v.KMinus)*8/10 || v.Score != onerun.ScoreLikelihood {
		t.Errorf("with little noise %d of %d guesses are right by %s", v.Correct, v.KPlus+v.KMinus, v.Score)
	}
	if v := noise("40"); v.EpsilonLower != 0 || v.TradeOff.Refuted {
		t.Errorf("with much noise %+v, %+v", v, v.TradeOff)
	}
}

func TestCanariesDesignIsInheritedByAudits(t *testing.T) {
	t.Parallel()
	cell := func(sets ...string) *experiment.Experiment {
		return &plantest.Resolve(t, oneRunFile, []storage.Digest{storage.DigestOf(nil)}, sets...).Cells[0].Experiment
	}
	one := func(e *experiment.Experiment) string {
		f, _ := experiment.RequestedFields[*onerun.Fields](e.Audit)
		return string(f.OneRun.Design)
	}
	sets := []string{"audit.one_run.canaries=20", "audit.many_runs={runs: 20}"}
	e := cell(append(sets, "canaries={design: rare-words}")...)
	many, _ := experiment.RequestedFields[*manyruns.Fields](e.Audit)
	if one(e) != "rare-words" || many.ManyRuns.Design != "rare-words" || e.Canaries != nil {
		t.Errorf("one_run draws %s, many_runs %s, the block %+v", one(e), many.ManyRuns.Design, e.Canaries)
	}
	if e := cell(append(sets, "canaries={design: rare-words}", "audit.one_run.design=own-word")...); one(e) != "own-word" {
		t.Errorf("own-word is overruled by %s", one(e))
	}
	block := "canaries={user_probability: 1/100, example_probability: 1"
	if e := cell(append(sets, block+", design: rare-words}")...); one(e) != "rare-words" || e.Canaries == nil || e.Canaries.Design != "" {
		t.Errorf("one_run draws %s beside the block %+v", one(e), e.Canaries)
	}
	same := func(x, y []string) bool {
		digest := func(sets []string) storage.Digest {
			return plantest.Resolve(t, oneRunFile, []storage.Digest{storage.DigestOf(nil)}, slices.Concat([]string{"audit.one_run.canaries=20"}, sets)...).Digest()
		}
		return digest(x) == digest(y)
	}
	if !same([]string{"canaries={design: rare-words}"}, []string{"audit.one_run.design=rare-words"}) {
		t.Error("the two ways to state a design differ")
	}
}
