package compile_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/privacy"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/aggregation"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/models/utility"
	"coalmine/tasks/reports"
	"coalmine/workflows/plan"
	"coalmine/workflows/plan/compile"
	"coalmine/workflows/plan/localexec"
	"coalmine/workflows/plan/plantest"
)

const small = `
name: small
data:
  source: none.jsonl
  vocabulary: {size: 60}
  users: {words: 300}
canaries: {words: 4, per_configuration: 2, user_probability: [1/5], example_probability: [10%, 100%], held_back: 2}
model: {embedding: 6, units: 8}
training:
  algorithm: fedavg
  rounds: 4
  cohort: 6
  chunks: 2
  client: {learning_rate: 0.5}
audit:
  every: 50%
  random_sampling: {references: 500}
  beam_search: {width: 3}
grid:
  axes:
    data.partition: [iid, by-user]
    training:
      - {algorithm: sgd, rounds: 7, cohort: 16, steps_per_task: 3, chunks: null, client: {learning_rate: 0.1}}
      - {algorithm: fedavg}
      - {privacy: {clip: 0.3, noise_multiplier: 0.5, delta: 1e-5}}
`

// compiled is the plan of an experiment.
func compiled(t *testing.T, text string, digest storage.Digest, sets ...string) *plan.Plan {
	t.Helper()
	return plantest.Compiled(t, text, digest, sets...)
}

func TestGridRunsToItsReports(t *testing.T) {
	t.Parallel()
	p := compiled(t, small, storage.DigestOf(plantest.Text()))
	e := localexec.New(p, compile.Registry(), plantest.Text())
	for _, c := range p.Cells {
		for _, target := range []plan.Ref{c.Report, c.Model} {
			must.Do(t, e.Reach(t.Context(), target))
		}
		data := must.Get(e.Blob(t.Context(), c.Report.Key, reports.CellBlob))(t)
		var report reports.Report
		must.Do(t, json.Unmarshal(data, &report))
		var useful utility.Outcome
		plantest.Outcome(t, &report, "utility", &useful)
		if !(useful.Perplexity > 1 && useful.Perplexity < 64) {
			t.Errorf("%s: utility %+v, want a perplexity above 1 and not above the vocabulary's size", c.Label, useful)
		}
		roles := map[audits.Role]int{}
		for _, canary := range report.Audit.Canaries() {
			roles[canary.Role]++
		}
		if roles[audits.Inserted]+roles[audits.NeverInserted] != 4 || roles[audits.HeldBack] != 2 {
			t.Errorf("%s: %v, want 4 canaries and 2 controls", c.Label, roles)
		}
		if strings.Contains(c.Label, "DP") == (report.Privacy == nil) {
			t.Errorf("%s: privacy %+v", c.Label, report.Privacy)
		}
	}
}

// onePrivate is one cell of DP-FedAvg, to which tests add fields.
const onePrivate = `
name: private
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training:
  rounds: 4
  cohort: 6
  chunks: 2
  privacy: {clip: 0.3, noise_multiplier: 2, delta: 1e-5}
audit: {every: 1}
`

// outcome runs the only cell of an experiment to its report.
func outcome(t *testing.T, text string, sets ...string) reports.Report {
	t.Helper()
	return plantest.CellReport(t, text, sets...)
}

func TestPoissonCohortsUsePoissonAccounting(t *testing.T) {
	t.Parallel()
	r := outcome(t, onePrivate, "training.sampling=poisson").Privacy
	if r.Sampling != privacy.Poisson || r.Neighbouring != privacy.AddOrRemoveOne || r.Epsilon != r.EpsilonRenyi || r.AccountantProved != privacy.PLD {
		t.Errorf("report %+v, want Poisson sampling, where both epsilons by Rényi agree", r)
	}
	if want, err := privacy.Account(privacy.Recipe{
		Population: r.Population, Cohort: 6, Rounds: 4, NoiseMultiplier: 2, Delta: 1e-5, Sampling: privacy.Poisson,
	}); err != nil || want.Epsilon != r.Epsilon || want.EpsilonProved != r.EpsilonProved {
		t.Errorf("epsilon %v, the accountant says %v (%v)", r.Epsilon, want.Epsilon, err)
	}
}

