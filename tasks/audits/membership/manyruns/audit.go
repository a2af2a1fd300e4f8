package manyruns

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/canaries"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:        "many_runs",
	Models:      audits.Anything,
	Limits:      limits,
	Power:       audits.Powered(power),
	Kinds:       []tasks.Kind{Bound},
	OfPrivacy:   true,
	AtEnd:       true,
	OutcomeBlob: OutcomeBlob,
	References:  func(f audits.Fields) int { return f.(*Fields).ManyRuns.Runs },

	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Training) },
	Measures: slices.Concat([]audits.Measure{{
		Name: "many_runs_epsilon_lower", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLower }),
		Header: "many-run epsilon >= (of)", Text: audits.Of((*Outcome).text), Scale: audits.Plain, Digits: 3,
		Doc: "lower bound of epsilon by many trainings, each with the canary or without; in brackets the largest that they could have found",
	}}, audits.Columns[Outcome]("many_runs_", "delta", "confidence", "neighbouring", "unit"), []audits.Measure{
		{Name: "many_runs_trainings", Of: audits.Of(func(v *Outcome) int { return v.Runs }), Doc: "trainings of the many-run audit"},
	}, audits.Within(func(v *Outcome) *empirical.Rates { return &v.Rates }, audits.Columns[empirical.Rates]("many_runs_", "right", "of", "wrong", "others")...),
		audits.Columns[Outcome]("many_runs_", "epsilon_largest"), audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
			audits.Measure{Name: "many_runs_noise_multiplier_refuted", Of: audits.Of(func(t *TradeOff) *float64 { return t.NoiseMultiplier }), Doc: "least noise multiplier that the trainings refute by the trade-off curve: they had less noise"},
			audits.Measure{
				Name: "many_runs_trade_off_epsilon_lower", Of: audits.Of(func(t *TradeOff) *float64 { return numbers.Finite(t.EpsilonLower) }),
				Header: "many-run by trade-off curve (z <)", Text: audits.Of((*TradeOff).Text), Optional: true, Scale: audits.Plain, Digits: 3,
				Doc: "epsilon proved of the least noise multiplier that the trainings refute; in brackets that multiplier (z <)",
			},
			audits.Measure{Name: "many_runs_p_value", Of: audits.Of(func(t *TradeOff) *float64 { return audits.When(t.Claimed, t.PValue) }), Doc: "bound on the probability of recognizing as many trainings under the claimed noise multiplier"},
		)),
	Canary: audits.Columns[Training]("many_runs_", "score", "included", "chooses"),
})

// Fields of the audit block.
type Fields struct {
	// Lower bound on epsilon from many trainings by Coalmine, each with its own seed and one canary, which a fair
	// coin includes or excludes as in one_run. Half of the trainings choose the threshold of the score, the
	// others prove the bound. Each costs as much as the cell's own training.
	ManyRuns *Block `json:"many_runs,omitempty"`
}

type Block struct {
	// Trainings. Every second one proves the bound.
	Runs int `json:"runs" default:"200" range:"[20,10000]" unit:"trainings"`
	// Carrier of the coin: text in the data; an update (fedavg); or a gradient (sgd, with privacy). As in
	// one_run, vectors are scored by the likelihood of all released sums.
	CanariesOf onerun.CanariesOf `json:"canaries_of,omitempty"`
	// Words of a text canary, at most data.sequence; 5 by default.
	Words int `json:"words,omitempty" range:"[2,1000]" unit:"words (byte level: bytes)"`
	// Design of a canary that is not a vector, as in one_run.
	Design canaries.Design `json:"design,omitempty"`
	// The delta of the bound, by default training.privacy.delta, which it must equal with noise; 1e-5
	// without.
	Delta float64 `json:"delta" range:"(0,1)"`
	// Probability with which the bound holds.
	Confidence numbers.Probability `json:"confidence" default:"95%" range:"(0,1)"`
}

const path = "audit.many_runs"

const defaultWords = 5

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	o := f.ManyRuns
	if !given(path + ".delta") {
		o.Delta = s.DefaultDelta()
	}
	if !o.oneRun().OneRun.Vectors() && !given(path+".design") {
		o.Design = s.Design
	}
	if text := o.CanariesOf == "" || o.CanariesOf == onerun.Text; text && !s.Reading.Level.Scheme().Images && !given(path+".words") {
		o.Words = defaultWords
	}
}

