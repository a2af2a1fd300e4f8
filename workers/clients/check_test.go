//go:build unix

package clients

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"coalmine/internal/contracts"
	"coalmine/internal/must"
	"coalmine/models"
	"coalmine/workers/clients/clientstest"
)

func checked(t *testing.T, fault string, o Options) *Report {
	t.Helper()
	o.Directory = t.TempDir()
	return must.Get(Check(t.Context(), clientstest.Program(fault), o))(t)
}

func TestARightProgramPassesEveryCheck(t *testing.T) {
	t.Parallel()
	const ids = "describe seeded-start inputs-unchanged fit tensors no-state fit-many sum evaluate order total-probability tree unknown-method determinism end-of-input"
	for _, right := range []string{"", clientstest.Text, clientstest.Version1} {
		report := checked(t, right, Options{})
		if contracts.CountFailed(report.Findings) != 0 || contracts.IDs(report.Findings) != ids || report.Program == nil {
			t.Errorf("%+v", report)
		}
		for _, f := range report.Findings {
			want := contracts.Passed
			if right == clientstest.Version1 && f.Rule > AtMostOne.Number || right == clientstest.Text && f.Rule == TreeAsPairs.Number {
				want = contracts.Skipped
			}
			if f.Status != want || f.Sentence != contract.Rules[f.Rule-1].Sentence {
				t.Errorf("%+v, want that it passes", f)
			}
		}
	}
}

// A program of images is asked about images, and not about texts.
func TestCheckOfImageProgram(t *testing.T) {
	t.Parallel()
	for _, shape := range []models.ImageShape{{Width: 28, Height: 28, Channels: 1, Classes: 10}, {Width: 1, Height: 1, Channels: 3, Classes: 2}} {
		program := clientstest.Program("")
		program.Image = shape
		report, err := Check(t.Context(), program, Options{Directory: t.TempDir()})
		if err != nil || contracts.CountFailed(report.Findings) != 0 || report.Program == nil || report.Program.Input != "images" {
			t.Fatalf("%v: %+v", err, report)
		}
		for _, f := range report.Findings {
			if want := f.Rule == InTheirOrder.Number || f.Rule == TreeAsPairs.Number || f.Rule == AtMostOne.Number; (f.Status == contracts.Skipped) != want || !want && f.Status != contracts.Passed {
				t.Errorf("%+v, want that all but the texts pass", f)
			}
		}
	}
}

func TestEachBrokenRuleIsFound(t *testing.T) {
	t.Parallel()
	for fault, c := range map[string]struct {
		want    contracts.Rule
		message string
	}{
		clientstest.NaN:        {FiniteNumbers, "not finite"},
		clientstest.Shape:      {SameTensors, "has shape"},
		clientstest.ShapeLater: {SameTensors, "has shape"},
		clientstest.Name:       {SameTensors, "has no tensor"},
		clientstest.Grows:      {SameTensors, "bytes; expected at most"},
		clientstest.NoFile:     {FilesAsAsked, "wrote no readable file"},
		clientstest.Changes:    {FilesAsAsked, "it changed a file of parameters"},
		clientstest.Dies:       {WhatFitSays, "exit status 137"},
		clientstest.DiesAtOnce: {DescribeFirst, "No module named 'torch'"},
		clientstest.Remembers:  {NoMemory, "before and after another user"},
		clientstest.Random:     {NoMemory, "before and after another user"},
		clientstest.Refuses:    {WhatFitSays, "an example is too long"},
		clientstest.Twice:      {OneAnswerEach, "twice"},
		clientstest.Never:      {OneAnswerEach, "did not answer request"},
		clientstest.Prints:     {OneObjectALine, `it printed "epoch 1 of 3"`},
		clientstest.NoExamples: {WhatFitSays, "examples is 0"},
		clientstest.HalfLoss:   {WhatFitSays, "one of loss and targets"},
		clientstest.Guesses:    {WhatEvaluateSays, "expected 0 to 20, the number of targets"},
		clientstest.ManyPairs:  {InTheirOrder, "4 answers to 3 pairs"},
		clientstest.Lingers:    {EndsWithItsInput, "did not end within"},
		clientstest.NoUsers:    {ManyUsers, "fit_many has 0 users"},
		clientstest.OtherMany:  {ManyAsOne, "the parameters of user 1 by fit_many"},
		clientstest.Stale:      {FilesOfMany, "has the stamp"},
		clientstest.FewerUsers: {FilesOfMany, ", 1 users"},
		clientstest.Unclipped:  {SumOfMany, "its sum has the norm"},
		clientstest.HalfSum:    {SumOfMany, "its sum of 2 updates is at a distance"},
		clientstest.NoNorm:     {SumOfMany, "expected a norm of at least 0"},
		clientstest.WrongTree:  {TreeAsPairs, "in a tree"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			o := Options{}
			switch fault {
			case clientstest.Never:
				o.AnswerSeconds = 1
			case clientstest.Lingers:
				o.Grace = 100 * time.Millisecond
			}
			report := checked(t, fault, o)
			for _, f := range report.Findings {
				if f.Status == contracts.Failed && f.Rule == c.want.Number && f.Sentence == c.want.Sentence && strings.Contains(f.Message, c.message) {
					return
				}
			}
			t.Errorf("rule %d is not found broken, with %q: %+v", c.want.Number, c.message, report.Findings)
		})
	}
}

func TestThePageOfContractHasItsRules(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../docs/contracts/client.md"))(t)
	for _, want := range []string{"\n## Rules\n\n" + contract.List() + "\n", fmt.Sprintf("`%q` and `%d`", contract.Identity().Contract, contract.Version)} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has not: %s", want)
		}
	}
}
