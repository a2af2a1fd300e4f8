package membership

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
)

// Attack is a method to score users. Members score higher.
type Attack string

// Attacks, in the order of results, and the baseline without a model.
const (
	Loss         Attack = "loss"            // a lower loss is more likely a member (Yeom et al. 2018)
	Zlib         Attack = "zlib"            // loss per byte of the compressed text (Carlini et al. 2021)
	MinK         Attack = "min-k"           // mean log-likelihood of the least likely tokens (Shi et al. 2024)
	MinKPlusPlus Attack = "min-k-plus-plus" // likewise, standardized by the model's distribution (Zhang et al. 2025)
	Curvature    Attack = "curvature"       // excess likelihood over tokens that the model draws (Bao et al. 2024)
	ReCaLL       Attack = "recall"          // loss after texts that never trained, over the loss without them (Xie et al. 2024)
	Neighbour    Attack = "neighbours"      // excess loss of texts with other words (Mattern et al. 2023)
	LiRA         Attack = "lira"            // likelihood ratio, online (Carlini et al. 2022)
	LiRAOffline  Attack = "lira-offline"    // by reference models without the user
	RMIA         Attack = "rmia"            // pairwise likelihood ratios (Zarifzadeh et al. 2024)
	RMIAOffline  Attack = "rmia-offline"    // likewise, by reference models without the user
	Blind        Attack = "blind"           // only by the texts (Das et al. 2024)
)

// inputs are the inputs of an attack, except losses.
type inputs struct{ texts, tokens, wholes, prefix, neighbours, references bool }

// cover reports whether the inputs include those of an attack.
func (i inputs) cover(of inputs) bool {
	return (i.texts || !of.texts) && (i.tokens || !of.tokens) && (i.wholes || !of.wholes) &&
		(i.prefix || !of.prefix) && (i.neighbours || !of.neighbours) && (i.references || !of.references)
}

type description struct {
	name   Attack
	title  string
	needs  inputs
	scores func(*world) []float64
}

var attacks = []description{
	{Loss, "loss", inputs{}, func(w *world) []float64 { return w.target }},
	{Zlib, "zlib", inputs{texts: true}, (*world).zlib},
	{MinK, "Min-K%", inputs{tokens: true}, each(func(l *UserLoss) float64 { return l.MinK })},
	{MinKPlusPlus, "Min-K%++", inputs{wholes: true}, each(func(l *UserLoss) float64 { return l.MinKPlusPlus })},
	{Curvature, "curvature", inputs{wholes: true}, each(func(l *UserLoss) float64 { return l.Curvature })},
	{ReCaLL, "ReCaLL", inputs{prefix: true}, each((*UserLoss).recall)},
	{Neighbour, "neighbours", inputs{neighbours: true}, each(func(l *UserLoss) float64 { return (l.Neighbours - l.Loss) / float64(l.Targets) })},
	{LiRA, "LiRA", inputs{references: true}, (*world).lira},
	{LiRAOffline, "LiRA offline", inputs{references: true}, (*world).liraOffline},
	{RMIA, "RMIA", inputs{references: true}, func(w *world) []float64 { return w.rmia(everyModel) }},
	{RMIAOffline, "RMIA offline", inputs{references: true}, func(w *world) []float64 { return w.rmia(without) }},
}

// tellsSharers reports whether users with canaries are compared. Canaries have replaced some of their
// examples, and zlib takes more bytes per word for a shorter text, so that its score would depend on the
// length of the text, not on the model.
func (a Attack) tellsSharers() bool { return a != Zlib }

func (a Attack) Title() string {
	if d := a.description(); d != nil {
		return d.title
	}
	return string(a)
}

// description returns nil for the baseline.
func (a Attack) description() *description {
	return lists.Find(attacks, func(d *description) bool { return d.name == a })
}

func (w *world) inputs() inputs {
	lack := func(known func(l UserLoss) bool) bool {
		return slices.ContainsFunc(w.of, func(l UserLoss) bool { return !known(l) })
	}
	return inputs{
		texts:      w.texts != nil,
		tokens:     !lack(func(l UserLoss) bool { return l.ByToken }),
		wholes:     !lack(func(l UserLoss) bool { return l.ByDistribution() }),
		prefix:     w.PrefixUsers > 0,
		neighbours: w.NeighbourTexts > 0,
		references: w.references != nil,
	}
}

// each scores users by their losses under the audited model.
func each(score func(*UserLoss) float64) func(*world) []float64 {
	return func(w *world) []float64 {
		return w.scores(func(user int) float64 { return score(&w.of[user]) })
	}
}