func (o *Block) oneRun() *onerun.Fields {
	b := &onerun.Block{
		Canaries: 1, CanariesOf: o.CanariesOf, Words: o.Words, Design: o.Design, Guesses: onerun.Guesses{KPlus: 1},
		Delta: o.Delta, Confidence: o.Confidence,
	}
	if b.Vectors() {
		b.Statistic = onerun.AllIterates
	}
	return &onerun.Fields{OneRun: b}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	o := f.ManyRuns
	switch {
	case fail.If(s.External != nil, []string{path, "training.algorithm"}, "repeats a training of Coalmine, and the training is external; remove one of them"),
		fail.If(s.Program != nil, []string{path, "training.client_command"}, "repeats a training of Coalmine, and training.client_command trains clients by a program; remove one of them"),
		fail.If(s.Devices != nil, []string{path, "data.devices"}, "puts a canary in the place of a user, and data.devices divides users into devices; remove one of them"),
		fail.If(s.Training.Quantized, []string{path, "training.quantize_bits"}, "measures the model as the training leaves it, and training.quantize_bits rounds its weights; remove one of them"),
		fail.If(slices.ContainsFunc(s.Audits, onerun.SendsToo), []string{path, "audit.one_shot"}, "repeats the training without the clients of audit.one_shot, whose cohorts differ; ask for them in two experiments"):
	case o.oneRun().OneRun.CheckTraining(s, asOneRun(fail)):
		s.CheckDelta(fail, path+".delta", o.Delta, "the two bounds")
	}
}

// asOneRun reports mistakes of each training's audit as mistakes of this audit's fields.
func asOneRun(fail audits.Fail) audits.Fail {
	return func(paths []string, format string, args ...any) {
		own := func(text string) string { return strings.ReplaceAll(text, "audit.one_run", path) }
		fail(lists.Map(paths, own), "%s", own(fmt.Sprintf(format, args...)))
	}
}

// Warnings implements audits.Warner.
func (f *Fields) Warnings(s *audits.Setting, d *audits.Data) []string {
	o, recipe := f.ManyRuns, s.Claim(d)
	if recipe.NoiseMultiplier == 0 {
		return nil
	}
	proved, err := privacy.Account(recipe)
	half := o.Runs / 2
	rates := lists.Make(half-1, func(i int) empirical.Rates { return empirical.Rates{Right: i + 1, Of: i + 1, Others: half - i - 1} })
	largest := o.largest(o.Confidence.Float64())
	if err != nil || largest == 0 || !powerless(recipe, proved.EpsilonProved, o.Confidence.Float64(), rates...) {
		return nil // fewer trainings have no power at all, which power says
	}
	return []string{fmt.Sprintf("audit.many_runs is powerless against the proved epsilon of %s: if all %d trainings that the bound counts were recognized, it would be at most %s, and the trade-off curve not refuted; use more runs",
		proved.EpsilonProved, half, privacy.Epsilon(largest))}
}

// powerless reports whether rates contradict neither the proved epsilon of a claim nor its trade-off curve.
func powerless(claim privacy.Recipe, proved privacy.Epsilon, confidence float64, rates ...empirical.Rates) bool {
	if math.IsInf(float64(proved), 1) || slices.ContainsFunc(rates, func(r empirical.Rates) bool { return r.Epsilon(claim.Delta, confidence) > float64(proved) }) {
		return false
	}
	curve, err := onerun.SharedCurve(claim)
	return err == nil && !slices.ContainsFunc(rates, func(r empirical.Rates) bool { return r.Refutes(curve, 1-confidence) })
}

func (f *Fields) Compile(b audits.Builder, _ int) storage.Key {
	o, s := f.ManyRuns, b.Setting()
	one := o.oneRun()
	inputs := []tasks.Input{{Name: PopulationInput, Key: b.Population()}}
	inputs = append(inputs, lists.Make(o.Runs, func(run int) tasks.Input { return tasks.Input{Name: RunInput(run), Key: b.Repeated(run, one)} })...)
	params := Params{
		Runs: o.Runs, Delta: o.Delta, Confidence: o.Confidence.Float64(), Neighbouring: one.OneRun.Neighbouring(s), Unit: s.Training.Unit,
		Null: onerun.NewNull(&s.Training),
	}
	return b.Node(Bound, "many-run audit", params, inputs...)
}

func (f *Fields) States(s *audits.Setting) float64 {
	return float64(f.ManyRuns.Runs) * f.ManyRuns.oneRun().States(s)
}

func (f *Fields) Work(s *audits.Setting) float64 { return onerun.SearchWork(&s.Training) }

