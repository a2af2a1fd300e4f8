package membership

import (
	"fmt"
	"iter"

	"coalmine/tasks/audits"
)

var limits = []audits.Limit{
	audits.LimitOf[float64]{
		Name: "membership_auc",
		Doc: "membership_auc limits the area under the receiver operating characteristic of every attack on the membership of users, those with canaries apart. " +
			"A cell is above it where the lower end of one of their 95% intervals is, or with fewer than two users of a sort.",
		Range: "[0.5,1)", Unit: "in place of 0.5 by chance",
		Breaches: audits.Judged(areaBreaches), Unjudged: audits.Judged(unjudgedAreas),
		FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
			users := 0
			if d := s.Data; d != nil {
				users = min(d.Users, d.HeldOutUsers)
			}
			return audits.FactorAlarms("membership_auc", limit, numbers(s), "AUCs", users, 1)
		},
	}.Limit(),
	audits.LimitOf[float64]{
		Name:  "membership_tpr",
		Doc:   "membership_tpr limits the share of users that are found at 1% false positives, likewise. A cell where it can't be estimated is above it.",
		Range: "[0.01,1)", Unit: "of the users that trained",
		Breaches: audits.Judged(rateBreaches), Unjudged: audits.Judged(unjudgedRates),
		FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
			heldOut := 0
			if d := s.Data; d != nil {
				heldOut = d.HeldOutUsers
			}
			alarms := audits.FactorAlarms("membership_tpr", limit, numbers(s), "rates", heldOut, 1)
			alarms[0].Fewest = needed(falsePositives[0])
			return alarms
		},
	}.Limit(),
}

// numbers is how many AUCs, or rates, a cell has.
func numbers(s *audits.Setting) int {
	n := 1
	if f, ok := audits.FieldsOf[*Fields](s); ok && f.Membership.ReferenceModels > 0 {
		n = len(attacks)
	}
	if s.Canaries != nil {
		n *= 2 // sharers apart
	}
	return n
}

func areaBreaches(v *Outcome, limit float64) []string {
	breaches := areas(v, limit).Breaches()
	if v.tooFew() {
		breaches = append(breaches, fmt.Sprintf("the AUC of membership can't be estimated, and so is not below the limit of %.4g: it takes %d users of each sort, and %d trained and %d are held out",
			limit, leastUsers, v.Members, v.HeldOut))
	}
	return breaches
}

// areas has judged the areas of all attacks.
func areas(v *Outcome, limit float64) *audits.Gate {
	areas := audits.Gate{Limit: limit}
	for _, o := range v.Attacks {
		for what, g := range o.groups() {
			areas.Number(fmt.Sprintf("the AUC of %s by %s", what, o.Attack.Title()), min(g.Users, v.HeldOut), g.AUC)
		}
	}
	return &areas
}

// unjudgedAreas are none of users without canaries: where these have no AUC, the limit is a breach.
func unjudgedAreas(v *Outcome, limit float64) []string {
	unjudged := areas(v, limit).Unjudged()
	for _, o := range v.Attacks {
		if o.Sharers == nil && v.Sharers > 0 {
			unjudged = append(unjudged, missing("the AUC of membership of users with canaries", &o, v.Sharers, v.HeldOut))
		}
	}
	return unjudged
}

func rateBreaches(v *Outcome, limit float64) (breaches []string) {
	for _, o := range v.Attacks {
		for what, g := range o.groups() {
			breaches = append(breaches, rateBreach(fmt.Sprintf("%s by %s", what, o.Attack.Title()), &g.Rates[0], limit)...)
		}
	}
	return breaches
}

// rateBreach is a breach by the share of users that are found.
func rateBreach(what string, r *Rate, limit float64) []string {
	if r.TruePositives == nil {
		return []string{fmt.Sprintf("the true-positive rate of %s can't be estimated, and so is not below the limit of %.4g: it takes %d held-out users", what, limit, r.Needed)}
	}
	return audits.Above(fmt.Sprintf("the true-positive rate of %s is %.4g; at least it", what, r.TruePositives.Share), r.TruePositives.Low, limit)
}

func unjudgedRates(v *Outcome, _ float64) (unjudged []string) {
	for _, o := range v.Attacks {
		if o.Members == nil {
			unjudged = append(unjudged, missing("the true-positive rate of membership", &o, v.Members, v.HeldOut))
		}
		if o.Sharers == nil && v.Sharers > 0 {
			unjudged = append(unjudged, missing("the true-positive rate of membership of users with canaries", &o, v.Sharers, v.HeldOut))
		}
	}
	return unjudged
}

// missing says of a number that a limit names why there is none.
func missing(what string, o *AttackOutcome, trained, heldOut int) string {
	return fmt.Sprintf("%s by %s, of too few users: it takes %d of each sort, and %d trained and %d are held out", what, o.Attack.Title(), leastUsers, trained, heldOut)
}

// groups are those of users that are told from held-out ones, with words for them.
func (o *AttackOutcome) groups() iter.Seq2[string, *Group] {
	return func(yield func(string, *Group) bool) {
		if o.Members != nil && !yield("membership", o.Members) {
			return
		}
		if o.Sharers != nil {
			yield("membership of users with canaries", o.Sharers)
		}
	}
}
