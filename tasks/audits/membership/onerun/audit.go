package onerun

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/numbers"
	"coalmine/internal/readable"
	"coalmine/privacy"
	"coalmine/privacy/empirical"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
	"coalmine/tasks/canaries"
	"coalmine/tasks/datasets/population"
)

var Audit = audits.Describe[Fields, Outcome](audits.Description{
	Name:          "one_run",
	Limits:        limits,
	Power:         audits.Powered(power),
	Kinds:         []tasks.Kind{Learned, Coins, Bound, Scored},
	Models:        audits.Anything,
	ByScores:      true,
	ByProgram:     true,
	OfPrivacy:     true,
	AtEnd:         true,
	OutcomeBlob:   OutcomeBlob,
	Own:           audits.From((*Outcome).own),
	CanaryOutcome: func() audits.CanaryOutcome { return new(Unit) },
	Measures: slices.Concat([]audits.Measure{{
		Name: "epsilon_lower", Of: audits.Of(func(v *Outcome) float64 { return v.EpsilonLower }),
		Header: "one-run epsilon >= (of)", Text: audits.Of((*Outcome).text), Scale: audits.Plain, Digits: 3,
		Doc: "lower bound of epsilon by coins and guesses in one training (Steinke et al. 2023); in brackets the largest that the audit could have found",
	}}, audits.Columns[Outcome]("one_run_", "delta", "confidence", "neighbouring", "unit", "canaries", "k_plus", "k_minus", "correct", "epsilon_largest"), audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "one_run_noise_multiplier_refuted", Of: audits.Of(func(t *TradeOff) *float64 { return t.NoiseMultiplier }), Doc: "least noise multiplier that the guesses refute by the trade-off curve: the training had less noise (Mahloujifar et al. 2024)"},
		audits.Measure{
			Name: "one_run_trade_off_epsilon_lower", Of: audits.Of(func(t *TradeOff) *float64 { return numbers.Finite(t.EpsilonLower) }),
			Header: "by trade-off curve (z <)", Text: audits.Of((*TradeOff).Text), Optional: true, Scale: audits.Plain, Digits: 3,
			Doc: "epsilon proved of the least noise multiplier that the guesses refute; in brackets that multiplier (z <)",
		},
	), audits.Within(func(v *Outcome) *TradeOff {
		if v.TradeOff == nil || !v.TradeOff.Claimed {
			return nil
		}
		return v.TradeOff
	},
		audits.Measure{Name: "one_run_p_value", Of: audits.Of(func(t *TradeOff) float64 { return t.PValue }), Doc: "bound on the probability of guesses at least as good under the claimed noise multiplier"},
		audits.Measure{Name: "one_run_refuted", Of: audits.Of(func(t *TradeOff) bool { return t.Refuted }), Header: "refutes z", Optional: true, Place: 2, Scale: audits.Percent, Doc: "whether the guesses refute z, the claimed noise multiplier"},
		audits.Measure{Name: "one_run_epsilon_refuted", Of: audits.Of(func(t *TradeOff) bool { return t.EpsilonRefuted }), Header: "refutes epsilon", Optional: true, Place: 1, Scale: audits.Percent, Doc: "whether epsilon_lower is above the epsilon proved of the claim"},
	), audits.Within(func(v *Outcome) *TradeOff { return v.TradeOff },
		audits.Measure{Name: "one_run_trade_off_epsilon_largest", Doc: "one-run bound by the trade-off curve if all guesses were right", Of: audits.Of(func(t *TradeOff) *float64 {
			if !t.Independent { // not computed
				return nil
			}
			return numbers.Finite(t.EpsilonLargest)
		})},
		audits.Measure{Name: "one_run_independent", Of: audits.Of(func(t *TradeOff) bool { return t.Independent }), Doc: "whether the bound by the trade-off curve assumes canaries that do not hide each other"},
	), audits.Within(func(v *Outcome) *empirical.GaussianEstimate { return v.Estimate },
		audits.Measure{
			Name: "one_run_estimate", Of: audits.Of(func(e *empirical.GaussianEstimate) float64 { return e.Epsilon }),
			Header: "estimate", Text: audits.Of(func(e *empirical.GaussianEstimate) string { return EstimateText(e.Epsilon, e.StandardError) }), Optional: true, Scale: audits.Plain, Digits: 3,
			Doc: "estimate of epsilon, with its standard error, if the scores of the canaries are normal; no bound",
		},
		audits.Measure{Name: "one_run_estimate_se", Of: audits.Of(func(e *empirical.GaussianEstimate) float64 { return e.StandardError }), Doc: "standard error of one_run_estimate"},
	), audits.Within((*Outcome).weakest,
		audits.Measure{Name: "one_run_ceiling", Of: audits.Of(func(c *Ceiling) float64 { return c.EpsilonLower }), Doc: "about the largest one-run bound of a training as private as claimed, for an attacker who sees only the score"},
		audits.Measure{Name: "one_run_trade_off_ceiling", Of: audits.Of((*Ceiling).tradeOff), Doc: "one_run_ceiling by the trade-off curve"},
	)),
	Canary: []audits.Measure{
		{Name: "one_run_score", Of: audits.Of(func(u *Unit) float64 { return u.Score }), Doc: "score of the one-run canary, higher if the training made it likelier"},
		{Name: "one_run_included", Of: audits.Of(func(u *Unit) bool { return u.Included }), Doc: "coin of the one-run canary: whether it was in the training data"},
		{Name: "one_run_guess", Of: audits.Of(func(u *Unit) *empirical.Answer { return &u.Guess }), Doc: "guess about the coin: in, out or abstained"},
	},
})