// Outcome is a lower bound on epsilon and its evidence.
type Outcome struct {
	// Runs is the number of trainings, Included the number of those with the canary.
	Runs     int `json:"runs" doc:"number of trainings"`
	Included int `json:"included" doc:"number of trainings with the canary"`
	// Rule was chosen by the trainings with Chooses, Rates are the rates of the other trainings.
	Rule  empirical.Rule  `json:"rule"`
	Rates empirical.Rates `json:"rates"`
	// EpsilonLower holds at Delta with Confidence. EpsilonLargest is the bound if the rule had found all coins.
	EpsilonLower   float64 `json:"epsilon_lower"`
	EpsilonLargest float64 `json:"epsilon_largest" doc:"many-run bound if all trainings had been recognized"`
	Delta          float64 `json:"delta" doc:"delta at which the many-run bounds hold"`
	Confidence     float64 `json:"confidence" doc:"confidence of the many-run bounds, from 0 to 1"`

	Neighbouring privacy.Neighbouring `json:"neighbouring" doc:"neighbouring relation of the many-run bounds"`
	Unit         string               `json:"unit" doc:"unit of the privacy that many runs bound, such as user"`
	Score        string               `json:"score"`
	TradeOff     *TradeOff            `json:"trade_off,omitempty" doc:"by the trade-off function"`
	Trainings    []Training           `json:"trainings,omitempty"`
}

// TradeOff is the result by the trade-off curve of the training, with a separate rule.
type TradeOff struct {
	Rule  empirical.Rule  `json:"rule"`
	Rates empirical.Rates `json:"rates"`
	onerun.Noise
	Claimed bool `json:"claimed"`
	// Refuted reports whether PValue is at most 1 - confidence.
	Refuted bool `json:"refuted"`
}

// Training is one of the trainings.
type Training struct {
	Score    float64 `json:"score" doc:"score of the training, higher if it seems to have learned the canary"`
	Included bool    `json:"included" doc:"coin of the training: whether it had the canary"`
	Chooses  bool    `json:"chooses,omitempty" doc:"whether the training chooses the rules instead of proving the bound"`
}

// own returns the canary of each training.
func (v *Outcome) own() []audits.OwnCanary {
	return lists.Make(len(v.Trainings), func(i int) audits.OwnCanary { return audits.OwnCanary{CanaryOutcome: &v.Trainings[i]} })
}