func TestBudgetEndsTraining(t *testing.T) {
	t.Parallel()
	free := outcome(t, onePrivate)
	limit := float64(free.Curve[1].Privacy.EpsilonProved) * 1.001 // the cost of two rounds
	set := fmt.Sprintf("training.privacy.budget={epsilon: %g}", limit)
	r := outcome(t, onePrivate, set)
	if r.Training.Rounds != 2 || r.Privacy.Rounds != 2 || !r.Budget.Stopped || r.Budget.RoundsAllowed != 2 {
		t.Errorf("%d rounds ran, budget %+v; want 2 of 4", r.Training.Rounds, r.Budget)
	}
	if float64(r.Privacy.EpsilonProved) > limit {
		t.Errorf("epsilon_proved %v is above the budget of %v", r.Privacy.EpsilonProved, limit)
	}
	if p := compiled(t, onePrivate, storage.DigestOf(nil), set); p.Cells[0].Chain.Steps != 2 {
		t.Errorf("%d rounds are planned, want the 2 that the budget allows", p.Cells[0].Chain.Steps)
	}
}

// The conversion that a file asks for is that of its results, and of the budget:
// the cost of two rounds by the classic one allows more.
func TestConversionOfFileIsUsed(t *testing.T) {
	t.Parallel()
	const improved, renyi = "training.privacy.conversion=improved", "training.privacy.accountant=rdp"
	classic, r := outcome(t, onePrivate, renyi), outcome(t, onePrivate, improved, renyi)
	want, err := privacy.Account(privacy.Recipe{
		Population: r.Privacy.Population, Cohort: 6, Rounds: 4, NoiseMultiplier: 2, Delta: 1e-5, Conversion: privacy.Improved, Accountant: privacy.RDP,
	})
	if err != nil || r.Privacy.Conversion != privacy.Improved || r.Privacy.EpsilonProved != want.EpsilonProved {
		t.Errorf("report %+v, the accountant says %v (%v)", r.Privacy, want.EpsilonProved, err)
	}
	limit := float64(classic.Curve[1].Privacy.EpsilonProved)
	budget := fmt.Sprintf("training.privacy.budget={epsilon: %g}", limit)
	if r := outcome(t, onePrivate, improved, renyi, budget); r.Training.Rounds <= 2 || float64(r.Privacy.EpsilonProved) > limit || r.Budget.RoundsAllowed != r.Training.Rounds {
		t.Errorf("%d rounds ran, epsilon_proved %v, budget %+v; want more than 2 within %v", r.Training.Rounds, r.Privacy.EpsilonProved, r.Budget, limit)
	}
}

// The accounting of a budget is part of the rounds' keys; without a budget it is not.
func TestAccountantReachesKeysOnlyWithBudget(t *testing.T) {
	t.Parallel()
	key := func(sets ...string) storage.Key {
		chain := compiled(t, onePrivate, storage.DigestOf(nil), sets...).Cells[0].Chain
		return chain.Key(chain.Steps)
	}
	const tightest, renyi, budget = "training.privacy.accountant=tightest", "training.privacy.accountant=rdp", "training.privacy.budget={epsilon: 50}"
	if key(tightest) != key() || key(renyi) != key() {
		t.Error("without a budget the accountant makes other rounds")
	}
	if key(tightest, budget) != key(budget) || key(renyi, budget) == key(budget) {
		t.Error("with a budget, tightest is the default, and rdp other rounds")
	}
}

func TestClassicConversionIsDefault(t *testing.T) {
	t.Parallel()
	key := func(sets ...string) storage.Key {
		chain := compiled(t, onePrivate, storage.DigestOf(nil), sets...).Cells[0].Chain
		return chain.Key(chain.Steps)
	}
	if stated := key("training.privacy.conversion=classic"); stated != key() {
		t.Error("a file that states the default trains anew")
	}
	if key("training.privacy.conversion=improved") == key() {
		t.Error("rounds whose metrics differ have one key")
	}
}

