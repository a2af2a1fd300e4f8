package membership

import (
	"fmt"
	"math"
	"slices"

	"coalmine/internal/seeds"
	"coalmine/models/ranking"
	"coalmine/tasks/audits"
)

// world holds the users with targets. Attacks score these users.
type world struct {
	users []int
	all   int // number of users
	// prefixUsers and neighbourTexts are the same as in Params.
	prefixUsers, neighbourTexts int
	seed                        uint64
	of                          []UserLoss
	// target is the log-likelihood of each user under the audited model, the mean over targets in nats.
	// references is the same under the reference models, and in reports whether the user trained these:
	// [models][users].
	target     []float64
	references [][]float64
	in         [][]bool
	// texts of the users may be nil.
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
	if len(losses) != w.all {
		return fmt.Errorf("losses of %d users; expected those of %d, as of the audited model", len(losses), w.all)
	}
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
	v := &Outcome{LeftOut: w.all - len(w.users), References: len(w.references), Alike: alike(w.target), PrefixUsers: w.prefixUsers, NeighbourTexts: w.neighbourTexts}
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
	if o.Members, err = Tell(members, heldOut, w.seed); err != nil {
		return o, err
	}
	if o.Members != nil {
		o.Curve = rocCurve(members, heldOut)
	}
	if !attack.tellsSharers() {
		return o, nil
	}
	o.Sharers, err = Tell(sharers, heldOut, w.seed)
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

// overBlind is the area of an attack minus the area of the blind baseline; nil without a baseline, or with
// too few users.
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

// Tell compares the scores of users that trained with those of held-out ones. Scores must not be NaN. The
// result is nil with too few users in a group. The interval depends on the seed.
func Tell(members, heldOut []float64, seed uint64) (*Group, error) {
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
func Rates(members, heldOut []float64) (rates []Rate) {
	r := newRanking(members, heldOut)
	for _, rate := range falsePositives {
		rates = append(rates, r.rate(rate))
	}
	return rates
}

// scoreMean is NaN without such reference models.
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
