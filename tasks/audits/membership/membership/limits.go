package membership

import (
	"fmt"
	"iter"

	"coalmine/tasks/audits"
)

var limits = []audits.Limit{
	audits.LimitOf[float64]{
		Name:     "membership_auc",
		Doc:      "Area under the ROC curve of every attack on the membership of users, those with canaries apart, by its lower 95% bound. Fails with fewer than two users of a kind.",
		Range:    "[0.5,1)",
		Breaches: audits.Judged("membership_auc", func(v *Outcome, limit float64) []string { return areas(v, limit).Breaches() }),
		Unjudged: audits.NotJudged(unjudgedAreas),
		FalseAlarms: func(s *audits.Setting, limit float64) []audits.FalseAlarm {
			users := 0
			if d := s.Data; d != nil {
				users = min(d.Users, d.HeldOutUsers)
			}
			return audits.FactorAlarms("membership_auc", limit, numbers(s), "AUCs", users, 1)
		},
	}.Limit(),
	audits.LimitOf[float64]{
		Name:     "membership_tpr",
		Doc:      "True-positive rate of these attacks on users that trained, at 1% false positives, likewise. Fails if it cannot be estimated.",
		Range:    "[0.01,1)",
		Breaches: audits.Judged("membership_tpr", rateBreaches), Unjudged: audits.NotJudged(unjudgedRates),
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

// numbers is the number of AUCs, or rates, of a cell.
func numbers(s *audits.Setting) (n int) {
	for _, attack := range attacks {
		if !possible(s).cover(attack.needs) {
			continue
		}
		n++
		if s.Canaries != nil && attack.name.tellsSharers() {
			n++
		}
	}
	return n
}

// areas has judged the areas of all attacks. For users without canaries an area is required.
func areas(v *Outcome, limit float64) *audits.Gate {
	areas := audits.Gate{Name: "membership_auc", Limit: limit}
	for _, o := range v.Attacks {
		for group, g := range o.groups() {
			areas.Number(fmt.Sprintf("the AUC of %s by %s", group, o.Attack.Title()), min(g.Users, v.HeldOut), g.AUC)
		}
	}
	if v.tooFew() {
		areas.Fail(fmt.Sprintf("the AUC of membership can't be estimated, and so is not below the limit of %.4g: it takes %d users of each sort, and %d trained and %d are held out",
			limit, minUsers, v.Members, v.HeldOut))
	}
	return &areas
}

// unjudgedAreas excludes users without canaries: a missing AUC of theirs is a breach.
func unjudgedAreas(v *Outcome, limit float64) []string {
	return append(areas(v, limit).Unjudged(), v.missing("the AUC", false)...)
}

func rateBreaches(v *Outcome, limit float64) (breaches []string) {
	groups := 0
	for _, o := range v.Attacks {
		for group, g := range o.groups() {
			groups++
			rate := fmt.Sprintf("the true-positive rate of %s by %s", group, o.Attack.Title())
			if found := g.Rates[0].TruePositives; found != nil {
				breaches = append(breaches, audits.Above(fmt.Sprintf("%s is %.4g; at least it", rate, found.Share), found.Low, limit)...)
			} else {
				breaches = append(breaches, fmt.Sprintf("%s can't be estimated, and so is not below the limit of %.4g: it takes %d held-out users", rate, limit, g.Rates[0].Needed))
			}
		}
	}
	if groups == 0 {
		return audits.NoValue("membership_tpr", "the users are too few")
	}
	return breaches
}

func unjudgedRates(v *Outcome, _ float64) []string { return v.missing("the true-positive rate", true) }

// missing names the attacks without a number: for users with canaries and, if members is set, for members.
func (v *Outcome) missing(number string, members bool) (reasons []string) {
	for _, o := range v.Attacks {
		add := func(group string, trained int) {
			reasons = append(reasons, fmt.Sprintf("%s of %s by %s, of too few users: it takes %d of each sort, and %d trained and %d are held out", number, group, o.Attack.Title(), minUsers, trained, v.HeldOut))
		}
		if members && o.Members == nil {
			add("membership", v.Members)
		}
		if o.Sharers == nil && v.Sharers > 0 && o.Attack.tellsSharers() {
			add("membership of users with canaries", v.Sharers)
		}
	}
	return reasons
}

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
