package oneshot

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/audits/membership/onerun"
	"coalmine/tasks/canaries"
	"coalmine/tasks/external"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:          "one_shot",
	Power:         audits.Powered(power),
	Kinds:         []tasks.Kind{Clients, Estimator, ReportEstimator},
	Models:        audits.Anything,
	Pairs:         audits.EverySecret,
	ByProgram:     true,
	ByTrainer:     true,
	OfPrivacy:     true,
	AtEnd:         true,
	OutcomeBlob:   OutcomeBlob,
	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Client) },
	Measures: slices.Concat(
		audits.Qualified(" by the cosines of canary clients with the change of the model", estimated("epsilon_estimate_final", "estimated epsilon, final", final)...),
		audits.Qualified(" by the largest cosines of canary clients with the updates of all rounds", estimated("epsilon_estimate_all_iterates", "estimated epsilon, all rounds", allIterates)...),
		audits.Columns[Outcome]("one_shot_", "delta", "neighbouring", "unit", "canaries", "unseen", "dimension"),
		cosines("one_shot_final", "cosines of canary clients with the change of the model", final, func(e *empirical.Estimate) *empirical.Normal { return &e.Seen }),
		cosines("one_shot_largest", "largest cosines of canary clients over rounds", allIterates, func(e *empirical.Estimate) *empirical.Normal { return &e.Seen }),
		cosines("one_shot_unseen", "largest cosines of unseen directions over rounds", allIterates, func(e *empirical.Estimate) *empirical.Normal { return &e.Unseen }),
	),
	Canary: audits.Columns[Client]("one_shot_", "seen", "final_cosine", "largest_cosine"),
})

func final(v *Outcome) *empirical.Estimate       { return v.Final }
func allIterates(v *Outcome) *empirical.Estimate { return v.AllIterates }

func estimated(name, header string, of func(*Outcome) *empirical.Estimate) []audits.Measure {
	return audits.Within(of,
		audits.Measure{
			Name: name, Doc: "estimate of epsilon with its standard error, no bound (Andrew et al. 2024),", Of: audits.Of(func(e *empirical.Estimate) float64 { return e.Epsilon }),
			Header: header, Text: audits.Of(func(e *empirical.Estimate) string { return onerun.EstimateText(e.Epsilon, e.StandardError) }), Optional: true, Scale: audits.Plain, Digits: 2,
		},
		audits.Measure{Name: name + "_se", Doc: "standard error of the estimate of epsilon", Of: audits.Of(func(e *empirical.Estimate) float64 { return e.StandardError })},
	)
}

func cosines(name, doc string, of func(*Outcome) *empirical.Estimate, some func(*empirical.Estimate) *empirical.Normal) []audits.Measure {
	return audits.Within(of,
		audits.Measure{Name: name + "_mean", Doc: "mean of the " + doc, Of: audits.Of(func(e *empirical.Estimate) float64 { return some(e).Mean })},
		audits.Measure{Name: name + "_deviation", Doc: "standard deviation of the " + doc, Of: audits.Of(func(e *empirical.Estimate) float64 { return some(e).Deviation })},
	)
}

// Fields of the audit block.
type Fields struct {
	// Estimate of epsilon (never a bound) after the last round of federated training, or of a
	// training.command that sends the clients itself. Canary clients, part of the population of epsilon,
	// send a clipped random direction whenever sampled; cosines of the directions with the released models
	// or updates distinguish participants from others.
	OneShot *Block `json:"one_shot,omitempty"`
}

// Statistic is the evidence of the estimate.
type Statistic string

// Statistics.
const (
	// FinalModel is the cosine with the change of the model from the first round to the last.
	FinalModel Statistic = "final"
	// AllIterates is the largest cosine with the noised mean update of any round.
	AllIterates Statistic = "all-iterates"
	// Both asks for two separate estimates.
	Both Statistic = "both"
)

func (Statistic) Choices() []string {
	return []string{string(FinalModel), string(AllIterates), string(Both)}
}

