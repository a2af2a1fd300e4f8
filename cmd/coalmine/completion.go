package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"coalmine/workflows/control"
	"coalmine/workflows/results"
	"coalmine/workflows/results/trackers"
)

// completionPatience is the time that a shell waits for the names of runs.
const completionPatience = 2 * time.Second

// completeArguments makes shells complete the arguments RUN, CELL and FILE of a
// command's usage, and the values of --format.
func (g *global) completeArguments(c *cobra.Command) {
	if words := strings.Fields(c.Use); len(words) > 1 && c.ValidArgsFunction == nil {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return g.complete(c.Context(), argument(words[1:], len(args)), args)
		}
	}
	if f := c.Flags().Lookup("format"); f != nil && f.DefValue == results.FormatNames()[0] {
		_ = c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(formatCompletions(), cobra.ShellCompDirectiveNoFileComp))
	}
	for _, child := range c.Commands() {
		g.completeArguments(child)
	}
}

// nameShells gives the commands of cobra that print completions a text with an example for each shell.
func nameShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic(err)
	}
	c.Short = "Print the completions of commands, flags, runs and files for a shell"
	c.Long = c.Short + ". The help of each\nshell says how to install them."
	var examples []string
	for _, shell := range c.Commands() {
		shell.Short = "Print the completions for " + shell.Name()
		shell.Example = fmt.Sprintf("  source <(coalmine completion %s)", shell.Name())
		switch shell.Name() {
		case "fish":
			shell.Example = "  coalmine completion fish | source"
		case "powershell":
			shell.Example = "  coalmine completion powershell | Out-String | Invoke-Expression"
		}
		examples = append(examples, shell.Example)
	}
	c.Example = strings.Join(examples, "\n")
}

func formatCompletions() (out []cobra.Completion) {
	for _, f := range results.Formats() {
		out = append(out, cobra.CompletionWithDesc(f.Name, f.Description))
	}
	for _, f := range trackers.Formats() {
		out = append(out, cobra.CompletionWithDesc(f.Name, f.Description))
	}
	return out
}

// argument returns the name of an argument in the usage by its position: "RUN" for "[RUN]". The
// last one repeats if it ends in dots. It returns "" beyond the last.
func argument(words []string, position int) string {
	if last := len(words) - 1; position > last && strings.Contains(words[last], "...") {
		position = last
	}
	if position >= len(words) {
		return ""
	}
	return strings.Trim(words[position], "[.]")
}

func (g *global) complete(ctx context.Context, argument string, args []string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
	switch argument {
	case "FILE", "SOURCE|FILE.yaml", "SOURCE", "MODEL":
		return nil, cobra.ShellCompDirectiveDefault
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	// If the runs cannot be read, nothing is completed; the command itself reports the reason.
	_ = g.withControl(ctx, func(api control.API) error {
		switch argument {
		case "RUN":
			list, err := api.List(ctx)
			for _, s := range list {
				out = append(out, cobra.CompletionWithDesc(s.Run, fmt.Sprintf("%s, %s cells", stateText(s), cellCounts(s))))
			}
			return err
		case "CELL":
			s, err := api.Status(ctx, args[0])
			if err != nil {
				return err
			}
			for _, c := range s.Cells {
				out = append(out, cobra.CompletionWithDesc(c.Cell, c.Label))
			}
		}
		return nil
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
