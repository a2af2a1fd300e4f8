package main

import (
	"strings"
	"testing"
)

// The test trains each model for a moment. The head of examples/demo.yaml has the results at its own sizes.
func TestDemoNeedsNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	demo := []string{"demo", "--set", "data.share=2%", "--set", "data.users.words=100", "--set", "canaries.per_configuration=1",
		"--set", "training.epochs=1", "--set", "audit.random_sampling.references=100"}
	first, err := inEmptyFolder(t, folder, demo...)
	if err != nil {
		t.Fatalf("%v\n%s", err, first)
	}
	for _, want := range []string{"plain SGD ", "clipped ", "DP-SGD, no noise ", "DP-SGD ", "RS memorized", "epsilon proved", "perplexity", "Next:\n"} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	if again, err := inEmptyFolder(t, folder, demo...); err != nil || !strings.HasSuffix(again, demoNext("")) || strings.Contains(again, "running:") {
		t.Errorf("the second demonstration trains again: %v\n%s", err, again)
	}
}

// Below the table stand commands that exist.
func TestDemoNextCommandsExist(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"", " --home demo"} {
		_, next, _ := strings.Cut(demoNext(place), "Next:\n")
		for line := range strings.Lines(next) {
			line, _, _ = strings.Cut(line, "#")
			root := newRoot(t.Output(), t.Output())
			command, args, err := root.Find(strings.Fields(line)[1:])
			if err == nil {
				err = command.ParseFlags(args)
			}
			if err != nil || command == root {
				t.Errorf("%s: %v", line, err)
			}
			if home := command.Flags().Lookup("home"); command.Name() != "init" && home.Changed != (place != "") {
				t.Errorf("%s: it acts on the home %s", line, home.Value)
			}
		}
	}
}
