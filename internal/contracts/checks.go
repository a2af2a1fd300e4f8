package contracts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Status of a Finding.
type Status string

// Results of a check. A doubt is not a fault: some programs cannot do better.
const (
	Passed  Status = "pass"
	Failed  Status = "fail"
	Doubted Status = "doubt"
	Skipped Status = "skip"
)

// Finding is the result of a check of a program.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Rule is the number of the rule that was broken or checked, and Sentence is its text.
	Rule     int    `json:"rule"`
	Sentence string `json:"sentence"`
	// Message describes the fault, if any.
	Message string `json:"message,omitempty"`
}

// lenient is an error of a check that is not a fault.
type lenient struct {
	error
	status Status
}

// Doubt returns the error of a check that found a possible fault.
func Doubt(format string, args ...any) error { return lenient{fmt.Errorf(format, args...), Doubted} }

// Skip returns the error of a check that does not apply.
func Skip(format string, args ...any) error { return lenient{fmt.Errorf(format, args...), Skipped} }

// Check is a requirement on a program.
type Check struct {
	Name string
	Rule Rule
	Run  func() error
}

// Run makes checks in order, each after ready, which starts the program if necessary. A program that does
// not start has one finding. The error is the error of ctx.
func Run(ctx context.Context, checks []Check, ready func() error) (findings []Finding, err error) {
	started := false
	for _, c := range checks {
		err := ready()
		if err == nil {
			started, err = true, c.Run()
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if findings = append(findings, found(&c, err)); !started {
			break
		}
	}
	return findings, nil
}

// found returns the finding of a check. A rule named by the error replaces the rule of the check.
func found(c *Check, err error) Finding {
	rule := cmp.Or(RuleOf(err), c.Rule)
	f := Finding{Check: c.Name, Status: Passed, Rule: rule.Number, Sentence: rule.Sentence}
	if err != nil {
		f.Status, f.Message = Failed, err.Error()
	}
	if l, ok := err.(lenient); ok {
		f.Status = l.status
	}
	return f
}

// Broken counts the checks that failed.
func Broken(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Status == Failed {
			n++
		}
	}
	return n
}

// BothWays calls ask with a list and with its reverse, and returns both answers in the order of the list.
func BothWays[A, R any](list []A, ask func([]A) ([]R, error)) (first, second []R, err error) {
	if first, err = ask(list); err != nil {
		return nil, nil, err
	}
	reversed := slices.Clone(list)
	slices.Reverse(reversed)
	second, err = ask(reversed)
	slices.Reverse(second)
	return first, second, err
}

// Image returns the synthetic image i with the given number of values, 0 to 255, for programs with the
// given number of classes; its class is i modulo classes. Larger classes are brighter.
func Image(values, classes, i int) []byte {
	pixels := make([]byte, values)
	for at := range pixels {
		pixels[at] = byte(i%classes*199/classes + (i*31+at*17)%56)
	}
	return pixels
}

// Numbers returns the n words of the synthetic text i as indices into a list of the given number of words.
func Numbers(i, n, words int) []int {
	list := make([]int, n)
	for k := range list {
		list[k] = (i*31 + k*k*17 + k*7) % words
	}
	return list
}
