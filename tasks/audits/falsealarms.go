package audits

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/fractions"
)

// FalseAlarm is how likely a limit fails by chance in one cell, as a rule one whose
// model has memorized nothing.
type FalseAlarm struct {
	// Limit is the field of audit.fail_if, Allowed the largest value that passes.
	Limit   string
	Allowed float64
	// Trials is how often it is left to chance, by Unit: "canaries".
	Trials int
	Unit   string
	// Where says of which cell this is so; empty for one whose model has memorized nothing.
	Where string
	// Probability, in [0, 1], that the cell is above the limit. It is an upper bound
	// where fewer canaries were inserted than was planned.
	Probability float64
	// Users are those of the data that the limit is judged by, 0 if they are not known, and
	// Fewest those that it takes: a limit that is TooFew of them is not judged.
	Users, Fewest int
}

// TooFew reports whether the cell fails for too few users, not by chance.
func (f *FalseAlarm) TooFew() bool { return 0 < f.Users && f.Users < f.Fewest }

// FactorAlarms are those of a limit on how many times chance some numbers are, each with an
// interval of Confidence: that an interval lies above what it is of has half of what is left.
// Any of so many numbers may pass. They are over at most this many users, 0 if that is not known,
// and limited in units of chance.
func FactorAlarms(limit string, allowed float64, numbers int, unit string, users int, chance float64) []FalseAlarm {
	return []FalseAlarm{{
		Limit: limit, Allowed: allowed, Trials: numbers, Unit: unit, Where: JudgedAt("what is limited at the limit", users),
		Probability: min(1, float64(numbers)*(1-Confidence)/2),
		Users:       users, Fewest: FewestAbove(allowed * chance),
	}}
}

// AboveSignificantly is a breach where a share is above a limit by the exact binomial test; where
// says of what part, and may be empty.
func AboveSignificantly(limit, where string, s Share, allowed fractions.Probability, significance float64) []string {
	p := s.AtLeast(allowed.Float64())
	if p >= significance {
		return nil
	}
	return []string{fmt.Sprintf("%s is %.4g%s (%d of %d), above the limit of %s (%s)", limit, s.Share, where, s.Count, s.Of, allowed, PText(p))}
}

// SignificanceAlarms are those of a limit on a share of so many items that the exact binomial test
// judges.
func SignificanceAlarms(limit string, allowed fractions.Probability, items int, unit string, significance fractions.Probability) []FalseAlarm {
	return []FalseAlarm{{
		Limit: limit, Allowed: allowed.Float64(), Trials: items, Unit: unit, Where: "the model at the limit", Probability: significance.Float64(),
	}}
}

// JudgedAt says of which cells a false alarm is: where the users are not known, as at the end of a
// run, only of those that have enough of them.
func JudgedAt(where string, users int) string {
	if users == 0 {
		where += ", of enough users to judge it"
	}
	return where
}

// CanaryAlarms are those of a limit on the inserted canaries: probability is that for n
// of them.
func CanaryAlarms(s *Setting, limit string, allowed float64, probability func(n int) float64) []FalseAlarm {
	if s.Canaries == nil {
		return nil
	}
	n := s.Canaries.Inserted
	return []FalseAlarm{{Limit: limit, Allowed: allowed, Trials: n, Unit: "canaries", Probability: probability(n)}}
}

// checkCount reports a limit on a number of inserted canaries that is not below their
// number.
func checkCount(s *Setting, limit string, allowed int, fail Fail) {
	if s.Canaries == nil || allowed < s.Canaries.Inserted {
		return
	}
	fail([]string{"audit.fail_if." + limit, "canaries"}, "is %d, which no cell can exceed: %d canaries are inserted; expected less than that, or remove the limit", allowed, s.Canaries.Inserted)
}

// MoreThan is the probability that of n independent events, each of probability p, more
// than k happen: the upper tail of a binomial distribution, without cancellation where
// it is small.
func MoreThan(k, n int, p float64) float64 {
	switch {
	case k >= n:
		return 0
	case k == 0:
		return -math.Expm1(float64(n) * math.Log1p(-p))
	}
	return mathext.RegIncBeta(float64(k+1), float64(n-k), p)
}
