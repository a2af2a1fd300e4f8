package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

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
}

// explain returns the field and the columns with a name. If there are none, the error names similar ones.
func explain(name string) (*explanation, error) {
	page, err := experiment.Explain(name)
	columns := results.Explain(name)
	if err != nil && len(columns) == 0 {
		similar := readable.Nearest(name, columnNames())
		if similar != "" {
			similar = fmt.Sprintf(" (did you mean %s?)", similar)
		}
		return nil, fmt.Errorf("column %.60q: results have no column of this name%s; %w (coalmine explain lists all blocks, coalmine explain %s all columns)", name, similar, err, allColumns)
	}
	return &explanation{page, columns}, nil
}

// columnNames lists the names of the columns and their headers.
func columnNames() (names []string) {
	for _, c := range results.Columns() {
		names = append(names, c.Name, c.Header)
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
		fmt.Fprintf(w, "%s\n\nrows: %s\n", columnTitle(c), results.UnitNames(c.Rows))
		if c.Audit != "" {
			fmt.Fprintf(w, "audit: %s\n", c.Audit)
		}
		fmt.Fprintf(w, "value: %s\n\n%s", c.Value, wrapped(c.Sentence()))
	}
	return nil
}

// columnTitle is the column's name, with its header in the table if it has one.
func columnTitle(c *results.Column) string {
	switch {
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
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range page.Fields {
		value, _, _ := strings.Cut(f.Value, ", such as")
		fmt.Fprintf(t, "  %s\t%s\t%s\n", strings.TrimPrefix(f.Path, page.Path+"."), f.Default, fit(value, helpWidth/2))
	}
	return t.Flush()
}
