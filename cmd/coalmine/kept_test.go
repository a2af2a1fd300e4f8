package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/clone"
	"coalmine/tasks/taskstest"
)

var keptSeconds = flag.Float64("kept-seconds", 0, "run the examples again whose kept outputs state at most this many seconds of a processor")

// keptCommand is a line of a kept output: a command, and how many seconds of a processor it takes if that is more than a second.
var keptCommand = regexp.MustCompile(`(?m)^\$ coalmine (.*?)(?: +# ([0-9.]+) s)?$`)

// again runs the commands of a kept output in a directory of their own. What run prints is left out.
func again(t *testing.T, kept string) []byte {
	t.Helper()
	home, made := t.TempDir(), bytes.Buffer{}
	for _, match := range keptCommand.FindAllStringSubmatch(kept, -1) {
		var out, messages bytes.Buffer
		args := append(strings.Fields(match[1]), "--home", home)
		if code := execute(t.Context(), args, &out, &messages); code != exitDone {
			t.Fatalf("coalmine %s: exit status %d: %s", match[1], code, &messages)
		}
		fmt.Fprintln(&made, match[0])
		if args[0] != "run" {
			made.Write(out.Bytes())
		}
	}
	return made.Bytes()
}

// The files docs/*/*.txt hold the outputs of commands, from which the tables of the pages are made. Those
// that take no time are compared here; make check runs short examples again.
func TestKeptOutputsAreThoseOfTheirCommands(t *testing.T) {
	root, ok := clone.Root()
	if !ok {
		t.Fatal("the pages are those of a clone, and this test runs in none")
	}
	t.Chdir(root)
	paths, err := filepath.Glob("docs/*/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no kept outputs: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		seconds := 0.0
		for _, match := range keptCommand.FindAllStringSubmatch(string(data), -1) {
			x, _ := strconv.ParseFloat(match[2], 64)
			seconds += x
		}
		if seconds > *keptSeconds {
			continue
		}
		t.Run(path, func(t *testing.T) { taskstest.File(t, path, again(t, string(data))) })
	}
}