func (v *Outcome) text() string {
	return fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(c *audits.Cell) string {
	kind := "with"
	if v.Rule.Below {
		kind = "without"
	}
	note := fmt.Sprintf("many-run audit: epsilon at least %s at delta %g with %g%% confidence (%s, unit %s, score %s): of %d trainings that prove, %d of %d %s the canary "+
		"are recognized, and %d of %d others are mistaken for such; perfect recognition would certify %s", privacy.Epsilon(v.EpsilonLower), v.Delta, 100*v.Confidence,
		v.Neighbouring, v.Unit, v.Score, v.Rates.Of+v.Rates.Others, v.Rates.Right, v.Rates.Of, kind, v.Rates.Wrong, v.Rates.Others, privacy.Epsilon(v.EpsilonLargest))
	switch proved := c.Privacy; {
	case proved == nil:
	case v.EpsilonLower > float64(proved.EpsilonProved):
		note += onerun.AboveProved(proved)
	case v.TradeOff != nil && !v.TradeOff.Refuted && proved.Mechanism == "" && powerless(onerun.ClaimOf(proved), proved.EpsilonProved, v.Confidence, v.Rates.Perfect(), v.TradeOff.Rates.Perfect()):
		note += fmt.Sprintf("; POWERLESS against epsilon_proved %s: perfect recognition would contradict it neither by this bound nor by the trade-off curve; use more runs", proved.EpsilonProved)
	}
	return note + v.TradeOff.note()
}

func (t *TradeOff) note() string {
	switch {
	case t == nil:
		return ""
	case t.NoiseMultiplier == nil:
		return "; by the trade-off curve of the training no noise is refuted"
	}
	text := fmt.Sprintf("; by the trade-off curve of the training %d of %d and %d of %d refute noise multipliers from %.3g on, of which epsilon %s is proved",
		t.Rates.Right, t.Rates.Of, t.Rates.Wrong, t.Rates.Others, *t.NoiseMultiplier, t.EpsilonLower)
	if t.Claimed && t.Refuted {
		text += fmt.Sprintf(", and with them the CLAIMED one (p %.2g)", t.PValue)
	}
	return text
}

// EpsilonAtLeast implements audits.LowerBounder.
func (v *Outcome) EpsilonAtLeast() privacy.Epsilon {
	if v.TradeOff != nil {
		return max(privacy.Epsilon(v.EpsilonLower), v.TradeOff.EpsilonLower)
	}
	return privacy.Epsilon(v.EpsilonLower)
}

var limits = []audits.Limit{onerun.LowerBound("many_runs_epsilon_lower", "Lower bound on epsilon of the many-run audit, without the trade-off curve.",
	func(v *Outcome) (value float64, holds, missing string) {
		if v.Runs == 0 {
			return 0, "", "the audit has no trainings"
		}
		return v.EpsilonLower, onerun.Holds(v.Neighbouring, v.Delta, v.Confidence), ""
	}, func(f *Fields) numbers.Probability { return f.ManyRuns.Confidence }, nil)}

// trials is the number of simulated audits: the standard error of a power is at most 5%.
const trials = 100

// power returns the power of the bounds if each training's score is standard normal, and heads adds the shift of
// the Gaussian mechanism with the true epsilon.
func power(f *Fields, _ *audits.Setting, _ *Outcome) []audits.Statement {
	o, confidence := f.ManyRuns, f.ManyRuns.Confidence.Float64()
	bound := o.statement("the lower bound is above 0", func(r empirical.Rates) float64 { return r.Epsilon(o.Delta, confidence) })
	bound.Limit = "many_runs_epsilon_lower"
	bound.Largest = func() float64 { return o.largest(confidence) }
	bound.Nothing = audits.From(func(v *Outcome) bool { return v.EpsilonAtLeast() == 0 })
	byCurve := o.statement("the lower bound by the trade-off curve is above 0", func(r empirical.Rates) float64 { return r.Shift(confidence) })
	byCurve.Name = "trade_off"
	byCurve.Nothing = audits.From(func(v *Outcome) bool { return v.TradeOff == nil || v.TradeOff.EpsilonLower == 0 })
	return []audits.Statement{bound, byCurve}
}

// statement returns the statement about a value of a rule, which is also chosen by this value.
func (o *Block) statement(finds string, value func(empirical.Rates) float64) audits.Statement {
	x := audits.Statement{
		Finds: finds,
		Leak:  audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Max: 100},
		Sizes: []audits.Size{audits.FieldSize(path+".runs", "training", o.Runs)},
		Of:    o,
		Power: audits.Simulated(trials, 0, func(sizes []int, leak float64) func(*rand.Rand) float64 {
			shift, chosen := empirical.GaussianShift(leak, o.Delta), thinned(sizes[0]/2, value)
			return func(rng *rand.Rand) float64 {
				rule := empirical.ChooseRule(drawn((sizes[0]+1)/2, shift, rng), chosen)
				return value(rule.Rates(drawn(sizes[0]/2, shift, rng)))
			}
		}, func(_ []int, limit float64) func(float64) bool {
			return func(found float64) bool { return found > limit }
		}),
	}
	half := o.Runs / 2
	if perfect := (empirical.Rates{Of: half / 2, Others: half - half/2}).Perfect(); value(perfect) == 0 {
		x.None = fmt.Sprintf("if all %d trainings that the bound counts were recognized, %d with the canary and %d without, it would be 0", half, perfect.Of, perfect.Others)
	}
	return x
}

// largest returns the largest bound, over numbers of heads, of a rule that recognizes all coins.
func (o *Block) largest(confidence float64) (largest float64) {
	half := o.Runs / 2
	for heads := 1; heads < half; heads++ {
		largest = max(largest, empirical.Rates{Of: heads, Others: half - heads}.Perfect().Epsilon(o.Delta, confidence))
	}
	return largest
}

func drawn(n int, shift float64, rng *rand.Rand) []empirical.Run {
	runs := make([]empirical.Run, n)
	for i := range runs {
		runs[i].Score = rng.NormFloat64()
		if runs[i].Included = rng.IntN(2) == 1; runs[i].Included {
			runs[i].Score += shift
		}
	}
	return runs
}

// maxRules bounds the thresholds compared in each direction of a simulation. With more trainings, only every
// second, third, ... threshold is compared.
const maxRules = 100

// thinned returns value for about maxRules of the rules of n trainings, and -Inf for the others. Equal rates
// are computed once.
func thinned(n int, value func(empirical.Rates) float64) func(empirical.Rates) float64 {
	known, step := map[empirical.Rates]float64{}, max(1, n/maxRules)
	return func(r empirical.Rates) float64 {
		if (r.Right+r.Wrong)%step != 0 {
			return math.Inf(-1)
		}
		v, done := known[r]
		if !done {
			v = value(r)
			known[r] = v
		}
		return v
	}
}
