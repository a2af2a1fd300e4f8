package membership

import (
	"fmt"
	"iter"

	"coalmine/tasks/audits"
)

// Limits of audit.fail_if.
type Limits struct {
	// MembershipAUC limits the area under the receiver operating characteristic of every
	// attack on the membership of users, those with canaries apart. A cell is above it where
	// the lower end of one of their 95% intervals is, or with fewer than two users of a sort.
	MembershipAUC *float64 `json:"membership_auc,omitempty" range:"[0.5,1)" unit:"in place of 0.5 by chance"`
	// MembershipTPR limits the share of users that are found at 1% false positives, likewise.
	// A cell where it can't be estimated is above it.
	MembershipTPR *float64 `json:"membership_tpr,omitempty" range:"[0.01,1)" unit:"of the users that trained"`
}

// Breaches implements audits.Limits.
func (l *Limits) Breaches(c *audits.Cell) (breaches []string) {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok {
		return nil
	}
	if l.MembershipAUC != nil && v.tooFew() {
		breaches = append(breaches, fmt.Sprintf("the AUC of membership can't be estimated, and so is not below the limit of %.4g: it takes %d users of each sort, and %d trained and %d are held out",
			*l.MembershipAUC, leastUsers, v.Members, v.HeldOut))
	}
	areas := audits.Gate{Limit: l.MembershipAUC}
	for _, o := range v.Attacks {
		for what, g := range o.groups() {
			areas.Number(fmt.Sprintf("the AUC of %s by %s", what, o.Attack.Title()), min(g.Users, v.HeldOut), audits.Bounded(g.AUC))
			breaches = append(breaches, l.rate(fmt.Sprintf("%s by %s", what, o.Attack.Title()), &g.Rates[0])...)
		}
	}
	return append(areas.Breaches(), breaches...)
}

// groups are those of users that are told from held-out ones, with words for them.
func (o *Outcome) groups() iter.Seq2[string, *Group] {
	return func(yield func(string, *Group) bool) {
		if o.Members != nil && !yield("membership", o.Members) {
			return
		}
		if o.Sharers != nil {
			yield("membership of users with canaries", o.Sharers)
		}
	}
}

// rate is a breach by the share of users that are found.
func (l *Limits) rate(what string, r *Rate) []string {
	if r.TruePositives == nil {
		if l.MembershipTPR == nil {
			return nil
		}
		return []string{fmt.Sprintf("the true-positive rate of %s can't be estimated, and so is not below the limit of %.4g: it takes %d held-out users", what, *l.MembershipTPR, r.Needed)}
	}
	return audits.Above(fmt.Sprintf("the true-positive rate of %s is %.4g; at least it", what, r.TruePositives.Share), r.TruePositives.Low, l.MembershipTPR)
}

// FalseAlarms implements audits.FalseAlarmer.
func (l *Limits) FalseAlarms(s *audits.Setting) []audits.FalseAlarm {
	numbers := 1
	if f, ok := audits.FieldsOf[*Fields](s); ok && f.Membership.ReferenceModels > 0 {
		numbers = len(attacks)
	}
	if s.Canaries != nil {
		numbers *= 2 // sharers apart
	}
	alarms := audits.FactorAlarms("membership_auc", l.MembershipAUC, numbers, "AUCs")
	return append(alarms, audits.FactorAlarms("membership_tpr", l.MembershipTPR, numbers, "rates")...)
}
