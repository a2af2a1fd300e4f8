package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"coalmine/workflows/experiment"
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
		Use:   "explain [FIELD]",
		Short: "Explain a field of the experiment file",
		Long: `Explain a field of the experiment file: its values, its default and its meaning.
Of a block it lists the fields; without FIELD, the blocks of the experiment.`,
		Example: "  coalmine explain training.privacy.noise_multiplier\n  coalmine explain canaries",
		ValidArgsFunction: func(_ *cobra.Command, args []string, typed string) (paths []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, path := range experiment.Paths() {
				if len(args) == 0 && strings.HasPrefix(path, typed) {
					paths = append(paths, path)
				}
			}
			return paths, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			page, err := experiment.Explain(strings.Join(args, ""))
			if err != nil {
				return fmt.Errorf("%w (coalmine explain lists all blocks)", err)
			}
			return g.show(page, func() error { return writePage(g.stdout, page) })
		},
	}
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
