// Package external holds trainings by external programs: a command trains a model, and another
// command scores texts under it. Unlike other kinds, these need not be functions of their
// parameters and inputs, because a command may do anything; see tasks.Task.DeclareNondeterministic. The contract
// docs/contracts/train.md describes the consequences, and the command's environment.
//
//	external/train  population, parts -> the command's files and metric rows
//
// Audits score such models through a Model.
package external

import "coalmine/tasks"

// Kinds lists the kinds of this package.
func Kinds() []tasks.Kind { return []tasks.Kind{Train} }