type Block struct {
	// Canary clients. Required.
	Canaries int `json:"canaries" range:"[20,100000]" unit:"users" source:"Andrew et al. 2024"`
	// Releases: final, the models before and after the training; all-iterates, every round's noised mean
	// update; both, separately.
	Statistic Statistic `json:"statistic" default:"both"`
	// Directions that no client sends, for the largest cosine by chance. Absent: the number of canaries;
	// none with statistic: final.
	Unseen int `json:"unseen,omitempty" range:"[20,100000]" unit:"directions" source:"Andrew et al. 2024"`
	// L2 norm of a canary's update without a clip; with one it is ten clip norms, clipped to one. A
	// training.command decides by itself.
	Norm float64 `json:"norm,omitempty" range:"(0,1e9]"`
	// The delta of the estimate, by default training.privacy.delta, which it must equal with noise;
	// 1e-5 without.
	Delta float64 `json:"delta" range:"(0,1)"`
}

const path = "audit.one_shot"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	o := f.OneShot
	if !given(path + ".delta") {
		o.Delta = s.DefaultDelta()
	}
	if !given(path+".unseen") && o.Statistic != FinalModel {
		o.Unseen = o.Canaries
	}
}

func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	o := f.OneShot
	switch p := s.Training; {
	case s.External != nil && o.Canaries > 0:
		o.checkReport(fail)
	case p.Central && s.External == nil:
		fail([]string{path, "training.algorithm"}, "sends clients into the rounds of a federated training, and training.algorithm is sgd; set it to fedavg")
	case o.Canaries == 0:
		fail([]string{path + ".canaries"}, "missing; expected how many clients send a canary, such as 500: each is a user of its own, beside those of the data")
	case s.CheckDelta(fail, path+".delta", o.Delta, "an estimate and a bound"):
	default:
		o.checkUpdates(s, fail)
		o.checkDimension(s, fail)
		o.checkCompany(s, fail)
	}
}

func (o *Block) checkUpdates(s *audits.Setting, fail audits.Fail) {
	clip := s.Training.Clip
	fail.If(clip > 0 && o.Norm > 0, []string{path + ".norm", "training.privacy.clip"}, "is %g, and every canary's update is clipped to the clip norm, which is %g; remove it", o.Norm, clip)
	fail.If(clip == 0 && o.Norm == 0, []string{path + ".norm", "training.privacy"}, "missing; expected the L2 norm of a canary's update, such as 1: there is no clip norm to take it from")
	o.checkUnseen(fail)
}

func (o *Block) checkUnseen(fail audits.Fail) {
	fail.If(o.Statistic == FinalModel && o.Unseen > 0, []string{path + ".unseen", path + ".statistic"}, "is %d, and with statistic: final the law of unseen canaries is known; remove it", o.Unseen)
}

// checkReport checks an external training, which sends the canaries itself.
func (o *Block) checkReport(fail audits.Fail) {
	fail.If(o.Norm > 0, []string{path + ".norm", "training.command"}, "is %g, and the command sends the canaries itself, by its own clip norm; remove it", o.Norm)
	o.checkUnseen(fail)
}

func (o *Block) checkDimension(s *audits.Setting, fail audits.Fail) {
	paths := []string{path + ".canaries", "model"}
	switch d := s.Trained; {
	case d == 0: // the model is a mistake
	case d < empirical.MinDimension:
		fail([]string{path, "model"}, "rests on the angles between random directions, and the model has %d trained parameters; expected at least %d", d, empirical.MinDimension)
	case o.Canaries*empirical.MinPerCanary > d:
		fail(paths, "is %d, and the model has %d trained parameters; expected at most %d, a tenth of them: more canaries hide each other", o.Canaries, d, d/empirical.MinPerCanary)
	}
}

// checkCompany rejects features that need every user's data, or that measure other models.
func (o *Block) checkCompany(s *audits.Setting, fail audits.Fail) {
	_ = fail.If(s.Devices != nil, []string{path, "data.devices"}, "adds clients to the users, and data.devices divides users into devices; remove one of them") ||
		fail.If(s.Records, []string{path, "training.record"}, "adds clients whose updates are no user's, and training.record keeps the updates of all; remove one of them") ||
		fail.If(s.Training.Quantized, []string{path, "training.quantize_bits"}, "measures the model as the training leaves it, and training.quantize_bits rounds its weights; remove one of them")
}