// An iid population is counted only when it is there: until then the plan has a
// few rounds to spare, which the server does not use.
func TestServerStopsAtBudgetBeforePlanEnds(t *testing.T) {
	t.Parallel()
	iid := []string{"data.partition=iid", "training.rounds=100", "audit.every=null", "training.privacy.noise_multiplier=8"}
	p := compiled(t, onePrivate, storage.DigestOf(nil), append(iid, "training.privacy.budget={epsilon: 0.7}")...)
	r := outcome(t, onePrivate, append(iid, "training.privacy.budget={epsilon: 0.7}")...)
	planned := p.Cells[0].Chain.Steps
	if ran := r.Training.Rounds; !r.Budget.Stopped || ran != r.Privacy.Rounds || ran != r.Budget.RoundsAllowed || ran >= planned || planned >= 100 {
		t.Errorf("%d rounds ran of %d planned, budget %+v", ran, planned, r.Budget)
	}
	if r.Privacy.EpsilonProved > 0.7 {
		t.Errorf("epsilon_proved %v is above the budget of 0.7", r.Privacy.EpsilonProved)
	}
}

func TestEpsilonGrowsAlongTheCurve(t *testing.T) {
	t.Parallel()
	r := outcome(t, onePrivate)
	last := privacy.Epsilon(0)
	for _, point := range r.Curve {
		if point.Privacy == nil || !(point.Privacy.EpsilonProved > last) || point.Privacy.Delta != 1e-5 {
			t.Fatalf("round %d has cost %+v, the round before %v", point.Round, point.Privacy, last)
		}
		last = point.Privacy.EpsilonProved
	}
	if last != r.Privacy.EpsilonProved {
		t.Errorf("the curve ends at %v, the report says %v", last, r.Privacy.EpsilonProved)
	}
}

func TestAdaptiveClippingIsReported(t *testing.T) {
	t.Parallel()
	r := outcome(t, onePrivate, "training.privacy.adaptive={count_noise: 4}")
	if plain := outcome(t, onePrivate); r.Privacy.EpsilonProved != plain.Privacy.EpsilonProved {
		t.Errorf("epsilon_proved is %v with adaptive clipping and %v without, want the same", r.Privacy.EpsilonProved, plain.Privacy.EpsilonProved)
	}
	if !(r.Privacy.UpdateNoise > 2) || r.Training.Adaptive == nil {
		t.Errorf("the updates got %v of a total of 2, adaptive %+v", r.Privacy.UpdateNoise, r.Training.Adaptive)
	}
}

func TestSecretNoiseRepeatsOnlyUnderItsKey(t *testing.T) {
	t.Parallel()
	const secret = "training.privacy.randomness=secret"
	digest := storage.DigestOf(plantest.Text())
	model := func(p *plan.Plan, keys *secrets.Keyring) ([]byte, error) {
		e := localexec.New(p, compile.Registry(), plantest.Text())
		e.Runner.Keys = keys
		if err := e.Reach(t.Context(), p.Cells[0].Model); err != nil {
			return nil, err
		}
		return e.Blob(t.Context(), p.Cells[0].Model.Key, tasks.ModelBlob)
	}
	p, keys := compiled(t, onePrivate, digest, secret), secrets.NewKeyring(plantest.SecretKey(t))
	first := must.Get(model(p, keys))(t)
	if again, err := model(p, keys); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the same training under the same key gave another model (%v)", err)
	}
	seeded, err := model(compiled(t, onePrivate, digest), nil)
	if err != nil || bytes.Equal(first, seeded) {
		t.Errorf("the seeded training gave the model of the secret one (%v)", err)
	}
	_, err = model(p, nil)
	if _, ok := errors.AsType[*secrets.MissingKeyError](err); !ok || tasks.IsPermanent(err) {
		t.Errorf("without the key: %v; want an error that another worker may not meet", err)
	}
}

