// Package conformance has the rules of contracts with programs that are not ours, and what checks
// of such programs come to: a finding for each thing that a contract asks.
package conformance

import "cmp"

// Status of a Finding.
type Status string

// What a check comes to. A doubt is no fault: some programs cannot do better.
const (
	Passed  Status = "pass"
	Failed  Status = "fail"
	Doubted Status = "doubt"
	Skipped Status = "skip"
)

// Finding is what a check of a program came to.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Rule is the one that was broken or looked at, by its number, and Sentence its words.
	Rule     int    `json:"rule"`
	Sentence string `json:"sentence"`
	// Message says what was found, if that is more than that all is well.
	Message string `json:"message,omitempty"`
}

// Doubt and Skip are errors of a check that are no faults.
type (
	Doubt struct{ error }
	Skip  struct{ error }
)

// DoubtBecause is a check that found something which may be right.
func DoubtBecause(err error) error { return Doubt{err} }

// SkipBecause is a check with nothing to look at.
func SkipBecause(err error) error { return Skip{err} }

// StatusOf is what a check with an error comes to.
func StatusOf(err error) Status {
	switch err.(type) {
	case nil:
		return Passed
	case Doubt:
		return Doubted
	case Skip:
		return Skipped
	}
	return Failed
}

// Found is what a check of a rule came to. An error that says which rule was broken knows better.
func Found(check string, rule Rule, err error) Finding {
	rule = cmp.Or(RuleOf(err), rule)
	f := Finding{Check: check, Status: StatusOf(err), Rule: rule.Number, Sentence: rule.Sentence}
	if err != nil {
		f.Message = err.Error()
	}
	return f
}

// Broken is how many checks failed.
func Broken(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Status == Failed {
			n++
		}
	}
	return n
}
