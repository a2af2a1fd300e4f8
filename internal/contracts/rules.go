// Package contracts communicates with external programs that implement a contract of docs/contracts: its
// rules, the exchange of messages, the checks and the speed of a program.
//
//	conversation, err := contracts.Start(ctx, command, contracts.Protocol{...})
//	...
//	defer conversation.Close()
//	err = conversation.Ask(ctx, "describe", "describe", nil, func(result json.RawMessage) error { ... })
//
// A conversation consists of requests and answers, one JSON object a line, on the program's standard input
// and output. An answer has the id of its request and a result or an error:
//
//	{"id": 7, "result": ...}
//	{"id": 7, "error": {"message": "out of memory", "retry": true}}
//
// Many requests may be pending, and are answered in any order. Any other output ends the conversation and
// the program, with an error that includes its last lines.
package contracts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"coalmine/internal/childprocess"
	"coalmine/internal/lists"
)

// Contract is a page of docs/contracts: its name, its version implemented here, and its rules in order.
type Contract struct {
	Name    string
	Version int
	// Oldest is the oldest version that programs may implement; 0 stands for Version.
	Oldest int
	Rules  []Rule
}

// Identity names a contract and its version, in descriptions and reports.
type Identity struct {
	Contract string `json:"contract"`
	Version  int    `json:"version"`
}

func (c *Contract) Identity() Identity { return Identity{"coalmine/" + c.Name, c.Version} }

// Versions lists the versions that programs may implement.
func (c *Contract) Versions() []int {
	var versions []int
	for v := cmp.Or(c.Oldest, c.Version); v <= c.Version; v++ {
		versions = append(versions, v)
	}
	return versions
}

// Describes decodes the answer to describe; identity points to its identity.
func (c *Contract) Describes(rule Rule, result json.RawMessage, into any, identity *Identity) error {
	if err := json.Unmarshal(result, into); err != nil {
		return rule.Errorf("it describes itself by %s: %v", Quote(result), Mistyped(err))
	}
	want := c.Identity()
	if identity.Contract != want.Contract || !slices.Contains(c.Versions(), identity.Version) {
		return rule.Errorf("it implements version %d of the contract %.100q; expected version %d of %q", identity.Version, identity.Contract, want.Version, want.Contract)
	}
	return nil
}

// Mistyped describes an error of json.Unmarshal by the types of JSON. It returns other errors as they are.
func Mistyped(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	path := slices.DeleteFunc(strings.Split(wrong.Field, "."), func(name string) bool {
		return name != strings.ToLower(name) // an embedded struct
	})
	return fmt.Errorf("%s is a JSON %s; expected %s", cmp.Or(strings.Join(path, "."), "it"), wrong.Value, cmp.Or(jsonTypes[wrong.Type.Kind()], "an object"))
}

// jsonTypes are the JSON types of fields that are no objects.
var jsonTypes = map[reflect.Kind]string{
	reflect.Bool: "true or false", reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Int64: "a whole number",
	reflect.Slice: "a list", reflect.String: "a string", reflect.Uint64: "a whole number",
}

// Rule is a sentence of a contract by its number on the page, from 1. The zero Rule is no rule.
type Rule struct {
	Contract string
	Number   int
	Sentence string
}

// Rule adds the next sentence of the page, word for word.
func (c *Contract) Rule(sentence string) Rule {
	r := Rule{c.Name, len(c.Rules) + 1, sentence}
	c.Rules = append(c.Rules, r)
	return r
}

// List formats the rules as the page lists them.
func (c *Contract) List() string {
	var b strings.Builder
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "%d. %s\n", r.Number, r.Sentence)
	}
	return b.String()
}

// Errorf returns the error of a program that broke the rule.
func (r Rule) Errorf(format string, args ...any) error {
	return &Violation{r, fmt.Sprintf(format, args...)}
}

// Violation is a program's breach of a rule.
type Violation struct {
	Rule    Rule
	Message string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s (rule %d of the contract %s)", v.Message, v.Rule.Number, v.Rule.Contract)
}

// RuleOf returns the broken rule that an error names; the zero Rule if there is none.
func RuleOf(err error) Rule {
	if v, ok := errors.AsType[*Violation](err); ok {
		return v.Rule
	}
	return Rule{}
}

