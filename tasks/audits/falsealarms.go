package audits

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"coalmine/internal/numbers"
)

// FalseAlarm is the probability that a limit fails a cell by pure chance.
type FalseAlarm struct {
	// Limit is the field of audit.fail_if, Allowed the largest value that passes.
	Limit   string
	Allowed float64
	// Trials is the number of chances. Unit names them, such as "canaries".
	Trials int
	Unit   string
	// Where describes the cell. Empty means a cell whose model has memorized nothing.
	Where string
	// Probability, in [0, 1], of failing: an upper bound if fewer canaries were inserted than planned.
	Probability float64
	// Users is the number of users in the data, 0 if unknown. A cell with fewer than Fewest fails.
	Users, Fewest int
}

// TooFew reports whether the cell fails for too few users, not by chance.
func (f *FalseAlarm) TooFew() bool { return 0 < f.Users && f.Users < f.Fewest }

// FactorAlarms returns the false alarms of a limit on several factors of chance, each with an interval of
// Confidence: a lower end is above the true value with probability (1 - Confidence) / 2. users is 0 if
// unknown.
func FactorAlarms(limit string, allowed float64, numbers int, unit string, users int, chance float64) []FalseAlarm {
	return []FalseAlarm{{
		Limit: limit, Allowed: allowed, Trials: numbers, Unit: unit, Where: JudgedAt("the measured number at the limit", users),
		Probability: min(1, float64(numbers)*(1-Confidence)/2),
		Users:       users, Fewest: MinAbove(allowed * chance),
	}}
}

// AboveSignificantly returns a breach if a share is above a limit by the exact binomial test. where names the
// part of the data and may be empty.
func AboveSignificantly(limit, where string, s Share, allowed numbers.Probability, significance float64) []string {
	if s.Of == 0 {
		return NoValue(limit+where, "the audit has measured none")
	}
	p := s.AtLeast(allowed.Float64())
	if p >= significance {
		return nil
	}
	return []string{fmt.Sprintf("%s is %.4g%s (%d of %d), above the limit of %s (%s)", limit, s.Share, where, s.Count, s.Of, allowed, PText(p))}
}

// SignificanceAlarms returns the false alarms of a limit that AboveSignificantly judges.
func SignificanceAlarms(limit string, allowed numbers.Probability, items int, unit string, significance numbers.Probability) []FalseAlarm {
	return []FalseAlarm{{
		Limit: limit, Allowed: allowed.Float64(), Trials: items, Unit: unit, Where: "the model at the limit", Probability: significance.Float64(),
	}}
}

// JudgedAt adds the required number of users to the description of a cell, if the number of users is unknown.
func JudgedAt(where string, users int) string {
	if users == 0 {
		where += ", of enough users to judge it"
	}
	return where
}

// CanaryAlarms returns the false alarms of a limit on the inserted canaries. probability is that for n of them.
func CanaryAlarms(s *Setting, limit string, allowed float64, probability func(n int) float64) []FalseAlarm {
	if s.Canaries == nil {
		return nil
	}
	n := s.Canaries.Inserted
	return []FalseAlarm{{Limit: limit, Allowed: allowed, Trials: n, Unit: "canaries", Probability: probability(n)}}
}

// checkCount reports a limit that no count of inserted canaries exceeds.
func checkCount(s *Setting, limit string, allowed int, fail Fail) {
	if s.Canaries == nil || allowed < s.Canaries.Inserted {
		return
	}
	fail([]string{"audit.fail_if." + limit, "canaries"}, "is %d, which no cell can exceed: %d canaries are inserted; expected less than that, or remove the limit", allowed, s.Canaries.Inserted)
}

// MoreThan is the probability of more than k out of n independent events of probability p: the upper binomial
// tail, without cancellation.
func MoreThan(k, n int, p float64) float64 {
	switch {
	case k >= n:
		return 0
	case k == 0:
		return -math.Expm1(float64(n) * math.Log1p(-p))
	}
	return mathext.RegIncBeta(float64(k+1), float64(n-k), p)
}