// Fields of the audit block.
type Fields struct {
	// Lower bound on epsilon after the last round: fair coins put each of its own canaries into the
	// training data or not, and an auditor guesses the coins from the trained model. No user has two
	// canaries, those of the canaries block included. A coin replaces a user's data or a record (sgd), or
	// with poisson decides whether the user exists.
	OneRun *Block `json:"one_run,omitempty"`
}

type Block struct {
	// Canaries, m in the paper, each in its own user. Required.
	Canaries int `json:"canaries" range:"[1,1000000]" unit:"users (sgd: records)" source:"Steinke et al. 2023"`
	// Words of each canary, at most data.sequence; at the byte level symbols of canaries.alphabet (of the
	// first format) or, without canaries, any bytes.
	Words int `json:"words,omitempty" default:"5" range:"[2,1000]" unit:"words (byte level: bytes)" also:"length"`
	// Design of a canary that is not a vector, by default canaries.design (described there), else random.
	Design canaries.Design `json:"design,omitempty"`
	// Carrier of a coin: by default text in the data; an update, a vector of the clip norm that a user
	// sends in every round (fedavg); or a gradient, a vector in place of a record's (sgd, with privacy).
	// Vectors are orthogonal, replace the last users or records, and exclude words, plain_loss and a
	// canaries block.
	CanariesOf CanariesOf `json:"canaries_of,omitempty"`
	// Evidence about vectors: all-iterates, the default, the likelihood of all released sums; final, the
	// change of the model.
	Statistic Statistic `json:"statistic,omitempty"`
	// Numbers of guesses; the auditor abstains on other canaries.
	Guesses Guesses `json:"guesses"`
	// The delta of the bound, by default training.privacy.delta, which it must equal with noise; 1e-5
	// without.
	Delta float64 `json:"delta" range:"[0,1)"`
	// Probability with which the bound holds.
	Confidence numbers.Probability `json:"confidence" default:"95%" range:"(0,1)" source:"Steinke et al. 2023"`
	// Adds a test by the training's trade-off curve: the noise that the guesses refute.
	TradeOff bool `json:"trade_off,omitempty" source:"Mahloujifar et al. 2024"`
	// Guesses by the trained model alone, for an external model without an untrained one. Chosen after
	// training, it voids the confidence.
	PlainLoss bool `json:"plain_loss,omitempty" when:"model.kind=external"`
}

// Guesses are fixed before the model is there.
type Guesses struct {
	// Canaries guessed to be in, those whose loss fell most; by default an eighth, rounded up, of vectors
	// three eighths.
	KPlus int `json:"k_plus" range:"[0,1000000]" unit:"canaries" also:"in k+" source:"Steinke et al. 2023"`
	// Canaries guessed to be out, those whose loss fell least; by default likewise.
	KMinus int `json:"k_minus" range:"[0,1000000]" unit:"canaries" also:"out k-" source:"Steinke et al. 2023"`
	// Halvings of both numbers, down to 1. The best bound is reported; all share 1 - confidence.
	Halvings int `json:"halvings,omitempty" range:"[0,20]"`
}

