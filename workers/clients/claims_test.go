package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coalmine/internal/contracts"
	"coalmine/internal/must"
	"coalmine/internal/score"
	"coalmine/tasks/clientprograms"
)

// A client of 8 examples that says it has learned from 9 would weigh more than it may.
func TestClaimsAreBoundedByTheRequest(t *testing.T) {
	t.Parallel()
	metrics := map[string]float64{}
	for i := range 101 {
		metrics[fmt.Sprint("m", i)] = 1
	}
	many := must.Get(json.Marshal(metrics))(t)
	fitted := func(result string) error {
		_, err := decodeFitted(json.RawMessage(result), 8)
		return err
	}
	evaluated := func(result string) error {
		_, err := decodeEvaluation(json.RawMessage(result), 50)
		return err
	}
	likely := func(result string) error {
		_, err := score.DecodeAnswers(json.RawMessage(result), 1, InTheirOrder, FiniteNumbers)
		return err
	}
	described := func(result string) error {
		_, _, err := decodeDescription(json.RawMessage(result), false)
		return err
	}
	for _, c := range []struct {
		decode func(string) error
		result string
		rule   contracts.Rule
		want   string
	}{
		{fitted, `{"examples":8}`, contracts.Rule{}, ""},
		{fitted, `{"examples":9}`, WhatFitSays, "examples is 9; expected 1 to 8, the number in the request"},
		{fitted, `{"examples":0}`, WhatFitSays, "examples is 0; expected 1 to 8"},
		{fitted, `{"examples":8,"metrics":` + string(many) + `}`, WhatFitSays, "it reports 101 metrics; expected at most 100"},
		{fitted, `{"examples":8,"metrics":{"` + strings.Repeat("x", 101) + `":1}}`, WhatFitSays, "the name of a metric has 101 bytes; expected at most 100"},
		{fitted, `{"examples":8,"metrics":{"loss":1,"targets":2e12}}`, WhatFitSays, "targets is 2e+12"},
		{fitted, `{"examples":8,"metrics":{"loss":1e101,"targets":2}}`, FiniteNumbers, "loss is 1e+101"},
		{evaluated, `{"loss":1,"targets":50,"correct":9}`, contracts.Rule{}, ""},
		{evaluated, `{"loss":1,"targets":51,"correct":9}`, WhatEvaluateSays, "targets is 51; expected at most 50, the number in the examples"},
		{evaluated, `{"loss":1,"targets":5,"correct":6}`, WhatEvaluateSays, "correct is 6; expected 0 to 5, the number of targets"},
		{evaluated, `{"loss":2e200,"targets":5,"correct":1}`, FiniteNumbers, "loss is 2e+200"},
		{likely, `[[-1e100,false]]`, contracts.Rule{}, ""},
		{likely, `[[-1e101,false]]`, FiniteNumbers, "the log-probability of pair 1: -1e+101 stands for a log-probability"},
		{described, `{"contract":"coalmine/client","version":1,"program":"` + strings.Repeat("x", 1001) + `"}`, DescribeFirst, "the program's name has 1001 bytes"},
	} {
		err := c.decode(c.result)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || contracts.RuleOf(err) != c.rule) {
			t.Errorf("%.60s: %v, want %q of rule %d", c.result, err, c.want, c.rule.Number)
		}
	}
}

func TestTargetsAreCountedFromExamples(t *testing.T) {
	t.Parallel()
	sentences := [][]int32{{2, 4, 5, 3}, {2, 6, 3}}
	for input, want := range map[clientprograms.Input]int{clientprograms.TokensInput: 5, clientprograms.ImagesInput: 2} {
		c := &program{description: &clientprograms.Description{Input: input}}
		if got := c.targets(sentences); got != want {
			t.Errorf("%s: %d targets, want %d", input, got, want)
		}
	}
}
