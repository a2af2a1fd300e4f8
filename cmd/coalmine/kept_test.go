package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coalmine/internal/clone"
	"coalmine/internal/must"
	"coalmine/internal/testserver"
	"coalmine/tasks/taskstest"
)

var keptSeconds = flag.Float64("kept-seconds", 0, "run the examples again whose kept outputs state at most this many seconds of a processor")

// keptCommand is a line of a kept output: a command, the part of its output that csvcut (of csvkit), jq or awk selects,
// and how many seconds of a processor the command takes if that is more than a second.
var keptCommand = regexp.MustCompile(`(?m)^\$ coalmine (.*?)(?: \| (csvcut -c|jq|awk -F,) '?([^'\s]+)(?: {print \$NF})?'?)?(?: +# ([0-9.]+) s)?$`)

// piped is the part of an output that csvcut or jq selects.
func piped(t *testing.T, output []byte, program, argument string) []byte {
	t.Helper()
	switch program {
	case "csvcut -c":
		return cut(t, output, argument)
	case "jq":
		var answer any
		decoder := json.NewDecoder(bytes.NewReader(output))
		decoder.UseNumber()
		must.Do(t, decoder.Decode(&answer))
		var made bytes.Buffer
		for _, value := range at(t, answer, argument) {
			if value == nil {
				value = "null"
			}
			fmt.Fprintln(&made, value)
		}
		return made.Bytes()
	case "awk -F,":
		return lastFields(t, string(output), strings.Trim(argument, "/"))
	}
	return output
}

// lastFields are those of the lines of a CSV that match an expression.
func lastFields(t *testing.T, output, expression string) (last []byte) {
	t.Helper()
	matches := must.Get(regexp.Compile(expression))(t)
	for line := range strings.Lines(output) {
		if matches.MatchString(line) {
			last = append(last, line[strings.LastIndex(line, ",")+1:]...)
		}
	}
	return last
}

// jqStep is a step of a path of jq: ".name", "[]" or "[0]".
var jqStep = regexp.MustCompile(`\.(\w+)|\[(\d*)\]`)

// at has the values at a path of jq. A value that is not there is null.
func at(t *testing.T, answer any, path string) []any {
	t.Helper()
	values := []any{answer}
	for _, step := range jqStep.FindAllStringSubmatch(path, -1) {
		var next []any
		for _, value := range values {
			object, _ := value.(map[string]any)
			list, _ := value.([]any)
			if i, err := strconv.Atoi(step[2]); err == nil && i < len(list) {
				list = list[i : i+1]
			}
			if step[1] != "" {
				list = []any{object[step[1]]}
			}
			next = append(next, list...)
		}
		values = next
	}
	return values
}

// cut keeps the named columns of a CSV, as csvcut does.
func cut(t *testing.T, data []byte, names string) []byte {
	t.Helper()
	rows := must.Get(csv.NewReader(bytes.NewReader(data)).ReadAll())(t)
	var made bytes.Buffer
	w := csv.NewWriter(&made)
	for _, row := range rows {
		var kept []string
		for name := range strings.SplitSeq(names, ",") {
			i := slices.Index(rows[0], name)
			if i < 0 {
				t.Fatalf("csvcut -c %s: the columns are %v", names, rows[0])
			}
			kept = append(kept, row[i])
		}
		_ = w.Write(kept) // to memory
	}
	w.Flush()
	return made.Bytes()
}

// again runs the commands of a kept output in a directory of their own. The output of run
// is left out.
func again(t *testing.T, kept string) []byte {
	t.Helper()
	home, made := t.TempDir(), bytes.Buffer{}
	for _, match := range keptCommand.FindAllStringSubmatch(kept, -1) {
		args := append(strings.Fields(match[1]), "--home", home)
		out := prints(t, args...)
		fmt.Fprintln(&made, match[0])
		if args[0] != "run" {
			made.Write(piped(t, []byte(out), match[2], match[3]))
		}
	}
	return made.Bytes()
}

// The text files in the folders of docs hold the outputs of commands, from which the tables of the pages are made. Those
// that take no time are compared here; make check runs short examples again.
func TestKeptOutputsMatchCommands(t *testing.T) {
	testserver.WithoutRace(t)
	root, ok := clone.Root()
	if !ok {
		t.Fatal("the pages are those of a clone, and this test runs in none")
	}
	t.Chdir(root)
	paths, _ := filepath.Glob("docs/*/*.txt")
	ofPapers, _ := filepath.Glob("docs/papers/*/*.txt")
	if len(paths) == 0 || len(ofPapers) == 0 {
		t.Fatalf("%d kept outputs, %d of papers; expected both", len(paths), len(ofPapers))
	}
	for _, path := range append(paths, ofPapers...) {
		data := contentOf(t, path)
		seconds, commands := 0.0, keptCommand.FindAllStringSubmatch(string(data), -1)
		if len(commands) == 0 {
			t.Errorf("%s has no command that made it; expected one, or another suffix if it depends on a machine", path)
		}
		for _, match := range commands {
			x, _ := strconv.ParseFloat(match[4], 64)
			seconds += x
		}
		if seconds > *keptSeconds {
			continue
		}
		t.Run(path, func(t *testing.T) { taskstest.File(t, path, again(t, string(data))) })
	}
}