// choices returns the numbers of guesses of the file, and their halves.
func (g Guesses) choices() []Guesses {
	choices := []Guesses{{KPlus: g.KPlus, KMinus: g.KMinus}}
	for range g.Halvings {
		g.KPlus, g.KMinus = (g.KPlus+1)/2, (g.KMinus+1)/2
		if last := choices[len(choices)-1]; g.KPlus == last.KPlus && g.KMinus == last.KMinus {
			break
		}
		choices = append(choices, Guesses{KPlus: g.KPlus, KMinus: g.KMinus})
	}
	return choices
}

const path = "audit.one_run"

func (f *Fields) Complete(s *audits.Setting, given func(path string) bool) {
	o := f.OneRun
	if !given(path + ".delta") {
		o.Delta = s.DefaultDelta()
	}
	if !o.Vectors() && !given(path+".design") {
		o.Design = s.Design
	}
	if o.ofImages(s) && !given(path+".words") {
		o.Words = 0
	}
	part := (o.Canaries + 7) / 8
	if o.Vectors() {
		o.completeVectors(given)
		part = max(1, 3*o.Canaries/8)
	}
	if !given(path + ".guesses.k_plus") {
		o.Guesses.KPlus = part
	}
	if !given(path + ".guesses.k_minus") {
		o.Guesses.KMinus = min(part, max(0, o.Canaries-o.Guesses.KPlus))
	}
}

// Check implements audits.Fields: the audit must be the experiment of its theorem, and its bound must be able
// to exceed 0.
func (f *Fields) Check(s *audits.Setting, fail audits.Fail) {
	o := f.OneRun
	guesses, k := []string{path + ".guesses", path + ".canaries"}, o.Guesses.KPlus+o.Guesses.KMinus
	fail.If(o.TradeOff && o.Delta == 0, []string{path + ".delta", path + ".trade_off"}, "is 0, where no noise has a finite epsilon to compare; expected a number above 0, or no trade_off")
	switch {
	case fail.If(o.Canaries == 0, []string{path + ".canaries"}, "missing; expected how many canaries are drawn for this audit alone, such as 1000, each in a user of its own by a fair coin: those of the canaries block are inserted by user_probability, and cannot serve"):
	case fail.If(k > o.Canaries || k == 0, guesses, "are %d (k_plus %d, k_minus %d); expected from 1 to %d, the canaries of the audit", k, o.Guesses.KPlus, o.Guesses.KMinus, o.Canaries):
	case o.CheckTraining(s, fail) && !s.CheckDelta(fail, path+".delta", o.Delta, "the two bounds"):
		o.checkPower(guesses, fail)
	}
}

// CheckTraining reports trainings that do not fit the canaries.
func (o *Block) CheckTraining(s *audits.Setting, fail audits.Fail) (ok bool) {
	p, vectors := s.Training, o.Vectors()
	switch {
	case vectors && !o.checkVectors(s, fail),
		fail.If(o.Statistic != "" && !vectors, []string{path + ".statistic", path + ".canaries_of"}, "is evidence about vectors, and the canaries are text; remove it"),
		fail.If(!vectors && p.Central && p.NoiseMultiplier > 0 && p.Sampling.Neighbouring() != privacy.ReplaceOne, []string{path, "training.sampling"},
			"replaces records by its coins, and the bound for training.sampling: %s is about adding or removing one; set training.sampling to shuffled or fixed-size", p.Sampling),
		fail.If(o.PlainLoss && s.Program != nil, []string{path + ".plain_loss", "training.client_command"}, "does without the untrained model, which a program of training.client_command draws; remove it"),
		fail.If(o.TradeOff && s.External != nil, []string{path + ".trade_off", "model.kind"}, "refutes noise by the training's trade-off curve, and the training is not ours; remove it"):
		return false
	case fail.If(s.Reading.Label != "", []string{path, "data.label"}, "measures models of words or of images with one class each, and the model predicts the %s of each example (data.label); set it to null for this cell", s.Reading.Label):
		return false
	case o.ofImages(s):
		o.checkImages(s, fail)
	case !vectors:
		fail.If(o.Design == canaries.LearnedWords && (s.External != nil || s.Program != nil), []string{path + ".design", "training.algorithm", "training.client_command"},
			"is learned, by gradients at the initial model, and a program trains this one; set it to own-word")
		fail.If(o.Design == canaries.LearnedWords && o.Canaries > maxLearned, []string{path + ".canaries", path + ".design"},
			"is %d; expected at most %d learned canaries, because each is compared with all others", o.Canaries, maxLearned)
		o.checkRoom(s, fail)
	}
	return true
}