func (f *Fields) Warnings(_ *audits.Setting, d *audits.Data) []string {
	share := float64(f.OneShot.Canaries) / float64(f.OneShot.Canaries+d.Users)
	if share <= audits.MaxReplaced {
		return nil
	}
	return []string{fmt.Sprintf("audit.one_shot makes %s of the users canary clients; above %g%% they change the model and its privacy: every user is sampled less often, and the noise lowers the utility",
		readable.Share(share), 100*audits.MaxReplaced)}
}

// Plant implements audits.Planter: the clients are users without data, which an external training adds
// itself.
func (f *Fields) Plant(b audits.Builder) storage.Key {
	if b.Setting().External != nil {
		return b.Population()
	}
	params := ClientsParams{Clients: f.OneShot.Canaries}
	for _, other := range b.Setting().Audits {
		if _, plants := other.(audits.Planter); plants && !audits.Sends(other) {
			params.Coins = true
		}
	}
	return b.Node(Clients, "canary clients of the one-shot audit", params, tasks.Input{Name: PopulationInput, Key: b.Population()})
}

func (f *Fields) Sends() bool { return true }

func (f *Fields) Clients(*audits.Setting) *canaries.Clients {
	c := &canaries.Clients{Count: f.OneShot.Canaries, Norm: f.OneShot.Norm}
	if c.Norm == 0 {
		c.Over = canaries.Over
	}
	return c
}

func (f *Fields) Watch(*audits.Setting) *canaries.Watch {
	if f.OneShot.Statistic == FinalModel {
		return nil
	}
	return &canaries.Watch{Canaries: f.OneShot.Canaries, Unseen: f.OneShot.Unseen}
}

func (f *Fields) Request() *external.OneShot {
	o := f.OneShot
	return &external.OneShot{Canaries: o.Canaries, Unseen: o.Unseen, Final: o.Statistic != AllIterates}
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	o, s := f.OneShot, b.Setting()
	if s.External != nil {
		return b.Node(ReportEstimator, "one-shot audit", ReportParams{OneShot: *f.Request(), Delta: o.Delta}, tasks.Input{Name: audits.ModelInput, Key: b.Model(round)})
	}
	params := EstimateParams{
		Seed: s.Seed, Canaries: o.Canaries, Final: o.Statistic != AllIterates, Watch: f.Watch(s), Delta: o.Delta, Unit: s.Training.Unit,
		Neighbouring: neighbouring(&s.Training),
	}
	return b.Node(Estimator, "one-shot audit", params,
		tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}, tasks.Input{Name: InitialInput, Key: b.Initial()})
}

// neighbouring returns privacy.ZeroOutOne if epsilon is proved for it, otherwise empty.
func neighbouring(t *audits.Training) privacy.Neighbouring {
	if n := t.Sampling.Neighbouring(); n == privacy.ZeroOutOne {
		return n
	}
	return ""
}

// Outcome holds one or two estimates of epsilon, and their evidence.
type Outcome struct {
	Canaries     int                  `json:"canaries" doc:"canary clients that took part"`
	Unseen       int                  `json:"unseen,omitempty" doc:"random directions that no client sent, for comparison"`
	Dimension    int                  `json:"dimension" doc:"trained parameters, the dimension of the canaries' directions"`
	Delta        float64              `json:"delta" doc:"delta of the one-shot estimates"`
	Neighbouring privacy.Neighbouring `json:"neighbouring" doc:"neighbouring relation of the one-shot estimates"`
	Unit         string               `json:"unit" doc:"unit of the privacy that one shot estimates, such as user"`
	// Reported reports whether an external training sent the canaries and reported the cosines.
	Reported bool `json:"told,omitempty"`
	// Final is the estimate from the change of the model, AllIterates from the noised mean updates of all
	// rounds. Each may be nil.
	Final       *empirical.Estimate `json:"final,omitempty" doc:"from the change of the model"`
	AllIterates *empirical.Estimate `json:"all_iterates,omitempty" doc:"from the noised mean updates of all rounds"`
	// Clients are the canaries, followed by the unseen directions.
	Clients []Client `json:"clients,omitempty"`
}

