// This file explains wrong flags, arguments and commands.

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"coalmine/internal/lists"
	"coalmine/internal/readable"
)

// flagValues describes the values of a type of flags, or of one flag.
var flagValues = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, 0 or more",
	"intSlice": "whole numbers, separated by commas", "float64": "a number",
	"duration": "a duration such as 30s or 10m", "bool": "true or false",
	"log-level": "debug, info, warn or error",
}

// explainFlag rewrites the parser's message about a flag: it names the flag's values, or a similar flag and
// the command's help. An unknown command comes first, because its flags are unknown, too.
func explainFlag(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); c.HasSubCommands() && len(args) > 0 {
		return unknownCommand(c, args)
	}
	if _, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return explainValue(err)
	}
	return fmt.Errorf("%w%s (%s --help lists the flags)", err, suggestFlag(c, err), c.CommandPath())
}

// explainValue rewrites the parser's message about the value of a flag.
func explainValue(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	expected := cmp.Or(flagValues[invalid.GetFlag().Name], flagValues[invalid.GetFlag().Value.Type()])
	if expected == "" {
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		expected += " of less magnitude"
	}
	return fmt.Errorf("--%s %q: expected %s", invalid.GetFlag().Name, invalid.GetValue(), expected)
}

// explainArguments checks the arguments of a command by its usage line, unless it has its own check. The error names
// the first argument that is missing or unexpected. A command with subcommands prints its help, and rejects an
// unknown subcommand.
func explainArguments(c *cobra.Command) {
	if c.HasSubCommands() {
		c.Args = unknownCommand
		if !c.Runnable() {
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	} else {
		check, run, usage := c.Args, c.RunE, strings.Fields(c.Use)[1:]
		if check == nil {
			check = argumentsOf(usage)
		}
		c.RunE = func(c *cobra.Command, args []string) error { return run(c, splitCell(usage, args)) }
		c.Args = func(c *cobra.Command, args []string) error {
			if args = splitCell(usage, args); check(c, args) == nil {
				return nil
			}
			return fmt.Errorf("%s; usage: %s (see %s --help)", wrongArgument(c, check, args), c.UseLine(), c.CommandPath())
		}
	}
	for _, child := range c.Commands() {
		explainArguments(child)
	}
}

// splitCell replaces an argument RUN/CELL by RUN and CELL if the usage is RUN CELL.
func splitCell(usage, args []string) []string {
	if len(args) == 0 || len(usage) != 2 || usage[0] != "RUN" || strings.Trim(usage[1], "[]") != "CELL" {
		return args
	}
	run, cell, ok := strings.Cut(args[0], "/")
	if !ok {
		return args
	}
	return append([]string{run, cell}, args[1:]...)
}

// argumentsOf returns the check for the arguments of a usage line. One in brackets is optional, and one with dots repeats.
func argumentsOf(usage []string) cobra.PositionalArgs {
	required := lists.Count(usage, func(word string) bool { return !strings.HasPrefix(word, "[") })
	if strings.Contains(strings.Join(usage, " "), "...") {
		return cobra.MinimumNArgs(required)
	}
	return cobra.RangeArgs(required, len(usage))
}

// wrongArgument names the first argument that the check rejects, or else the first one that
// is missing, from the usage line.
func wrongArgument(c *cobra.Command, check cobra.PositionalArgs, args []string) string {
	for n := len(args) - 1; n >= 0; n-- {
		if check(c, args[:n]) == nil {
			return fmt.Sprintf("unexpected argument %q", args[n])
		}
	}
	usage := strings.Fields(c.Use)[1:]
	return fmt.Sprintf("argument %s is missing", usage[min(len(args), len(usage)-1)])
}

// unknownCommand rejects an argument of a command that has only subcommands, and suggests the
// commands with a similar name or the same purpose.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	likely := c.SuggestionsFor(args[0])
	if len(likely) == 0 {
		shown := lists.Filter(c.Commands(), func(child *cobra.Command) bool { return !child.Hidden })
		likely = append(likely, readable.Nearest(args[0], lists.Map(shown, (*cobra.Command).Name)))
	}
	return fmt.Errorf("unknown command %q for %q%s (%s --help lists the commands)", args[0], c.CommandPath(),
		readable.DidYouMean(strings.Join(likely, " or ")), c.CommandPath())
}

// suggestFlag suggests the flag of a command whose name is most similar to an unknown one.
func suggestFlag(c *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	switch {
	case !ok:
		return ""
	case strings.Trim(unknown.GetSpecifiedShortnames(), "0123456789.") == "" && unknown.GetSpecifiedShortnames() != "":
		return "; write -- before a negative number"
	case len(unknown.GetSpecifiedName()) < 2:
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return readable.DidYouMean(readable.Nearest("--"+unknown.GetSpecifiedName(), names))
}

// refuseFlags returns an error if one of the flags is given; format has a place for its name.
func refuseFlags(f *pflag.FlagSet, names []string, format string) error {
	for _, name := range names {
		if f.Changed(name) {
			return fmt.Errorf(format, name)
		}
	}
	return nil
}

// otherFlag returns the name of a flag of the command that is given and not in the list, "" if there is none.
func otherFlag(c *cobra.Command, allowed []string) (name string) {
	c.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(allowed, flag.Name) && c.InheritedFlags().Lookup(flag.Name) == nil {
			name = flag.Name
		}
	})
	return name
}
