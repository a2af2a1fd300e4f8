// Package experiment reads the experiment file, the YAML document that determines a run.
//
// Parse takes the text of a file and returns a Spec: one Cell for every point of the file's grid, each with its
// own fully resolved Experiment. A resolved experiment contains every default, and omits fields that the chosen
// algorithm does not use, so that two files with the same meaning have equal specs and equal digests.
//
//	spec, err := experiment.Parse("study.yaml", text, experiment.Options{Sets: []string{"seed=2"}})
//
// Parse returns all mistakes of a file at once, as an *Error whose problems name line, column, field, the value
// found and the values allowed. The types in types.go and, for the data block, datatypes.go are the reference:
// their tags hold names, defaults and ranges, and experiment.schema.json and docs/experiment-file.md are generated
// from them.
//
// How a file becomes cells:
//
//  1. YAML becomes a tree of nodes with positions (yaml.go). Anchors, aliases,
//     merge keys and tags are rejected.
//  2. --set overrides are merged into the tree (set.go).
//  3. The grid is removed from the tree and expanded; each cell is the tree
//     with one value of every axis merged in (grid.go).
//  4. Each cell's tree is decoded through the types (decode.go), completed with
//     defaults (defaults.go) and checked for relations between its fields
//     (relations.go).
//
// Some values depend on the data: Cell.Resolve turns epochs into rounds, and Cell.CheckData finds fields that do
// not fit the data (data.go).
package experiment
