package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/lists"
	"coalmine/workflows/results"
)

const (
	helpWidth  = 80 // of paragraphs
	usageWidth = 90 // of lists of flags
)

// wrapped breaks a text into terminated lines of at most helpWidth.
func wrapped(text string) string {
	return strings.Join(results.Wrap(text, helpWidth), "\n") + "\n"
}

// writeUsage prints the usage of a command: its line, examples, subcommands and flags. Only the help of the
// program explains the flags of all commands; others name them. A template of cobra would need text/template,
// which scripts/check-linked.sh forbids.
func writeUsage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprintln(w, "Usage:")
	if c.Runnable() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range c.Groups() {
		writeSubcommands(w, c, g.ID, g.Title)
	}
	writeSubcommands(w, c, "", "Commands:")
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", c.LocalFlags().FlagUsagesWrapped(usageWidth))
	}
	if c.HasAvailableInheritedFlags() {
		var names []string
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		fmt.Fprintf(w, "\nFlags of all commands, explained by %s --help:\n  %s\n", c.Root().Name(), strings.Join(names, " "))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	return nil
}

// writeSubcommands lists the subcommands of a group, "" for none, below a title.
func writeSubcommands(w io.Writer, c *cobra.Command, group, title string) {
	shown := lists.Filter(c.Commands(), func(s *cobra.Command) bool {
		return s.GroupID == group && (s.IsAvailableCommand() || s.Name() == "help")
	})
	if len(shown) > 0 {
		fmt.Fprintf(w, "\n%s\n", title)
	}
	for _, s := range shown {
		fmt.Fprintf(w, "  %-*s %s\n", s.NamePadding(), s.Name(), s.Short)
	}
}
