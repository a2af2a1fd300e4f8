package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// typedCommands are the commands that people type, by their paths without "coalmine", each after the title of its group.
func typedCommands(parent *cobra.Command, group string) (found []string) {
	for _, c := range parent.Commands() {
		group := group
		for _, g := range parent.Groups() {
			if g.ID == c.GroupID {
				group = g.Title
			}
		}
		switch {
		case c.Hidden || c.Name() == "help" || c.Name() == "completion":
		case c.HasSubCommands():
			found = append(found, typedCommands(c, group)...)
		default:
			found = append(found, group+strings.TrimPrefix(c.CommandPath(), "coalmine"))
		}
	}
	return found
}

// commandsOfPage are the commands in the first column of the tables of docs/commands.md, each after the title of its
// section: the lower-case words at the beginning of each span of code.
func commandsOfPage(t *testing.T) (found []string) {
	t.Helper()
	for _, section := range strings.Split(string(contentOf(t, "../../docs/commands.md")), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		for _, row := range regexp.MustCompile("(?m)^\\|(`.*?) \\|").FindAllStringSubmatch(text, -1) {
			for _, span := range regexp.MustCompile("`([a-z]+(?: [a-z]+)*)").FindAllStringSubmatch(row[1], -1) {
				found = append(found, title+": "+span[1])
			}
		}
	}
	return found
}

func TestThePageOfCommandsMatchesProgram(t *testing.T) {
	t.Parallel()
	page, program := commandsOfPage(t), typedCommands(newRoot(io.Discard, io.Discard), "")
	slices.Sort(page)
	slices.Sort(program)
	if !slices.Equal(page, program) {
		t.Errorf("docs/commands.md lists\n%q\nand the program has\n%q", page, program)
	}
}

// helps calls look with each command that the help lists, and its help.
func helps(look func(c *cobra.Command, help string)) {
	root := newRoot(io.Discard, io.Discard)
	root.InitDefaultCompletionCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		look(c, c.Long+"\n\n"+c.UsageString())
		for _, child := range c.Commands() {
			if !child.Hidden && child.Name() != "help" {
				walk(child)
			}
		}
	}
	walk(root)
}

func TestEveryCommandHasSummaryGroupAndExample(t *testing.T) {
	t.Parallel()
	helps(func(c *cobra.Command, _ string) {
		ofProgram := c.HasParent() && !c.Parent().HasParent()
		if c.Short == "" || c.Example == "" || ofProgram && c.GroupID == "" {
			t.Errorf("%q has no Short, no Example or no GroupID", c.CommandPath())
		}
	})
}

// Examples can be longer than the width of a help: their lines are for copying.
func TestHelpTextsFitTheirWidth(t *testing.T) {
	t.Parallel()
	helps(func(c *cobra.Command, help string) {
		for line := range strings.Lines(strings.Replace(help, c.Example, "", 1)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
				t.Errorf("%s --help has a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
		if c.HasParent() && strings.Contains(help, "  --home string") {
			t.Errorf("%s --help explains the flags of all commands again", c.CommandPath())
		}
	})
}