// oneDPSGD is one cell of DP-SGD with a tail.
const oneDPSGD = `
name: dp-sgd
data: {source: none.jsonl, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training:
  algorithm: sgd
  rounds: 10
  cohort: 6
  steps_per_task: 4
  client: {optimizer: rmsprop, learning_rate: 0.01}
  privacy: {clip: 0.3, noise_multiplier: 2, delta: 1e-5}
audit: {every: 4}
`

func TestDPSGDProtectsRecords(t *testing.T) {
	t.Parallel()
	for sampling, relation := range map[privacy.Sampling]privacy.Neighbouring{
		"": privacy.AddOrRemoveOne, privacy.FixedSize: privacy.ReplaceOne, privacy.Shuffled: privacy.ReplaceOne,
	} {
		var sets []string
		if sampling != "" {
			sets = []string{"training.sampling=" + string(sampling)}
		}
		report := outcome(t, oneDPSGD, sets...)
		r := report.Privacy
		want := must.Get(privacy.Account(privacy.Recipe{
			Population: report.Training.Examples, Cohort: 6, Rounds: 10, NoiseMultiplier: 2, Delta: 1e-5, Sampling: cmp.Or(sampling, privacy.Poisson),
		}))(t)
		if r.Unit != "record" || r.Neighbouring != relation || r.Population <= report.Training.Users || r.Epsilon != want.Epsilon || r.EpsilonProved != want.EpsilonProved {
			t.Errorf("%s: %+v, want the cost %v over the records, under %s", sampling, r, want.EpsilonProved, relation)
		}
		if cost := report.Curve[0].Privacy; cost == nil || !(cost.EpsilonProved > 0 && cost.EpsilonProved <= r.EpsilonProved) {
			t.Errorf("%s: the curve begins with %+v", sampling, cost)
		}
	}
}

func TestBudgetEndsDPSGD(t *testing.T) {
	t.Parallel()
	eight := must.Get(privacy.Account(privacy.Recipe{ // plantest's facts have 2,000 examples
		Population: 2000, Cohort: 6, Rounds: 8, NoiseMultiplier: 0.5, Delta: 1e-5, Sampling: privacy.Poisson,
	}))(t)
	limit := float64(eight.EpsilonProved) * 1.001
	r := outcome(t, oneDPSGD, "training.privacy.noise_multiplier=0.5", fmt.Sprintf("training.privacy.budget={epsilon: %g}", limit))
	if r.Training.Rounds != 8 || r.Budget == nil || float64(r.Privacy.EpsilonProved) > limit {
		t.Errorf("%d steps at %v (%+v), want the 8 within %v", r.Training.Rounds, r.Privacy.EpsilonProved, r.Budget, limit)
	}
}

func TestSecretDPSGDTasksNameTheirKey(t *testing.T) {
	t.Parallel()
	p := compiled(t, oneDPSGD, storage.DigestOf(nil), "training.privacy.randomness=secret")
	if fingerprint := p.Cells[0].Chain.JoinSpec(1).SecretKey; fingerprint == "" || p.Nodes[p.Cells[0].Model.Key].Spec.SecretKey != fingerprint {
		t.Error("the tasks do not say that they need the key")
	}
}

// Were the noise of two cells the same, it would cancel between their models.
func TestTrainingsUnderOneKeyShareNoNoise(t *testing.T) {
	t.Parallel()
	streams := map[string]bool{}
	for _, set := range []string{"seed=1", "training.server.learning_rate=0.5", "training.privacy.clip=0.4", "data.partition=iid"} {
		p := compiled(t, onePrivate, storage.DigestOf(nil), "training.privacy.randomness=secret", set)
		var params aggregation.ServerParams
		must.Do(t, json.Unmarshal(p.Cells[0].Chain.Join.Params, &params))
		if chain := p.Cells[0].Chain; chain.PartSpec(1, 0).SecretKey != params.Secret.Key || chain.JoinSpec(1).SecretKey != params.Secret.Key {
			t.Errorf("--set %s: the tasks do not say that they need key %s", set, params.Secret.Key)
		}
		if streams[params.Secret.Training] {
			t.Errorf("--set %s shares its stream with another training", set)
		}
		streams[params.Secret.Training] = true
	}
}

