package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
	"coalmine/workflows/experiment"
	"coalmine/workflows/results"
)

func newSchemaCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of experiment files",
		Long: `Print the JSON Schema of experiment files. An editor with a YAML language server
uses it to complete and check files whose first line names it:

  # yaml-language-server: $schema=experiment.schema.json`,
		Example: "  coalmine schema > experiment.schema.json",
		RunE: func(*cobra.Command, []string) error {
			_, err := g.data.Write(experiment.Schema())
			return err
		},
	}
}

func newExplainCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain a field of the experiment file, or a column of results",
		Long: `Explain a field of the experiment file: its values, its default and its meaning.
Of a block it lists the fields; without NAME, the blocks of the experiment.

Explain a column of results, by its name in csv or its header in the table: its audit,
the --rows that have it, its values and its meaning. The name results lists all columns.
Cells also have a column for each field of the grid, named by its path; columns
metrics.NAME are numbers of external programs, and NAME_infinite is true if NAME is infinite.`,
		Example: "  coalmine explain training.privacy.noise_multiplier\n  coalmine explain canaries\n  coalmine explain random_sampling_memorized\n  coalmine explain 'accuracy %'\n  coalmine explain results",
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, name := range append(experiment.Paths(), columnNames()...) {
				if len(args) == 0 && strings.HasPrefix(name, typed) {
					names = append(names, name)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if name == allColumns {
				columns := results.Columns()
				return g.show(explanation{Columns: columns}, func() error { return writeColumns(g.stdout, columns) })
			}
			found, err := explain(name)
			if err != nil {
				return err
			}
			return g.show(found, func() error { return found.write(g.stdout) })
		},
	}
}

// allColumns is the name that lists the columns of results.
const allColumns = "results"

// explanation is a field of the experiment file, columns of results, or both.
type explanation struct {
	*experiment.Page
	Columns []results.Column `json:"columns,omitempty"`
	// Paths are the fields that have the name of a column as the last part of their path.
	Paths []string `json:"paths,omitempty"`
}

// explain returns the field and the columns with a name. If there are none, the error names similar ones.
func explain(name string) (*explanation, error) {
	page, err := experiment.Explain(name)
	columns := results.Explain(name)
	if err != nil && len(columns) == 0 {
		return nil, fmt.Errorf("%w; no column of results has that name%s (coalmine explain lists the blocks of an experiment, coalmine explain %s all columns)",
			err, readable.DidYouMean(readable.Nearest(name, columnNames())), allColumns)
	}
	found := &explanation{Page: page, Columns: columns}
	if page == nil {
		found.Paths = lists.Filter(experiment.Paths(), func(path string) bool { return strings.HasSuffix(path, "."+name) })
	}
	return found, nil
}

// columnNames lists the names of the columns and their headers.
func columnNames() (names []string) {
	for _, c := range results.Columns() {
		names = append(names, c.Name, c.Header, c.Path)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

func (e *explanation) write(w io.Writer) error {
	if e.Page != nil {
		if err := writePage(w, e.Page); err != nil {
			return err
		}
	}
	for i := range e.Columns {
		c := &e.Columns[i]
		if i > 0 || e.Page != nil {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n\n", columnTitle(c))
		if len(c.Rows) > 0 {
			fmt.Fprintf(w, "rows: %s\n", results.UnitNames(c.Rows))
		}
		if c.Audit != "" {
			fmt.Fprintf(w, "audit: %s\n", c.Audit)
		}
		fmt.Fprintf(w, "value: %s\n\n%s", c.Value, wrapped(c.Sentence()))
	}
	if len(e.Paths) > 0 {
		fmt.Fprintf(w, "\nfields of that name:\n  %s\n", strings.Join(e.Paths, "\n  "))
	}
	return nil
}

// columnTitle returns the column's name, with its header in the table if it has one.
func columnTitle(c *results.Column) string {
	switch {
	case c.Path != "":
		return fmt.Sprintf("number %s in the JSON of results", c.Path)
	case c.Name == "":
		return fmt.Sprintf("column %q of the table", c.Header)
	case c.Header != "":
		return fmt.Sprintf("column %s, in the table %q", c.Name, c.Header)
	}
	return "column " + c.Name
}

// writeColumns lists the columns of each table.
func writeColumns(w io.Writer, columns []results.Column) error {
	for _, rows := range results.Units() {
		fmt.Fprintf(w, "--rows %s\n", rows)
		for i := range columns {
			if c := &columns[i]; slices.Contains(c.Rows, rows) {
				meaning := strings.ReplaceAll(strings.TrimSuffix(wrapped(c.Sentence()), "\n"), "\n", "\n    ")
				fmt.Fprintf(w, "  %s\n    %s\n", strings.TrimPrefix(columnTitle(c), "column "), meaning)
			}
		}
	}
	return nil
}

func writePage(w io.Writer, page *experiment.Page) error {
	if page.Path != "" {
		fmt.Fprintf(w, "%s\n\nvalue: %sdefault: %s\n\n", page.Path, wrapped(page.Value), page.Default)
	}
	fmt.Fprint(w, wrapped(page.Meaning))
	if len(page.Fields) == 0 {
		return nil
	}
	for _, f := range page.Fields {
		meaning := strings.ReplaceAll(strings.TrimSuffix(wrapped(firstSentence(f.Meaning)), "\n"), "\n", "\n      ")
		fmt.Fprintf(w, "  %s (%s)\n      %s\n", strings.TrimPrefix(f.Path, page.Path+"."), defaultNote(f.Default), meaning)
	}
	return nil
}

// defaultNote describes the default of a field in a list of fields.
func defaultNote(text string) string {
	switch text {
	case "required":
		return text
	case "absent", "by field":
		return "optional"
	case "depends":
		return "default depends"
	}
	return "default " + text
}

var sentenceEnd = regexp.MustCompile(`\.\s+\p{Lu}`)

func firstSentence(text string) string {
	if at := sentenceEnd.FindStringIndex(text); at != nil {
		return text[:at[0]+1]
	}
	return text
}
