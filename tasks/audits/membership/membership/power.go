package membership

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"coalmine/internal/readable"
	"coalmine/tasks/audits"
)

// power returns the power of the first attack if scores are normal with equal deviations, and their AUC is
// that of the leak. Users with canaries are excluded.
func power(_ *Fields, s *audits.Setting, v *Outcome) (list []audits.Statement) {
	sizes := usersOf(s, v)
	if sizes == nil || min(sizes[0].N, sizes[1].N) < minUsers {
		return nil
	}
	leak := audits.Leak{Name: "AUC", Means: "the AUC of members is", Default: 0.6, Min: 0.5, Max: 0.9999}
	list = append(list, audits.Statement{
		Name: "auc", Finds: "the lower bound of the AUC is above 0.5", Limit: "membership_auc", Leak: leak, Sizes: sizes,
		Nothing: nothing(func(g *Group) bool { return g.AUC.Low > 0.5 }),
		Power:   func(q audits.Question) float64 { return areaPower(q.Leak, q.Sizes[0], q.Sizes[1], q.LimitOr(0.5)) },
		None:    none(areaPower(leak.Max, sizes[0].N, sizes[1].N, 0.5), sizes),
	})
	if rate := falsePositives[0]; sizes[1].N >= needed(rate) {
		list = append(list, audits.Statement{
			Name: "tpr", Finds: "the lower bound of the true-positive rate at 1% false positives is above 1%", Limit: "membership_tpr", Leak: leak, Sizes: sizes,
			Nothing: nothing(func(g *Group) bool { r := g.Rates[0].TruePositives; return r == nil || r.Low > rate }),
			Power: func(q audits.Question) float64 {
				return ratePower(q.Leak, q.Sizes[0], q.Sizes[1], rate, q.LimitOr(rate))
			},
			None: none(ratePower(leak.Max, sizes[0].N, sizes[1].N, rate, rate), sizes),
		})
	}
	return list
}

// none returns that users are too few if the power for the largest leak is about 0.
func none(power float64, sizes []audits.Size) string {
	if power > 1e-3 {
		return ""
	}
	return fmt.Sprintf("were %s told from %s without error, the interval would begin below chance", readable.Count(sizes[0].N, sizes[0].Unit), readable.Count(sizes[1].N, sizes[1].Unit))
}

// usersOf returns the numbers of members and of held-out users; nil if unknown.
func usersOf(s *audits.Setting, v *Outcome) []audits.Size {
	sizes := func(members, heldOut int) []audits.Size {
		return []audits.Size{{Unit: "member", N: members}, {Unit: "held-out user", N: heldOut}}
	}
	if v != nil {
		return sizes(v.Members, v.HeldOut)
	}
	if d := s.Data; d != nil {
		return sizes(d.Users-d.Carriers, d.HeldOutUsers)
	}
	return nil
}

// nothing reports whether no attack has a find among members.
func nothing(find func(*Group) bool) func(audits.Outcome) bool {
	return audits.From(func(v *Outcome) bool {
		found := slices.ContainsFunc(v.Attacks, func(o AttackOutcome) bool { return o.Members != nil && find(o.Members) })
		return len(v.Attacks) > 0 && !found
	})
}

// areaPower returns the probability that the lower end of an area is above a limit, by the normal
// approximation of the area and of its resamples. The placement of a member, the share of held-out users
// below it, has the variance Q - a², where Q = a - 2 T(z, 1/√3) is the probability that a member is above two
// held-out users, T Owen's function and z the normal quantile of the area a. Placements of held-out users
// have the same variance. The unseen users of the interval have the placement 0.
func areaPower(area float64, members, heldOut int, limit float64) float64 {
	z := mathext.NormalQuantile(area)
	variance := area - 2*owenT(z, 1/math.Sqrt(3)) - area*area
	m, n := float64(members), float64(heldOut)
	resampled := func(k float64) float64 { // the variance of a mean of k placements and a 0, by weights of the simplex
		return (k/(k+1)*variance + k*area*area/((k+1)*(k+1))) / (k + 2)
	}
	shrink := m / (m + 1) * n / (n + 1)
	low := area*shrink - mathext.NormalQuantile((1+audits.Confidence)/2)*math.Sqrt(resampled(m)+resampled(n))
	return distuv.UnitNormal.CDF((low - limit) / (shrink * math.Sqrt(variance*(1/m+1/n))))
}

// owenT returns Owen's function (1956): the integral of exp(-h²(1+x²)/2) / (2π(1+x²)) from 0 to a.
func owenT(h, a float64) float64 {
	const places = 32
	return quad.Fixed(func(x float64) float64 { return math.Exp(-h*h*(1+x*x)/2) / (1 + x*x) }, 0, a, places, nil, 0) / (2 * math.Pi)
}

// ratePower returns the probability that the lower end of a rate of true positives is above a limit. The
// share of all held-out users above the held-out score at which it begins has a beta distribution; over the
// quantiles of that share the number of members above the score is binomial.
func ratePower(area float64, members, heldOut int, falsePositives, limit float64) float64 {
	const quantiles = 400
	fewest := audits.MinCertain(members, limit, rateTail)
	first := firstHeldOut(heldOut, falsePositives)
	if first == 0 || fewest > members {
		return 0
	}
	shift, power := math.Sqrt2*mathext.NormalQuantile(area), 0.0
	for i := range quantiles {
		above := mathext.InvRegIncBeta(float64(first), float64(heldOut-first+1), (float64(i)+0.5)/quantiles)
		found := distuv.UnitNormal.CDF(shift + mathext.NormalQuantile(above))
		power += audits.BinomialTail(fewest-1, members, found) / quantiles
	}
	return power
}