func (o *Block) checkRoom(s *audits.Setting, fail audits.Fail) {
	space := o.space(s)
	if fail.If(o.Design == canaries.Mislabelled, []string{path + ".design", "data.level"}, "is %s, and texts have no label of their own: a model of texts predicts each next word, and random and rare-words draw it independently of the words before; expected one of random, rare-words, own-word and learned, or images (data.level: image)", o.Design) {
		return
	}
	if fail.If(!o.Design.Random() && !(s.Reading.Level.IsZero() && space.Free()), []string{path + ".design", "data.level", "canaries.alphabet"}, "is %s, which chooses among the words of a vocabulary by their frequency; expected data.level: word, and canaries without an alphabet", o.Design) {
		return
	}
	over := fmt.Sprintf("words over a vocabulary of %d", s.Ordinary)
	if space.Alphabet != "" {
		over = fmt.Sprintf("symbols over the alphabet %s", space.Alphabet)
	}
	room, longest := o.Design.Sequences(space, s.Ordinary), s.Reading.Sequence
	fail.If(float64(2*o.Canaries) > room, []string{path + ".canaries", path + ".words", "data.vocabulary.size", "canaries.alphabet"},
		"is %d; expected at most half of the %.0f sequences of %d %s", o.Canaries, room, o.Words, over)
	fail.If(o.Words > longest, []string{path + ".words", "data.sequence"}, "is %d; expected at most data.sequence, %d", o.Words, longest)
}

// checkPower rejects an audit whose bound is 0 even if all guesses are right.
func (o *Block) checkPower(guesses []string, fail audits.Fail) {
	k := o.Guesses.KPlus + o.Guesses.KMinus
	if o.largest() > 0 {
		return
	}
	fail(append(guesses, path+".confidence", path+".delta"),
		"are %d, and were all of them right, no epsilon above 0 would be certified with %s confidence at delta %g; make more guesses, or use more canaries", k, o.Confidence, o.Delta)
}

// largest returns the bound if all guesses are right, without the trade-off curve.
func (o *Block) largest() float64 {
	k := o.Guesses.KPlus + o.Guesses.KMinus
	best, err := empirical.LowerBound(empirical.Outcome{Units: o.Canaries, Guesses: k, Correct: k}, o.Delta, each(o.Confidence.Float64(), len(o.Guesses.choices())))
	if err != nil {
		return math.Inf(1)
	}
	return best.Epsilon
}

func (f *Fields) CheckData(_ *audits.Setting, d *audits.Data, fail audits.Fail) {
	o, paths := f.OneRun, []string{path + ".canaries"}
	fail.If(o.CanariesOf == Gradient && o.Canaries > d.Examples, paths, "is %d; expected at most %d, the records of %s: each gives its place to one", o.Canaries, d.Examples, d.Source)
	fail.If(o.CanariesOf != Gradient && o.Canaries > d.Users, paths, "is %d; expected at most %d, the balanced users of %s: each carries one", o.Canaries, d.Users, d.Source)
}

func (f *Fields) Warnings(s *audits.Setting, d *audits.Data) []string {
	warnings := f.OneRun.powerless(s, d)
	share := float64(f.OneRun.Canaries) / 2 / float64(d.Users)
	if share <= audits.MaxReplaced || s.Training.Central {
		return warnings
	}
	return append(warnings, fmt.Sprintf("audit.one_run replaces the data of about %s of the users; above %g%% its canaries change the model: the bound holds, but utility and memorization are those of the changed data", readable.Share(share), 100*audits.MaxReplaced))
}

