package contracts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