// answer is a received line: a result or an error.
type answer struct {
	ID     *int64          `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
		Retry   bool   `json:"retry"`
		// Diverged is for the contract that has it.
		Diverged json.RawMessage `json:"diverged"`
	} `json:"error"`
}

// quoted is the limit on quotes of a program's output, in characters.
const quoted = 120

// Quote returns the beginning of a text for messages.
func Quote(text []byte) string {
	return fmt.Sprintf("%q", childprocess.Printable(string(text[:min(len(text), 4*quoted)]), quoted))
}

// parse reads a line of a program.
func (r *Protocol) parse(line []byte) (*answer, error) {
	if !strings.HasPrefix(strings.TrimSpace(string(line)), "{") {
		return nil, r.OneObjectALine.Errorf("it printed %s to standard output; expected answers alone, and all else on standard error", Quote(line))
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		if notFinite(line, err) {
			return nil, r.FiniteNumbers.Errorf("it answered with a number that JSON has not, NaN or Infinity: %s; the model has diverged, or computes in too few bits", Quote(line))
		}
		return nil, r.OneObjectALine.Errorf("it printed %s, which is not a JSON object: %v", Quote(line), err)
	}
	switch {
	case a.ID == nil:
		return nil, r.OneAnswerEach.Errorf("its answer %s has no id; expected that of a request", Quote(line))
	case (a.Result == nil) == (a.Error == nil):
		return nil, r.OneObjectALine.Errorf("its answer %s has both or neither of result and error; expected one", Quote(line))
	}
	return &a, nil
}

// notFinite reports whether a line cannot be decoded because of NaN or Infinity, which
// some JSON encoders write.
func notFinite(line []byte, err error) bool {
	bad, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || bad.Offset < 1 || bad.Offset > int64(len(line)) {
		return false
	}
	rest := string(line[bad.Offset-1:])
	return strings.HasPrefix(rest, "NaN") || strings.HasPrefix(rest, "Infinity")
}

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
	// ID identifies the check within its contract and is stable; Check describes it in words that may change.
	ID     string `json:"id"`
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
	ID, Name string
	Rule     Rule
	Run      func() error
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
	f := Finding{ID: c.ID, Check: c.Name, Status: Passed, Rule: rule.Number, Sentence: rule.Sentence}
	if err != nil {
		f.Status, f.Message = Failed, err.Error()
	}
	if l, ok := err.(lenient); ok {
		f.Status = l.status
	}
	return f
}

// IDs lists the findings' checks by their IDs.
func IDs(findings []Finding) string {
	return strings.Join(lists.Map(findings, func(f Finding) string { return f.ID }), " ")
}

// CountFailed counts the checks that failed.
func CountFailed(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Status == Failed {
			n++
		}
	}
	return n
}

// InBothOrders calls ask with a list and with its reverse, and returns both answers in the order of the list.
func InBothOrders[A, R any](list []A, ask func([]A) ([]R, error)) (first, second []R, err error) {
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

// took is a duration in seconds: wall-clock time, and the processor time of this process and of the
// children it has waited for.
type took struct{ clock, processors float64 }

// timed measures do. Nothing else may start processes meanwhile. On a machine without an idle processor, a
// process also waits for one; this wait does not count.
func timed(do func() error) (took, error) {
	began, before := time.Now(), processors()
	idleBefore, known := idle()
	err := do()
	t := took{time.Since(began).Seconds(), (processors() - before).Seconds()}
	if after, _ := idle(); known && (after-idleBefore).Seconds() < crowded*t.clock {
		t.clock = t.alone()
	}
	return t, err
}

// alone estimates the wall-clock time on an idle machine from times on a busy one. For a program that
// computes, that is its processor time. A program that hardly computes sleeps or waits for another device:
// its wall-clock time stays.
func (t took) alone() float64 {
	if t.processors < works*t.clock {
		return t.clock
	}
	return t.processors
}

const (
	// crowded is the average number of idle processors below which the machine counts as busy.
	crowded = 0.5
	// works is the share of a processor, on a busy machine, from which a program counts as computing.
	works = 0.03
)

// beyond returns the difference to another duration, by the larger of wall-clock and processor time,
// because waiting also takes time.
func (t took) beyond(other took) float64 {
	return max(0, t.clock-other.clock, t.processors-other.processors)
}

// Pace is the time of a program for n items: Start seconds, plus Each seconds per item.
type Pace struct{ Start, Each float64 }

const (
	tells = 1 // second more than for few items is significant
	// Bounds on the factor by which the number of items grows from one try to the next.
	minGrowth, maxGrowth = 4, 16
)

// Measure calls do for few items, for more, and then for 4 to 16 times as many until a call takes a second
// longer than for few, or reaches most. Nothing else may start processes meanwhile.
func Measure(few, more, most int, do func(n int) error) (Pace, error) {
	least, err := timed(func() error { return do(few) })
	p := Pace{Start: least.beyond(took{})}
	for n := more; err == nil && few < most; {
		var t took
		t, err = timed(func() error { return do(n) })
		longer := t.beyond(least)
		p.Each = longer / float64(n-few)
		p.Start = max(0, least.beyond(took{})-float64(few)*p.Each)
		if longer >= tells || n >= most {
			break
		}
		n = min(most, n*int(min(maxGrowth, max(minGrowth, 2*tells/longer))))
	}
	return p, err
}