// recall returns the loss after the prefix over the loss without it; NaN for users whose texts are the
// prefix. Unrelated text raises the loss of members more. The ratio for a loss of 0 is 1.
func (l *UserLoss) recall() float64 {
	switch {
	case l.Aside:
		return math.NaN()
	case l.Loss == 0:
		return 1
	default:
		return l.Prefixed / l.Loss
	}
}

// everyModel, with and without select reference models for a user, by whether they trained on the user.
func everyModel(bool) bool { return true }
func with(in bool) bool    { return in }
func without(in bool) bool { return !in }

// lira returns the log likelihood ratio of two normal distributions of a user's likelihood: under models with
// the user, and without. Each user has its own means; variances are common to all, as for few reference
// models.
func (w *world) lira() []float64 {
	varianceIn, varianceOut := w.variance(with), w.variance(without)
	return w.scores(func(user int) float64 {
		in, out := w.target[user]-w.scoreMean(user, with), w.target[user]-w.scoreMean(user, without)
		return float64(out*out)/varianceOut/2 - float64(in*in)/varianceIn/2 - math.Log(varianceIn/varianceOut)/2
	})
}

// liraOffline returns the number of standard deviations by which a user's likelihood exceeds that of models
// without the user. The paper's one-sided test increases with it.
func (w *world) liraOffline() []float64 {
	deviation := math.Sqrt(w.variance(without))
	return w.scores(func(user int) float64 {
		return (w.target[user] - w.scoreMean(user, without)) / deviation
	})
}

// minVariance keeps a ratio finite if all reference models agree.
const minVariance = 1e-24

// variance returns the mean over users of the variance of a user's likelihoods among the chosen models.
func (w *world) variance(chosen func(in bool) bool) float64 {
	squares, degrees := 0.0, 0
	for user := range w.users {
		mean := w.scoreMean(user, chosen)
		for model, likelihoods := range w.references {
			if chosen(w.in[model][user]) {
				apart := likelihoods[user] - mean
				squares += float64(apart * apart)
				degrees++
			}
		}
		degrees--
	}
	return max(minVariance, squares/float64(max(1, degrees)))
}

// rmia returns the share of the other held-out users with a lower likelihood ratio: the likelihood under the
// audited model over the mean under the chosen models.
func (w *world) rmia(chosen func(in bool) bool) []float64 {
	ratios := w.scores(func(user int) float64 {
		return w.target[user] - logMeanExp(w.scoresOf(user, chosen))
	})
	var others []float64
	for user, ratio := range ratios {
		if !w.of[user].Member {
			others = append(others, ratio)
		}
	}
	slices.Sort(others)
	return w.scores(func(user int) float64 {
		lower, of := sort.SearchFloat64s(others, ratios[user]), len(others)
		if !w.of[user].Member {
			of--
		}
		return float64(lower) / float64(max(1, of))
	})
}

// logMeanExp returns the logarithm of the mean of exp, without overflow; exact for equal numbers.
func logMeanExp(logs []float64) float64 {
	most, sum := slices.Max(logs), 0.0
	for _, l := range logs {
		sum += math.Exp(l - most)
	}
	return most + math.Log(sum/float64(len(logs)))
}

func (w *world) scores(score func(user int) float64) []float64 {
	return lists.Make(len(w.users), score)
}

// world holds the users with targets. Attacks score these users.
type world struct {
	users []int
	all   int // number of users
	Rescoring
	seed uint64
	of   []UserLoss
	// target is the log-likelihood of each user under the audited model, the mean over targets in nats.
	// references is the same under the reference models, and in reports whether the user trained these:
	// [models][users].
	target     []float64
	references [][]float64
	in         [][]bool
	// texts are the users' texts. It may be nil.
	texts []UserText
}

func newWorld(losses []UserLoss, seed uint64) *world {
	w := &world{all: len(losses), seed: seed}
	for user, l := range losses {
		if l.Targets > 0 {
			w.users, w.of, w.target = append(w.users, user), append(w.of, l), append(w.target, l.likelihood())
		}
	}
	return w
}

func (l *UserLoss) likelihood() float64 { return -l.Loss / float64(l.Targets) }

func (w *world) refer(losses []UserLoss, drawn []bool) error {
	likelihoods, in := make([]float64, len(w.users)), make([]bool, len(w.users))
	for i, user := range w.users {
		if losses[user].Targets != w.of[i].Targets {
			return fmt.Errorf("user %d has %d targets; expected %d, as under the audited model", user, losses[user].Targets, w.of[i].Targets)
		}
		likelihoods[i], in[i] = losses[user].likelihood(), drawn[user]
	}
	w.references, w.in = append(w.references, likelihoods), append(w.in, in)
	return nil
}

