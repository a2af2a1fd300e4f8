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
//  2. --set overrides are merged into the tree (grid.go).
//  3. The grid is removed from the tree and expanded; each cell is the tree
//     with one value of every axis merged in (grid.go).
//  4. Each cell's tree is decoded through the types (decode.go), completed with
//     defaults (defaults.go) and checked for relations between its fields
//     (relations.go).
//
// Some values depend on the data: Spec.Resolve finds fields that do not fit the data, and turns epochs into
// rounds (data.go).
package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Problem is a mistake in an experiment file or an override.
type Problem struct {
	// Source is the file, or an override such as "--set training.cohort=0".
	Source string `json:"source"`
	// Line and Column count from 1 and are 0 for an override. Column counts characters.
	Line   int `json:"line,omitzero"`
	Column int `json:"column,omitzero"`
	// Path is the path of the field, such as "training.cohort", or "" for the whole file.
	Path string `json:"path,omitempty"`
	// Message contains the value, the expected values and the remedy.
	Message string `json:"message"`
	// Cells are the names of the cells with the mistake. It is empty if all cells have it.
	Cells []string `json:"cells,omitempty"`
}

// String returns a line such as "study.yaml:12:11: training.cohort: ...".
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", p.where(), p.Message)
	switch n := len(p.Cells); {
	case n == 1:
		fmt.Fprintf(&b, " (cell %s)", p.Cells[0])
	case n > 1:
		fmt.Fprintf(&b, " (%d cells, the first is %s)", n, p.Cells[0])
	}
	return b.String()
}

// where returns the known parts of a position such as "study.yaml:12:11: training.cohort".
func (p Problem) where() string {
	where := p.Source
	if p.Line > 0 {
		where += fmt.Sprintf(":%d:%d", p.Line, p.Column)
	}
	if p.Path != "" {
		where += ": " + p.Path
	}
	return where
}

// Error contains all mistakes of a file in the order of lines. Mistakes without a line, such as those in
// overrides, come last.
type Error struct{ Problems []Problem }

// maxPrinted is the maximum number of problems that Error prints.
const maxPrinted = 100

// Error prints one problem per line, at most maxPrinted.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d mistakes in the experiment:", len(e.Problems))
	for _, p := range e.Problems[:min(len(e.Problems), maxPrinted)] {
		b.WriteString("\n  " + p.String())
	}
	if more := len(e.Problems) - maxPrinted; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// problems collects distinct mistakes.
type problems struct {
	found []finding
	index map[string]int // text of a problem -> its index in found
}

// finding is a problem; general reports whether it concerns the file rather than single cells.
type finding struct {
	Problem
	general bool
}

// add records a mistake of the file or the current cell.
func (ps *problems) add(at position, path, format string, args ...any) {
	ps.record(Problem{Source: at.source, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)}, "")
}

// record records a problem of the named cell, or of the file if cell is "".
func (ps *problems) record(p Problem, cell string) {
	if ps.index == nil {
		ps.index = make(map[string]int)
	}
	text := p.String()
	i, known := ps.index[text]
	if !known {
		i = len(ps.found)
		ps.index[text] = i
		ps.found = append(ps.found, finding{Problem: p})
	}
	f := &ps.found[i]
	if cell == "" {
		f.general = true
	} else {
		f.Cells = append(f.Cells, cell)
	}
}

// err returns the problems as an *Error, or nil. It omits the names of the cells of a problem that all cells have.
func (ps *problems) err(cells int) error {
	if len(ps.found) == 0 {
		return nil
	}
	all := make([]Problem, len(ps.found))
	for i, f := range ps.found {
		all[i] = f.Problem
		if f.general || len(f.Cells) == cells {
			all[i].Cells = nil
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), cmp.Compare(a.Column, b.Column))
	})
	return &Error{Problems: all}
}

// order sorts by line; problems without a line come last.
func (p Problem) order() int { return cmp.Or(p.Line, math.MaxInt) }