func TestCellsShareTheirData(t *testing.T) {
	t.Parallel()
	p := compiled(t, small, storage.DigestOf(nil))
	count := map[string]int{}
	for _, n := range p.Nodes {
		count[n.Kind]++
	}
	for kind, want := range map[string]int{
		"datasets/import": 1, "datasets/encode": 1, "datasets/balance": 1, "canaries/draw": 1, "canaries/insert": 1,
		"datasets/partition": 2, "training/initial": 1,
	} {
		if count[kind] != want {
			t.Errorf("%d nodes of %s, want %d", count[kind], kind, want)
		}
	}
	if len(p.Chains) != 6 {
		t.Errorf("%d chains, want one a cell", len(p.Chains))
	}
}

func TestChainsDependOnlyOnTrainingFields(t *testing.T) {
	t.Parallel()
	base := compiled(t, small, storage.DigestOf(nil))
	for set, same := range map[string]bool{
		"audit.random_sampling.references=600": true,
		"audit.every=25%":                      true,
		"audit.at=[2, 75%]":                    true,
		"training.checkpoints.keep=7":          true,
		"name=other":                           true,
		"seed=2":                               false,
		"training.client.batch=8":              true, // the axis sgd removes nothing: see below
		"model.units=9":                        false,
		"data.vocabulary.size=50":              false,
	} {
		other := compiled(t, small, storage.DigestOf(nil), set)
		shared := 0
		for recipe := range base.Chains {
			if other.Chains[recipe] != nil {
				shared++
			}
		}
		if set == "training.client.batch=8" {
			if shared != 2 {
				t.Errorf("--set %s: %d chains stay the same, want the 2 of SGD", set, shared)
			}
			continue
		}
		if (shared == len(base.Chains)) != same {
			t.Errorf("--set %s: %d of %d chains stay the same", set, shared, len(base.Chains))
		}
	}
}

func TestMoreRoundsExtendTheChain(t *testing.T) {
	t.Parallel()
	const one = `
name: one
data: {source: none, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training: {algorithm: fedavg, rounds: 20, cohort: 6, chunks: 2}
`
	short := compiled(t, one, storage.DigestOf(nil))
	long := compiled(t, one, storage.DigestOf(nil), "training.rounds=250")
	for recipe, c := range short.Chains {
		d := long.Chains[recipe]
		if d == nil || d.Key(20) != c.Key(20) || d.Steps != 250 {
			t.Errorf("the longer training is another chain: %+v", d)
		}
	}
}

// oneCell is an experiment without a grid.
const oneCell = `
name: one
data: {source: none, vocabulary: {size: 60}, users: {words: 300}}
model: {embedding: 6, units: 8}
training: {algorithm: fedavg, rounds: 20, cohort: 6, chunks: 2}
`

func chainOf(t *testing.T, p *plan.Plan) *plan.Chain {
	t.Helper()
	for _, c := range p.Chains {
		return c
	}
	t.Fatal("the plan has no chain")
	return nil
}

// Parameters are part of every key: an option that is not used must not show in them.
func TestUnusedOptionsLeaveNoTrace(t *testing.T) {
	t.Parallel()
	p := compiled(t, oneCell, storage.DigestOf(nil))
	chain := chainOf(t, p)
	for what, c := range map[string]struct{ got, want string }{
		"initial model": {string(p.Nodes[chain.Origin.Key].Params), `{"seed":1,"model":{"kind":"cifg-lstm","vocabulary":64,"embedding":6,"units":8}}`},
		"clients":       {string(chain.Part.Params), `{"seed":1,"cohort":6,"chunks":2,"sampling":"fixed-size","local":{"optimizer":{"kind":"sgd"},"learning_rate":0.5,"batch":16},"epochs":1}`},
		"server":        {string(chain.Join.Params), `{"seed":1,"chunks":2,"cohort":6,"optimizer":{"kind":"sgd"},"learning_rate":1}`},
	} {
		if c.got != c.want {
			t.Errorf("parameters of %s:\n%s\nwant\n%s", what, c.got, c.want)
		}
	}
}

