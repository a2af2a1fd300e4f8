package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coalmine/workflows/runs"
)

func TestLogsShowHistoryAndStatusShowsNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home, source, file := filepath.Join(dir, "home"), filepath.Join(dir, "text.jsonl"), filepath.Join(dir, "one.yaml")
	const text = "name: one\ndata: {source: text.jsonl, vocabulary: {size: 20}, users: {words: 100}}\n" +
		"model: {embedding: 4, units: 4}\ntraining: {algorithm: sgd, rounds: 4, cohort: 4, client: {learning_rate: 0.1}}\n"
	for path, data := range map[string]string{source: string(spendingText()), file: text} {
		writeFile(t, path, data)
	}
	outputOf(t, home, "run", file)
	outputOf(t, home, "note", "one", "too noisy\nsecond line")
	outputOf(t, home, "tag", "one", "paper", "table-1")
	var told runLogs
	decodeJSON(t, outputOf(t, home, "logs", "one", "--json"), &told)
	var kinds []runs.Kind
	for _, e := range told.History.Events {
		kinds = append(kinds, e.Kind)
	}
	want := []runs.Kind{runs.Submitted, runs.Started, runs.Finished, runs.NoteEntry, runs.TagEntry}
	if !slices.Equal(kinds, want) || len(told.Logs) != 0 || told.Logs == nil {
		t.Errorf("the history is %q, want %q; logs %v", kinds, want, told.Logs)
	}
	if out := outputOf(t, home, "logs"); !strings.Contains(out, "  submitted by ") || !strings.Contains(out, "  tags set to ") {
		t.Errorf("logs print\n%s", out)
	}
	if out := outputOf(t, home, "status", "one"); !strings.Contains(out, "note: too noisy\n      second line\ntags: paper table-1\n") {
		t.Errorf("status prints\n%s", out)
	}
}
