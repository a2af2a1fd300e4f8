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
	for _, o := range v.Attacks {
		for what, g := range o.groups() {
			breaches = append(breaches, l.rate(fmt.Sprintf("%s by %s", what, o.Attack.Title()), &g.Rates[0])...)
		}
	}
	return append(l.areas(v).Breaches(), breaches...)
}

// areas has judged the areas of all attacks.
func (l *Limits) areas(v *Verdict) *audits.Gate {
	areas := audits.Gate{Limit: l.MembershipAUC}
	for _, o := range v.Attacks {
		for what, g := range o.groups() {
			areas.Number(fmt.Sprintf("the AUC of %s by %s", what, o.Attack.Title()), min(g.Users, v.HeldOut), g.AUC)
		}
	}
	return &areas
}

// Unjudged implements audits.Unjudger. Without an AUC of users without canaries the limit of
// the AUC is a breach.
func (l *Limits) Unjudged(c *audits.Cell) []string {
	v, ok := audits.VerdictOf[*Verdict](c)
	if !ok {
		return nil
	}
	unjudged := l.areas(v).Unjudged()
	for _, o := range v.Attacks {
		if o.Members == nil {
			unjudged = append(unjudged, missing("the true-positive rate of membership", &o, v.Members, v.HeldOut, l.MembershipTPR)...)
		}
		if o.Sharers == nil && v.Sharers > 0 {
			unjudged = append(unjudged, missing("the AUC of membership of users with canaries", &o, v.Sharers, v.HeldOut, l.MembershipAUC)...)
			unjudged = append(unjudged, missing("the true-positive rate of membership of users with canaries", &o, v.Sharers, v.HeldOut, l.MembershipTPR)...)
		}
	}
	return unjudged
}

// missing says of a number that a limit names why there is none.
func missing(what string, o *Outcome, trained, heldOut int, limit *float64) []string {
	if limit == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s by %s, of too few users: it takes %d of each sort, and %d trained and %d are held out", what, o.Attack.Title(), leastUsers, trained, heldOut)}
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
	users, heldOut := 0, 0
	if d := s.Data; d != nil {
		users, heldOut = min(d.Users, d.HeldOutUsers), d.HeldOutUsers
	}
	alarms := audits.FactorAlarms("membership_auc", l.MembershipAUC, numbers, "AUCs", users, 1)
	rates := audits.FactorAlarms("membership_tpr", l.MembershipTPR, numbers, "rates", heldOut, 1)
	for i := range rates {
		rates[i].Fewest = needed(falsePositives[0])
	}
	return append(alarms, rates...)
}
