package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command that a person types stands in the README's table, with a sentence of its own
// in --help.
func TestEveryCommandStandsInTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range newRoot(io.Discard, io.Discard).Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if !named(string(readme), c) {
			t.Errorf("README.md has no line for %q", c.CommandPath())
		}
		if c.Short == "" || c.GroupID == "" {
			t.Errorf("%q has no Short, or no GroupID: --help cannot list it", c.CommandPath())
		}
	}
}

// named reports whether a line of the table begins with the command, or names it among
// others.
func named(readme string, c *cobra.Command) bool {
	for line := range strings.Lines(readme) {
		commands, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		if strings.HasPrefix(line, "|") && (strings.Contains(commands, "`"+c.Name()+"`") || strings.Contains(commands, "`"+c.Name()+" ")) {
			return true
		}
	}
	return false
}