// powerless warns of bounds that cannot contradict the claim even if all guesses are right.
func (o *Block) powerless(s *audits.Setting, d *audits.Data) []string {
	largest, recipe := o.largest(), s.Claim(d)
	if s.External != nil || recipe.NoiseMultiplier == 0 {
		return nil
	}
	proved, err := privacy.Account(recipe)
	if err != nil || math.IsInf(float64(proved.EpsilonProved), 1) || largest >= float64(proved.EpsilonProved) {
		return nil
	}
	curve, remedy := "", "use more canaries or guesses, or trade_off: true"
	if o.TradeOff {
		if o.contradicts(s, recipe) {
			return nil
		}
		curve, remedy = ", and the trade-off curve is not refuted", "use more canaries or guesses"
	}
	k := o.Guesses.KPlus + o.Guesses.KMinus
	return []string{fmt.Sprintf("audit.one_run is powerless against the proved epsilon of %s: with %d right guesses of %d the bound is %s%s; %s",
		proved.EpsilonProved, k, k, privacy.Epsilon(largest), curve, remedy)}
}

// contradicts reports whether guesses that are all right refute the trade-off curve of a claim. It is true if
// the curve is unknown.
func (o *Block) contradicts(s *audits.Setting, claim privacy.Recipe) bool {
	curve, err := SharedCurve(claim)
	refutes := o.refutes(s, curve, 1-each(o.Confidence.Float64(), len(o.Guesses.choices())))
	return err != nil || slices.ContainsFunc(o.Guesses.choices(), func(g Guesses) bool {
		k := g.KPlus + g.KMinus
		return refutes(empirical.Outcome{Units: o.Canaries, Guesses: k, Correct: k})
	})
}

// space returns the space of the canaries: at the byte level over the alphabet of the other canaries, of the
// first format.
func (o *Block) space(s *audits.Setting) canaries.Space {
	space := canaries.Space{Words: o.Words}
	if s.Canaries == nil {
		return space
	}
	if first := s.Canaries.Groups[0]; first.Alphabet != "" {
		space.Alphabet, space.Symbols, space.SymbolBytes = first.Alphabet, first.Symbols, first.SymbolBytes
		space.Words *= max(1, first.SymbolBytes)
	}
	return space
}

// coins returns coins that stand for the change of the privacy bound.
func (o *Block) coins(s *audits.Setting) CoinsParams {
	p := CoinsParams{Seed: s.Seed, Canaries: o.Canaries, Space: o.space(s), Unit: RecordUnit, Neighbouring: privacy.ReplaceOne}
	if !o.Design.Random() {
		p.Design = o.Design
	}
	if o.ofImages(s) {
		p.Words, p.Classes = s.Reading.Sequence, s.Reading.Image.Classes
	}
	if s.External != nil { // which claims nothing: a coin is all of a user
		p.Unit = UserUnit
	} else if !s.Training.Central {
		p.Unit, p.Neighbouring = UserUnit, s.Training.Sampling.Neighbouring()
	}
	return p
}

// Neighbouring returns the change that a coin stands for.
func (o *Block) Neighbouring(s *audits.Setting) privacy.Neighbouring {
	if o.Vectors() {
		return s.Training.Sampling.Neighbouring()
	}
	return o.coins(s).Neighbouring
}

// Plant implements audits.Planter. Vectors are not in the data.
func (f *Fields) Plant(b audits.Builder) storage.Key {
	if f.OneRun.Vectors() {
		return b.Population()
	}
	params := f.OneRun.coins(b.Setting())
	inputs := []tasks.Input{{Name: PopulationInput, Key: b.Population()}, {Name: ShardsInput, Key: b.Shards()}, {Name: population.PartsInput, Key: b.Parts()}}
	if params.Design == canaries.LearnedWords {
		learned := b.Node(Learned, "learned canaries of the one-run audit", LearnedParams{Seed: params.Seed, Canaries: params.Canaries, Space: params.Space, Passes: learnedPasses},
			append(inputs, tasks.Input{Name: InitialInput, Key: b.Initial()})...)
		inputs = append(inputs, tasks.Input{Name: LearnedInput, Key: learned})
	}
	return b.Node(Coins, "coins of the one-run audit", params, inputs...)
}

