package onerun

import (
	"fmt"
	"math"
	"slices"

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
	// Words of a text canary: random over the vocabulary, by default; rare-words, over its least frequent
	// tenth; own-word, one rare word repeated, which no other canary has; learned, own words exchanged until
	// the gradients at the initial model hardly overlap.
	Design Design `json:"design,omitempty"`
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
	part := (o.Canaries + 7) / 8
	if o.Vectors() {
		o.completeVectors(given)
		part = max(1, 3*o.Canaries/8)
	}
	if !given(path + ".guesses.k_plus") {
		o.Guesses.KPlus = part
	}
	if !given(path + ".guesses.k_minus") {
		o.Guesses.KMinus = part
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
	case !vectors:
		fail.If(o.Design == LearnedWords && (s.External != nil || s.Program != nil), []string{path + ".design", "training.algorithm", "training.client_command"},
			"is learned, by gradients at the initial model, and a program trains this one; set it to own-word")
		fail.If(o.Design == LearnedWords && o.Canaries > maxLearned, []string{path + ".canaries", path + ".design"},
			"is %d; expected at most %d learned canaries, because each is compared with all others", o.Canaries, maxLearned)
		o.checkRoom(s, fail)
	}
	return true
}

func (o *Block) checkRoom(s *audits.Setting, fail audits.Fail) {
	space := o.space(s)
	if fail.If(o.designed() && !(s.Reading.Level.IsZero() && space.Free()), []string{path + ".design", "data.level", "canaries.alphabet"}, "is %s, which chooses among the words of a vocabulary by their frequency; expected data.level: word, and canaries without an alphabet", o.Design) {
		return
	}
	over := fmt.Sprintf("words over a vocabulary of %d", s.Ordinary)
	if space.Alphabet != "" {
		over = fmt.Sprintf("symbols over the alphabet %s", space.Alphabet)
	}
	room, longest := o.Design.sequences(space, s.Ordinary), s.Reading.Sequence
	fail.If(float64(2*o.Canaries) > room, []string{path + ".canaries", path + ".words", "data.vocabulary.size", "canaries.alphabet"},
		"is %d; expected at most half of the %.0f sequences of %d %s", o.Canaries, room, o.Words, over)
	fail.If(o.Words > longest, []string{path + ".words", "data.sequence"}, "is %d; expected at most data.sequence, %d", o.Words, longest)
}

// checkPower rejects an audit whose bound is 0 even if all guesses are right.
func (o *Block) checkPower(guesses []string, fail audits.Fail) {
	k := o.Guesses.KPlus + o.Guesses.KMinus
	confidence := each(o.Confidence.Float64(), len(o.Guesses.choices()))
	best, err := empirical.LowerBound(empirical.Outcome{Units: o.Canaries, Guesses: k, Correct: k}, o.Delta, confidence)
	if err != nil || best.Epsilon > 0 {
		return
	}
	fail(append(guesses, path+".confidence", path+".delta"),
		"are %d, and were all of them right, no epsilon above 0 would be certified with %s confidence at delta %g; make more guesses, or use more canaries", k, o.Confidence, o.Delta)
}

func (f *Fields) CheckData(_ *audits.Setting, d *audits.Data, fail audits.Fail) {
	o, paths := f.OneRun, []string{path + ".canaries"}
	fail.If(o.CanariesOf == Gradient && o.Canaries > d.Examples, paths, "is %d; expected at most %d, the records of %s: each gives its place to one", o.Canaries, d.Examples, d.Source)
	fail.If(o.CanariesOf != Gradient && o.Canaries > d.Users, paths, "is %d; expected at most %d, the balanced users of %s: each carries one", o.Canaries, d.Users, d.Source)
}

func (f *Fields) Warnings(s *audits.Setting, d *audits.Data) []string {
	share := float64(f.OneRun.Canaries) / 2 / float64(d.Users)
	if share <= audits.MaxReplaced || s.Training.Central {
		return nil
	}
	return []string{fmt.Sprintf("audit.one_run replaces the data of about %s of the users (%s); above %g%% its canaries change what the model learns: the bound holds, utility and memorization are those of such data", readable.Share(share), d.Label, 100*audits.MaxReplaced)}
}