// Client is a canary of the audit.
type Client struct {
	Seen          bool     `json:"seen" doc:"whether the canary client took part"`
	FinalCosine   *float64 `json:"final_cosine,omitempty" doc:"cosine of the canary's direction and the change of the model"`
	LargestCosine *float64 `json:"largest_cosine,omitempty" doc:"largest cosine of the canary's direction and the updates of all rounds"`
}

func (v *Outcome) own() []audits.OwnCanary {
	return lists.Make(len(v.Clients), func(i int) audits.OwnCanary { return audits.OwnCanary{CanaryOutcome: &v.Clients[i]} })
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(c *audits.Cell) string {
	var found []string
	for _, one := range []struct {
		estimate *empirical.Estimate
		by       string
	}{{v.Final, "by the final model"}, {v.AllIterates, "by the updates of all rounds"}} {
		if e := one.estimate; e != nil {
			found = append(found, fmt.Sprintf("%s %s (standard error %s)", privacy.Epsilon(e.Epsilon), one.by, privacy.Epsilon(e.StandardError)))
		}
	}
	return fmt.Sprintf("one-shot audit: epsilon is estimated, not bounded, as %s, at delta %g (%s, unit %s), from %d canary clients %s%s",
		strings.Join(found, " and "), v.Delta, v.Neighbouring, v.Unit, v.Canaries, v.among(), v.beside(c.Privacy))
}

func (v *Outcome) among() string {
	if v.Reported {
		return "that the command says it has sent, and cosines that it has measured"
	}
	return "among the users"
}

func (v *Outcome) beside(proved *privacy.Report) string {
	switch {
	case proved == nil:
		return "; nothing is proved of this training"
	case proved.Neighbouring == privacy.ReplaceOne:
		return fmt.Sprintf("; epsilon_proved %s is about another change, %s", proved.EpsilonProved, proved.Neighbouring)
	}
	return fmt.Sprintf("; epsilon_proved is %s", proved.EpsilonProved)
}

// certain is the number of standard errors by which a finding is above 0: one-sided, 95%.
const certain = 1.645

// trials is the number of simulated audits: the standard error of a power is at most 5%. An estimate takes a
// millisecond.
const trials = 100

// power returns the power of the estimate if the statistic of each canary client is normal, and shifted from
// that of an unseen direction as by the Gaussian mechanism with the true epsilon.
func power(f *Fields, _ *audits.Setting, _ *Outcome) []audits.Statement {
	o := f.OneShot
	return []audits.Statement{{
		Finds:   "an estimate is above 0 by 1.645 standard errors",
		Leak:    audits.Leak{Name: "epsilon", Means: "the training costs epsilon", Default: 8, Max: 100},
		Sizes:   []audits.Size{audits.FieldSize(path+".canaries", "canary client", o.Canaries)},
		Of:      o,
		Nothing: audits.From(func(v *Outcome) bool { return !found(v.Final) && !found(v.AllIterates) }),
		Power: audits.Simulated(trials, 0, func(sizes []int, leak float64) func(*rand.Rand) bool {
			shift := empirical.GaussianShift(leak, o.Delta)
			return func(rng *rand.Rand) bool { return found(o.simulate(sizes[0], shift, rng)) }
		}, func([]int, float64) func(bool) bool { return func(found bool) bool { return found } }),
	}}
}

// simulate estimates by n canaries, from all rounds if the audit has no estimate from the final model.
func (o *Block) simulate(n int, shift float64, rng *rand.Rand) *empirical.Estimate {
	draw := func(n int, mean, deviation float64) []float64 {
		return lists.Make(n, func(int) float64 { return deviation * (mean + rng.NormFloat64()) })
	}
	var e empirical.Estimate
	var err error
	if o.Statistic == AllIterates {
		e, err = empirical.AllIterates(draw(n, shift, 1), draw(o.Unseen, 0, 1), o.Delta)
	} else {
		d := empirical.MinPerCanary * max(n, empirical.MinDimension) // the estimate does not depend on it
		e, err = empirical.FinalIterate(draw(n, shift, 1/math.Sqrt(float64(d))), d, o.Delta)
	}
	if err != nil { // too few values to fit
		return nil
	}
	return &e
}

// found reports whether an estimate is above 0 by 1.645 standard errors.
func found(e *empirical.Estimate) bool {
	return e != nil && e.Epsilon-certain*e.StandardError > 0
}
