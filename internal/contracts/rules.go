// Package contracts communicates with external programs that implement a contract of docs/contracts: its
// rules, the exchange of messages, the checks and the speed of a program.
//
//	talk, err := contracts.Start(command, contracts.Speech{...})
//	...
//	defer talk.Close()
//	err = talk.Ask(ctx, "describe", "describe", nil, func(result json.RawMessage) error { ... })
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
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"coalmine/internal/childprocess"
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

// Identity names the contract.
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
		return rule.Broken("it describes itself by %s: %v", Quote(result), err)
	}
	want := c.Identity()
	if identity.Contract != want.Contract || !slices.Contains(c.Versions(), identity.Version) {
		return rule.Broken("it speaks version %d of the contract %.100q; expected version %d of %q", identity.Version, identity.Contract, want.Version, want.Contract)
	}
	return nil
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

// Broken returns the error of a program that broke the rule.
func (r Rule) Broken(format string, args ...any) error {
	return &Violation{r, fmt.Sprintf(format, args...)}
}

// Violation is a program's breach of a rule.
type Violation struct {
	Rule Rule
	What string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s (rule %d of the contract %s)", v.What, v.Rule.Number, v.Rule.Contract)
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
	} `json:"error"`
}

// quoted is the limit on quotes of a program's output, in characters.
const quoted = 120

// Quote returns the beginning of a text for messages.
func Quote(text []byte) string {
	return fmt.Sprintf("%q", childprocess.Printable(string(text[:min(len(text), 4*quoted)]), quoted))
}

// parse reads a line of a program.
func (r *Speech) parse(line []byte) (*answer, error) {
	if !strings.HasPrefix(strings.TrimSpace(string(line)), "{") {
		return nil, r.OneObjectALine.Broken("it printed %s to standard output; expected answers alone, and all else on standard error", Quote(line))
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		if notFinite(line, err) {
			return nil, r.FiniteNumbers.Broken("it answered with a number that JSON has not, NaN or Infinity: %s; the model has diverged, or computes in too few bits", Quote(line))
		}
		return nil, r.OneObjectALine.Broken("it printed %s, which is not a JSON object: %v", Quote(line), err)
	}
	switch {
	case a.ID == nil:
		return nil, r.OneAnswerEach.Broken("its answer %s has no id; expected that of a request", Quote(line))
	case (a.Result == nil) == (a.Error == nil):
		return nil, r.OneObjectALine.Broken("its answer %s has both or neither of result and error; expected one", Quote(line))
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
