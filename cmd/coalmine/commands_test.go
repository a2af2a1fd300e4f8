package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// allCommands are a command and those below it that a person types.
func allCommands(c *cobra.Command) []*cobra.Command {
	commands := []*cobra.Command{c}
	for _, child := range c.Commands() {
		if !child.Hidden && child.Name() != "help" && child.Name() != "completion" {
			commands = append(commands, allCommands(child)...)
		}
	}
	return commands
}

func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	commands := allCommands(newRoot(io.Discard, io.Discard))
	if len(commands) < 30 {
		t.Errorf("found %d commands, expected all", len(commands))
	}
	for _, c := range commands {
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("the help of %q has no example of it, but %q", c.CommandPath(), c.Example)
		}
	}
}

func TestErrorsAreJSONWithJSONFlag(t *testing.T) {
	t.Parallel()
	for _, want := range []struct {
		args        []string
		kind, error string
	}{
		{[]string{"plan"}, "", "usage: coalmine plan FILE"},
		{[]string{"results", "--rows", "users"}, "", "expected one of cells"},
		{[]string{"status", "nobody"}, "no-run", "nobody"},
		{[]string{"status", "--bogus"}, "", "--bogus"},
	} {
		code, _, messages := coalmine(t, append(want.args, "--json", "--home", t.TempDir())...)
		lines := strings.Split(strings.TrimSpace(messages), "\n")
		var got failure
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || code == exitDone || got.Exit != code || got.Kind != want.kind || !strings.Contains(got.Error, want.error) {
			t.Errorf("%v: exit status %d, %q, %v; want the kind %q and %q", want.args, code, messages, err, want.kind, want.error)
		}
	}
}

func TestInterruptedCommandReportsOnlyInterrupt(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"status"}, {"results", "latest"}, {"export", "latest", "c01"}, {"rm", "latest"}, {"gc"}} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			interrupt(errors.New("interrupt signal received"))
			<-ended
		}))
		var out, messages bytes.Buffer
		code := execute(ctx, append(args, "--server", server.URL), &out, &messages)
		if text := messages.String(); code != exitInterrupted || text != "coalmine: interrupted\n" {
			t.Errorf("%v: exit status %d, %q", args, code, text)
		}
		close(ended)
		server.Close()
	}
}

// An unknown command suggests the commands with similar names or the same purpose, and no others.
func TestSimilarCommandsAreSuggested(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"ls": "status", "list": "status", "stat": "status", "watchh": "watch", "resluts": "results", "xy": "", "resluts --format csv": "results",
		"data imprt": "import", "data imprt posts.csv --name posts": "import", "contract chek": "check", "contract check scores": "score",
		"results --fromat csv": "--format", "run --hom x": "--home", "status --polt x": "",
	} {
		var out, messages bytes.Buffer
		code := execute(t.Context(), strings.Fields(typed), &out, &messages)
		_, suggested, _ := strings.Cut(messages.String(), "; did you mean ")
		if got, _, _ := strings.Cut(suggested, "?"); got != want || code != exitUsage || out.Len() > 0 {
			t.Errorf("%s: exit status %d, %q is suggested, want %q; %s", typed, code, got, want, messages.String())
		}
	}
}