func (f *Fields) Compile(b audits.Builder, round int) storage.Key {
	o, s := f.OneRun, b.Setting()
	params := BoundParams{
		KPlus: o.Guesses.KPlus, KMinus: o.Guesses.KMinus, Delta: o.Delta, Confidence: o.Confidence.Float64(), Halvings: o.Guesses.Halvings,
		Neighbouring: o.Neighbouring(s), Unit: s.Training.Unit, Program: s.Program,
	}
	model := tasks.Input{Name: audits.ModelInput, Key: b.Model(round)}
	if o.Vectors() {
		return f.compileVectors(b, params, model)
	}
	units := tasks.Input{Name: UnitsInput, Key: b.Planted(f)}
	if s.External != nil {
		params.Model, params.Plain = s.External, o.PlainLoss
		return b.Node(Scored, "one-run audit by scores", params, model, units, tasks.Input{Name: population.PartsInput, Key: b.Parts()})
	}
	joined := f.joined(b)
	if o.TradeOff {
		params.Null = NewNull(&s.Training)
		params.Null.Joined = joined != nil
	}
	inputs := []tasks.Input{model, {Name: InitialInput, Key: b.Initial()}, units}
	return b.Node(Bound, "one-run audit", params, audits.ByProgram(b, append(inputs, joined...)...)...)
}

// joined returns the training population if other audits have added users to that of the coins, and a
// trade-off curve depends on their number.
func (f *Fields) joined(b audits.Builder) []tasks.Input {
	if p := b.Population(); f.OneRun.TradeOff && p != b.Planted(f) {
		return []tasks.Input{{Name: PopulationInput, Key: p}}
	}
	return nil
}

// Carriers returns the expected numbers of training users that hold canaries in place of their data, and of those
// whose data the coins remove. Both are 0 if canaries are vectors or records.
func (f *Fields) Carriers(s *audits.Setting) (replaced, removed float64) {
	if f.OneRun.Vectors() || s.Training.Central {
		return 0, 0
	}
	replaced = float64(f.OneRun.Canaries) / 2
	if f.OneRun.Neighbouring(s) != privacy.ReplaceOne {
		removed = replaced
	}
	return replaced, removed
}

// States implements audits.Scorer: the canaries under two models; vectors are scored by the training.
func (f *Fields) States(s *audits.Setting) float64 {
	if f.OneRun.ofImages(s) {
		return 2 * float64(f.OneRun.Canaries) // an image has one target
	}
	states := 2 * float64(f.OneRun.Canaries*f.OneRun.Words)
	if f.OneRun.Design == canaries.LearnedWords { // a gradient of all words for each proposal
		states += float64(states * gradientCost / 2 * float64(1+learnedPasses*(widerProposals+f.OneRun.Words)))
	}
	return states
}

// gradientCost is the cost of a gradient in scorings.
const gradientCost = 3

// searchWork is the work of the search for the least noise that guesses do not refute, by the loss
// distributions of sampled cohorts: with examples/controls-small.yaml a core that trains with 75 GFLOP/s
// takes 1.5 seconds.
const searchWork = 1.1e11

// guessWork is the work of such a search for each canary without sampling, from the laws of correct guesses alone:
// with the 1,000 canaries of examples/one-run-update.yaml a core with 270 GFLOP/s takes 0.3 seconds.
const guessWork = 2.4e7

func (f *Fields) Work(s *audits.Setting) float64 {
	if f.OneRun.TradeOff {
		return SearchWork(&s.Training) + float64(guessWork*float64(f.OneRun.Canaries))
	}
	return 0
}

// SearchWork returns the work of a bound by the trade-off curve of a training. Without sampling a round is a
// Gaussian mechanism, whose curve needs no search.
func SearchWork(t *audits.Training) float64 {
	if NewNull(t).sampled() {
		return searchWork
	}
	return 0
}

