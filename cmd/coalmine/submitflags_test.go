package main

import (
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/internal/secrets"
)

func TestFlagsWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	key := filepath.Join(dir, "key")
	must.Get(secrets.Create(key))(t)
	for args, says := range map[string]string{
		"run " + file + " --memory 1GiB --secret-key " + key: "--memory has no effect: server http://127.0.0.1:1 works on the run",
		"submit " + file + " --on-server --max-cells 3":      "the server applies its own limit",
	} {
		fails(t, says, append(strings.Fields(args), "--server", "http://127.0.0.1:1")...)
	}
}

func TestResubmissionReportsPriorityOfUnfinishedRun(t *testing.T) {
	t.Parallel()
	file, dir := secretExperiment(t)
	submit := []string{"submit", file, "--store", filepath.Join(dir, "store"), "--secret-key", filepath.Join(dir, "key"), "--priority", "5"}
	for _, says := range []string{"", "continues with priority 5"} {
		if code, _, stderr := coalmine(t, submit...); code != exitDone || !strings.Contains(stderr, says) {
			t.Errorf("exit status %d, %s; want %q", code, stderr, says)
		}
	}
}
