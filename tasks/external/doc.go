// Package external has the trainings that are not ours: a command trains a model, and another one
// says how probable texts are under it. Beside the other kinds these are no functions of their
// parameters and inputs, since nobody knows what a command does; see tasks.Task.MayDiffer. What is
// done about that stands in docs/contracts/train.md, which says what the command sees.
//
//	external/train  population, parts -> the files that the command has left, and its metric rows
//
// Audits of such models ask a Model.
package external

import "coalmine/tasks"

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Train} }