// Outcome is a lower bound on epsilon and its evidence.
type Outcome struct {
	// Canaries is m in the paper, Included the number of heads.
	Canaries int `json:"canaries" doc:"canaries of the one-run audit, each with a coin"`
	Included int `json:"included" doc:"canaries in the training data"`
	// KPlus canaries are guessed to be in, KMinus to be out. Correct is the number of right guesses.
	KPlus   int `json:"k_plus" doc:"one-run guesses that a canary was in the training data"`
	KMinus  int `json:"k_minus" doc:"one-run guesses that a canary was not in the training data"`
	Correct int `json:"correct" doc:"right one-run guesses"`
	// EpsilonLower holds at Delta with Confidence.
	EpsilonLower float64 `json:"epsilon_lower"`
	Delta        float64 `json:"delta" doc:"delta at which the one-run bounds hold"`
	Confidence   float64 `json:"confidence" doc:"confidence of the one-run bounds, from 0 to 1"`
	// EpsilonLargest is the bound if all these guesses were right, EpsilonLargestCanaries if all coins were
	// guessed correctly: the audit cannot distinguish larger epsilons.
	EpsilonLargest         float64 `json:"epsilon_largest" doc:"one-run bound if all guesses were right"`
	EpsilonLargestCanaries float64 `json:"epsilon_largest_canaries" doc:"one-run bound if all coins were guessed correctly: the audit cannot prove more"`

	Neighbouring privacy.Neighbouring `json:"neighbouring" doc:"neighbouring relation of the one-run bounds"`
	Unit         string               `json:"unit" doc:"unit of the privacy that one run bounds, such as user"`
	Score        string               `json:"score"`
	// Choices is the number of tried pairs of KPlus and KMinus, each with its share of 1 - Confidence; 0 for
	// one pair.
	Choices  int       `json:"choices,omitempty" doc:"number of tried pairs of k_plus and k_minus, each with its share of the error probability; 0 for one pair"`
	TradeOff *TradeOff `json:"trade_off,omitempty" doc:"by the trade-off function"`
	// Ceilings are approximately the most that the audit can prove about a training that is as private as it
	// claims, from the strongest attacker to the weakest; only with TradeOff and a claim.
	Ceilings []Ceiling `json:"ceilings,omitempty" doc:"approximate maximum for a training as private as it claims"`
	// Estimate is not a bound. Only canaries scored by ScoreLikelihood have one.
	Estimate *empirical.GaussianEstimate `json:"estimate,omitempty" doc:"from the scores"`
	Units    []Unit                      `json:"units,omitempty"`
}

// Unit is a canary of the audit.
type Unit struct {
	Words []string `json:"words"`
	// Score is higher if the training made the canary more likely.
	Score float64 `json:"score" doc:"score, higher if the training made the canary likelier"`
	// Included reports whether the canary was in the training data: the coin.
	Included bool `json:"included"`
	// Guess is "in", "out" or "abstained".
	Guess empirical.Answer `json:"guess"`
}

func (v *Outcome) own() []audits.OwnCanary {
	return lists.Make(len(v.Units), func(i int) audits.OwnCanary {
		return audits.OwnCanary{Words: v.Units[i].Words, CanaryOutcome: &v.Units[i]}
	})
}

// text returns the bound, and the largest bound that the audit could have found.
func (v *Outcome) text() string {
	return fmt.Sprintf("%s (%s)", privacy.Epsilon(v.EpsilonLower), privacy.Epsilon(v.EpsilonLargest))
}

// Note implements audits.Noter. It qualifies every epsilon.
func (v *Outcome) Note(c *audits.Cell) string {
	return fmt.Sprintf("one-run audit: epsilon at least %s at delta %g with %g%% confidence (%s, unit %s, score %s): "+
		"%d of %d guesses about %d canaries are right; all of them would certify %s, as many as canaries %s%s%s",
		privacy.Epsilon(v.EpsilonLower), v.Delta, 100*v.Confidence, v.Neighbouring, v.Unit, v.Score,
		v.Correct, v.KPlus+v.KMinus, v.Canaries, privacy.Epsilon(v.EpsilonLargest), privacy.Epsilon(v.EpsilonLargestCanaries),
		v.contradiction(c.Privacy), v.TradeOff.note()+v.beside())
}

func (t *TradeOff) note() string {
	if t == nil {
		return ""
	}
	text := "; by the trade-off curve of the training no noise is refuted"
	if t.NoiseMultiplier != nil {
		text = fmt.Sprintf("; by the trade-off curve of the training %d of %d guesses refute noise multipliers from %.3g on, of which epsilon %s is proved",
			t.Correct, t.KPlus+t.KMinus, *t.NoiseMultiplier, t.EpsilonLower)
	}
	if t.Independent {
		text += fmt.Sprintf(" (canaries do not hide each other; all of them would refute %s)", t.EpsilonLargest)
	}
	if t.Refuted {
		text += fmt.Sprintf(", and with them the CLAIMED one (p %.2g): repeat it with other seeds, and if it stays so, the training is not as private as was proved", t.PValue)
	}
	return text
}