func (w *world) outcome() (*Outcome, error) {
	v := &Outcome{LeftOut: w.all - len(w.users), References: len(w.references), Alike: alike(w.target), Rescoring: w.Rescoring}
	for i := range w.of {
		switch {
		case !w.of[i].Member:
			v.HeldOut++
		case w.of[i].Replaced > 0:
			v.Sharers++
		default:
			v.Members++
		}
	}
	if v.HeldOut == 0 || v.Members+v.Sharers == 0 {
		return nil, fmt.Errorf("membership of %d users that trained and %d held-out ones, who have examples to predict; expected one of each at least: raise data.held_out_users.fraction, or lower it", v.Members+v.Sharers, v.HeldOut)
	}
	var blind []float64
	if w.texts != nil {
		blind = w.blind()
		o, err := w.attackOutcome(Blind, blind)
		if err != nil {
			return nil, fmt.Errorf("the blind baseline: %w", err)
		}
		v.Blind = &o
	}
	for _, attack := range attacks {
		if !w.inputs().cover(attack.needs) {
			continue
		}
		scores := attack.scores(w)
		o, err := w.attackOutcome(attack.name, scores)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", attack.title, err)
		}
		o.OverBlind = w.overBlind(scores, blind)
		v.Attacks = append(v.Attacks, o)
	}
	return v, nil
}

func alike(likelihoods []float64) bool {
	return len(likelihoods) > 1 && slices.Min(likelihoods) == slices.Max(likelihoods)
}

func (w *world) attackOutcome(attack Attack, scores []float64) (o AttackOutcome, err error) {
	members, sharers, heldOut := w.groups(scores, scores)
	o.Attack = attack
	if o.Members, err = CompareGroups(members, heldOut, w.seed); err != nil {
		return o, err
	}
	if o.Members != nil {
		o.Curve = rocCurve(members, heldOut)
	}
	if !attack.tellsSharers() {
		return o, nil
	}
	o.Sharers, err = CompareGroups(sharers, heldOut, w.seed)
	return o, err
}

// groups divides the scores of users. ReCaLL excludes the users whose texts are its prefix.
func (w *world) groups(scores, of []float64) (members, sharers, heldOut []float64) {
	for i, score := range scores {
		switch {
		case math.IsNaN(of[i]) && w.of[i].Aside:
		case !w.of[i].Member:
			heldOut = append(heldOut, score)
		case w.of[i].Replaced > 0:
			sharers = append(sharers, score)
		default:
			members = append(members, score)
		}
	}
	return members, sharers, heldOut
}

// overBlind returns the area of an attack minus the area of the blind baseline; nil without a baseline, or
// with too few users.
func (w *world) overBlind(scores, blind []float64) *audits.Interval {
	if blind == nil {
		return nil
	}
	members, _, heldOut := w.groups(scores, scores)
	blindMembers, _, blindHeldOut := w.groups(blind, scores)
	return areaDifference(members, heldOut, blindMembers, blindHeldOut)
}

// minUsers is the minimum number of users in each group for an AUC: one user has no spread.
const minUsers = 2

// CompareGroups compares the scores of users that trained with those of held-out ones. Scores must not be NaN. The
// result is nil with too few users in a group. The interval depends on the seed.
func CompareGroups(members, heldOut []float64, seed uint64) (*Group, error) {
	if min(len(members), len(heldOut)) < minUsers {
		return nil, nil
	}
	p, err := audits.MannWhitney(members, heldOut)
	if err != nil {
		return nil, err
	}
	return &Group{Users: len(members), AUC: newRanking(members, heldOut).auc(seeds.Stream(seed, seeds.MemberInterval)), P: p, Rates: Rates(members, heldOut)}, nil
}

// Rates returns the rates of true positives, at each rate of false positives.
func Rates(members, heldOut []float64) []Rate {
	return lists.Map(falsePositives, newRanking(members, heldOut).rate)
}

// scoreMean returns the mean likelihood of a user under the chosen reference models; NaN if there are none.
func (w *world) scoreMean(user int, chosen func(in bool) bool) float64 {
	return ranking.Mean(w.scoresOf(user, chosen))
}

// scoresOf returns the likelihoods of a user under the chosen reference models.
func (w *world) scoresOf(user int, chosen func(in bool) bool) (values []float64) {
	for model, likelihoods := range w.references {
		if chosen(w.in[model][user]) {
			values = append(values, likelihoods[user])
		}
	}
	return values
}