// space is the space of the canaries: at the byte level over the alphabet of the other canaries, of
// the first format.
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

func (o *Block) designed() bool { return o.Design != "" && o.Design != RandomWords }

// coins returns coins that stand for the change of the privacy bound.
func (o *Block) coins(s *audits.Setting) CoinsParams {
	p := CoinsParams{Seed: s.Seed, Canaries: o.Canaries, Space: o.space(s), Unit: RecordUnit, Neighbouring: privacy.ReplaceOne}
	if o.designed() {
		p.Design = o.Design
	}
	if s.External != nil { // which claims nothing: a coin is all of a user
		p.Unit = UserUnit
	} else if !s.Training.Central {
		p.Unit, p.Neighbouring = UserUnit, s.Training.Sampling.Neighbouring()
	}
	return p
}

// Neighbouring is the change that a coin stands for.
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
	if params.Design == LearnedWords {
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

// joined is the training population if other audits have added users to that of the coins, and a trade-off
// curve depends on their number.
func (f *Fields) joined(b audits.Builder) []tasks.Input {
	if p := b.Population(); f.OneRun.TradeOff && p != b.Planted(f) {
		return []tasks.Input{{Name: PopulationInput, Key: p}}
	}
	return nil
}

// States implements audits.Scorer: the canaries under two models; vectors are scored by the training.
func (f *Fields) States(*audits.Setting) float64 {
	states := 2 * float64(f.OneRun.Canaries*f.OneRun.Words)
	if f.OneRun.Design == LearnedWords { // a gradient of all words for each proposal
		states += float64(states * gradientCost / 2 * float64(1+learnedPasses*(widerProposals+f.OneRun.Words)))
	}
	return states
}

// A gradient costs as much as three scorings.
const gradientCost = 3

// searchWork is the work of the search for the least noise that guesses do not refute, by the loss
// distributions of sampled cohorts: with examples/controls-small.yaml a core that trains with 75 GFLOP/s
// takes 1.5 seconds.
const searchWork = 1.1e11

func (f *Fields) Work(s *audits.Setting) float64 {
	if f.OneRun.TradeOff {
		return SearchWork(&s.Training)
	}
	return 0
}

// SearchWork is the work of a bound by the trade-off curve of a training. Without sampling a round is a
// Gaussian mechanism, whose curve needs no search.
func SearchWork(t *audits.Training) float64 {
	if NewNull(t).sampled() {
		return searchWork
	}
	return 0
}

// Design is a choice of the words of a text canary.
type Design string

// Designs. The empty Design is RandomWords.
const (
	// RandomWords are uniform over the vocabulary.
	RandomWords Design = "random"
	// RareWords are uniform over the least frequent tenth of it.
	RareWords Design = "rare-words"
	// OwnWord repeats one of the least frequent words, unique to the canary: the gradients of canaries are
	// orthogonal in the rows of their words.
	OwnWord Design = "own-word"
	// LearnedWords are OwnWord, exchanged by Learned.
	LearnedWords Design = "learned"
)

func (Design) Choices() []string {
	return []string{string(RandomWords), string(RareWords), string(OwnWord), string(LearnedWords)}
}

// rareShare: one word in rareShare is rare.
const rareShare = 10

func rare(words int) int { return (words + rareShare - 1) / rareShare }

// sequences is the number of canaries of a space over a vocabulary, all of which may be used; for OwnWord and
// LearnedWords, twice the number of words.
func (d Design) sequences(space canaries.Space, ordinary int) float64 {
	switch d {
	case RareWords:
		return math.Pow(float64(rare(ordinary)), float64(space.Words))
	case OwnWord, LearnedWords:
		return 2 * float64(ordinary)
	case RandomWords:
	}
	return space.Sequences(ordinary, 0)
}

// choices returns the possible tokens of a canary. Tokens ascend from the most frequent word.
func (d Design) choices(all [][]int32, canary int) [][]int32 {
	out := slices.Clone(all)
	for i, words := range out {
		switch n := len(words); d {
		case RareWords:
			out[i] = words[n-rare(n):]
		case OwnWord:
			out[i] = words[n-1-canary : n-canary]
		case RandomWords, LearnedWords:
		}
	}
	return out
}
