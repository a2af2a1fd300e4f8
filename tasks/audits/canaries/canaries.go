// Package canaries holds the audits of single canaries, and their helpers:
//
//	randomsampling           the rank of a canary among random sequences
//	enumeration              its rank among all sequences
//	skewnormal               its exposure by a distribution fitted to random sequences
//	beamsearch               whether beam search finds it
//	search                   whether it is the most likely sequence of all
//	probabilisticextraction  how probable it is that the model writes it
//	natural                  the same as randomsampling, for secrets in the original text
//
// Every audit declares its fields of the audit block and its outcome for a model and for a canary in
// audit.go. It has two kinds of task: one for some canaries, and a summary of all.
// Package exposure derives its outcome from theirs, and upperbound from the training.
package canaries

import (
	"fmt"

	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/audits"
)

// Describe is audits.Describe for an audit whose last node is an audits.SummaryRun of an O, and of a C for each
// canary.
func Describe[F, O, C any, P interface {
	*F
	audits.Fields
}](d audits.Description) audits.Description {
	d.OutcomeBlob, d.CanaryOutcomesBlob = audits.OutcomeBlob, audits.CanaryOutcomesBlob
	d.CanaryOutcome = func() audits.CanaryOutcome { return new(C) }
	return audits.Describe[F, O, P](d)
}

// Memorized returns the curve of a measure that counts canaries.
func Memorized(name string) *audits.Curve {
	return &audits.Curve{Figure: audits.MemorizedFigure, Name: name}
}

// Tasks adds a task for each group of canaries and returns them as the inputs of a summary. Each task has the
// inputs audits.ModelInput, audits.CanariesInput and more.
func Tasks(b audits.Builder, round int, kind tasks.Kind, groups []audits.Group, node func(audits.Group) (label string, params any), more ...tasks.Input) []tasks.Input {
	inputs := append([]tasks.Input{{Name: audits.ModelInput, Key: b.Model(round)}, {Name: audits.CanariesInput, Key: b.Canaries()}}, more...)
	var parts []tasks.Input
	for i, g := range groups {
		label, params := node(g)
		parts = append(parts, tasks.Input{Name: tasks.PartInput(i), Key: b.Node(kind, label, params, inputs...)})
	}
	return parts
}

// Summarize adds the node that joins the parts. Its inputs are audits.PlacementsInput, more and the parts.
func Summarize(b audits.Builder, round int, kind tasks.Kind, audit string, params any, parts []tasks.Input, more ...tasks.Input) storage.Key {
	inputs := append([]tasks.Input{{Name: audits.PlacementsInput, Key: b.Placements()}}, more...)
	return b.Node(kind, fmt.Sprintf("%s after %d", audit, round), params, append(inputs, parts...)...)
}