func TestOptionsReachTheirTasks(t *testing.T) {
	t.Parallel()
	chain := chainOf(t, compiled(t, oneCell, storage.DigestOf(nil),
		"training.client={dropout: 0.1, weight_decay: 0.01, proximal: 0.2, schedule: {kind: cosine, warm_up: 3}}",
		"training.server={optimizer: momentum, schedule: {kind: step, every: 5, factor: 0.5}}"))
	for got, want := range map[string]string{
		string(chain.Part.Params): `"schedule":{"kind":"cosine","warm_up":3,"last":19},"batch":16,"dropout":0.1,"weight_decay":0.01,"proximal":0.2`,
		string(chain.Join.Params): `"schedule":{"kind":"step","every":5,"factor":0.5}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("parameters %s, want %s in them", got, want)
		}
	}
}

func TestEveryModelRunsToItsReport(t *testing.T) {
	t.Parallel()
	p := compiled(t, oneCell, storage.DigestOf(plantest.Text()), "training.rounds=2", "audit={beam_search: {width: 3}}",
		"canaries={words: 4, per_configuration: 2, user_probability: 1/5, example_probability: 1, held_back: 1}",
		"training.client={dropout: 0.1, proximal: 0.1, schedule: {warm_up: 2}}",
		"grid={axes: {model: [{kind: lstm, layers: 2}, {kind: gru, projection: 0, untied: true}, {kind: gru, layers: 3, projection: 5, untied: true}, {kind: conv, kernel: 3}]}}")
	e := localexec.New(p, compile.Registry(), plantest.Text())
	for _, c := range p.Cells {
		if err := e.Reach(t.Context(), c.Report); err != nil {
			t.Errorf("%s: %v", c.Label, err)
		}
	}
}

func TestQuantizedCellsShareTraining(t *testing.T) {
	t.Parallel()
	p := compiled(t, oneCell, storage.DigestOf(plantest.Text()), "training.rounds=6", "audit={every: 50%}",
		"grid={axes: {training.quantize_bits: [null, 8, 2]}}")
	if len(p.Chains) != 1 {
		t.Errorf("%d chains, want the one of all cells", len(p.Chains))
	}
	count := map[string]int{}
	for _, n := range p.Nodes {
		count[n.Kind]++
	}
	if count["training/quantize"] != 4 {
		t.Errorf("%d quantized models, want those after rounds 3 and 6 in 8 and 2 bits", count["training/quantize"])
	}
	e, perplexity := localexec.New(p, compile.Registry(), plantest.Text()), [3]float64{}
	for i, c := range p.Cells {
		if quantized := c.Final.Key != c.Model.Key; c.Model.Key != p.Cells[0].Model.Key || quantized != (i > 0) {
			t.Errorf("%s: its training ends in %s, and %s is measured", c.Label, c.Model.Key.Short(), c.Final.Key.Short())
		}
		must.Do(t, e.Reach(t.Context(), c.Report))
		data := must.Get(e.Blob(t.Context(), c.Report.Key, reports.CellBlob))(t)
		var report reports.Report
		must.Do(t, json.Unmarshal(data, &report))
		var useful utility.Outcome
		plantest.Outcome(t, &report, "utility", &useful)
		if want := [3]int{0, 8, 2}[i]; report.Training.QuantizeBits != want {
			t.Errorf("%s: the report says %d bits, want %d", c.Label, report.Training.QuantizeBits, want)
		}
		perplexity[i] = float64(useful.Perplexity)
	}
	off := func(i int) float64 { return math.Abs(perplexity[i]/perplexity[0] - 1) }
	if !(0 < off(1) && off(1) < off(2)) {
		t.Errorf("perplexities %v in float32, 8 bits and 2 bits, want 8 bits near the first", perplexity)
	}
}