// contradiction warns of bounds that cross, as for one correct training in twenty at 95% confidence, and
// every wrong one; or of bounds that cannot cross, which prove nothing.
func (v *Outcome) contradiction(proved *privacy.Report) string {
	switch {
	case proved == nil || math.IsInf(float64(proved.EpsilonProved), 1):
		return ""
	case v.EpsilonLower > float64(proved.EpsilonProved):
		return AboveProved(proved)
	case v.EpsilonLargestCanaries >= float64(proved.EpsilonProved) || v.curveContradicts(proved):
		return ""
	}
	of := ""
	if v.TradeOff != nil {
		of = ", and the trade-off curve is not refuted,"
	}
	return fmt.Sprintf("; POWERLESS against epsilon_proved %s: this bound is below it%s however good the guesses are; use more canaries", proved.EpsilonProved, of)
}

// AboveProved returns the warning of a lower bound above the proved epsilon.
func AboveProved(proved *privacy.Report) string {
	return fmt.Sprintf("; this is ABOVE epsilon_proved %s: repeat it with other seeds, and if it stays so, the training is not as private as was proved", proved.EpsilonProved)
}

// EpsilonAtLeast implements audits.LowerBounder.
func (v *Outcome) EpsilonAtLeast() privacy.Epsilon {
	if t := v.TradeOff; t != nil && t.NoiseMultiplier != nil {
		return max(privacy.Epsilon(v.EpsilonLower), t.EpsilonLower)
	}
	return privacy.Epsilon(v.EpsilonLower)
}

var limits = []audits.Limit{
	LowerBound("epsilon_lower", "Lower bound on epsilon of the one-run audit.", func(v *Outcome) (value float64, holds, missing string) {
		if v.Canaries == 0 {
			return 0, "", "the audit has no canaries"
		}
		return v.EpsilonLower, Holds(v.Neighbouring, v.Delta, v.Confidence), ""
	}, confidence, nil),
	LowerBound("trade_off_epsilon_lower", "Lower bound on epsilon by the trade-off curve (`one_run.trade_off`).", func(v *Outcome) (value float64, holds, missing string) {
		if v.TradeOff == nil {
			return 0, "", "the audit has no trade_off"
		}
		return float64(v.TradeOff.EpsilonLower), fmt.Sprintf("at delta %g with %g%% confidence", v.Delta, 100*v.Confidence), ""
	}, confidence, func(s *audits.Setting, _ float64, fail audits.Fail) {
		f, asked := audits.FieldsOf[*Fields](s)
		fail.If(asked && !f.OneRun.TradeOff, []string{"audit.fail_if.trade_off_epsilon_lower", path + ".trade_off"}, "limits a bound that is not computed; set %s.trade_off", path)
	}),
}

func confidence(f *Fields) numbers.Probability { return f.OneRun.Confidence }

// Holds describes the conditions of a bound.
func Holds(n privacy.Neighbouring, delta, confidence float64) string {
	return fmt.Sprintf("%s, at delta %g with %g%% confidence", n, delta, 100*confidence)
}

// LowerBound returns the limit on a lower bound of epsilon, which fails with probability at most 1 - confidence. find
// returns the bound with its conditions, or the reason why there is none. check may be nil.
func LowerBound[V any, F audits.Fields](name, doc string, find func(V) (value float64, holds, missing string), confidence func(F) numbers.Probability, check func(*audits.Setting, float64, audits.Fail)) audits.Limit {
	return audits.LimitOf[float64]{
		Name: name, Doc: doc, Range: "[0,1e9]", Check: check,
		Breaches: audits.Judged(name, func(v V, limit float64) []string {
			value, holds, missing := find(v)
			if missing != "" {
				return audits.NoValue(name, missing)
			}
			return audits.AboveLimit(fmt.Sprintf("%s (%s)", name, holds), value, limit)
		}),
		FalseAlarms: audits.Alarms(func(f F, _ *audits.Setting, limit float64) []audits.FalseAlarm {
			return []audits.FalseAlarm{{Limit: name, Allowed: limit, Trials: 1, Unit: "audits", Probability: 1 - confidence(f).Float64()}}
		}),
	}.Limit()
}
