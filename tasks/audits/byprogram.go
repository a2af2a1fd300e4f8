package audits

import (
	"coalmine/tasks"
	"coalmine/tasks/external"
)

// ByProgram are the inputs of a task that looks at a model, and what it needs to ask the program
// that has trained it, where one has.
func ByProgram(b Builder, inputs ...tasks.Input) []tasks.Input {
	if b.Setting().Program == nil {
		return inputs
	}
	return append(inputs, tasks.Input{Name: external.VocabularyInput, Key: b.Parts()})
}
