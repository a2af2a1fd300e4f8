package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/secrets"
)

func TestFlagsWithoutEffectAreToldOrRefused(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	key := filepath.Join(dir, "key")
	if _, err := secrets.Create(key); err != nil {
		t.Fatal(err)
	}
	for args, says := range map[string]string{
		"run " + file + " --memory 1GiB --secret-key " + key: "--memory has no effect: server http://127.0.0.1:1 works on the run",
		"submit " + file + " --on-server --max-cells 3":      "the server applies its own limit",
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), append(strings.Fields(args), "--server", "http://127.0.0.1:1"), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%s: exit status %d, %s; want %q", args, code, &stderr, says)
		}
	}
}

func TestASubmissionOfAnUnfinishedRunSaysWhatItChanges(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	submit := []string{"submit", file, "--store", filepath.Join(dir, "store"), "--secret-key", filepath.Join(dir, "key"), "--priority", "5"}
	for _, says := range []string{"", "continues with priority 5"} {
		var stdout, stderr bytes.Buffer
		if code := execute(t.Context(), submit, &stdout, &stderr); code != exitDone || !strings.Contains(stderr.String(), says) {
			t.Errorf("exit status %d, %s; want %q", code, &stderr, says)
		}
	}
}
