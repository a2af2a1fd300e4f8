package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/pretrained"
	"coalmine/tasks/pretrained/pretrainedtest"
	"coalmine/workflows/standalone/modelaudit"
)

func TestAuditReadsHuggingFaceFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	list := write("canaries.txt", "the king and you\nthe king of that\n")
	members, others := write("members.txt", "To be, or not to be\nthat is\n"), write("others.txt", "the question\nWhether\n")
	folder := func(name string, edit func(file string, data []byte) []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.CopyFS(path, pretrainedtest.Folder(t, "llama", edit)))
		return path
	}
	var out, messages bytes.Buffer
	args := []string{
		"audit", folder("llama", nil), "--canaries", list, "--references", "500", "--beam-width", "4", "--prefix", "2",
		"--members", members, "--nonmembers", others, "--sequence", "20", "--json",
	}
	if code := execute(t.Context(), args, &out, &messages); code != 0 {
		t.Fatalf("exit status %d: %s", code, messages.String())
	}
	var report modelaudit.Report
	must.Do(t, json.Unmarshal(out.Bytes(), &report))
	if r := report.RandomSampling; r.Of != 2 || r.References != 500 || report.Membership == nil || report.Membership.Members != 2 || report.BeamSearch.Of != 2 {
		t.Errorf("report %s", out.String())
	}
	out.Reset()
	bloom := folder("bloom", func(file string, data []byte) []byte {
		if file == pretrained.ConfigFile {
			data = bytes.Replace(data, []byte(`"llama"`), []byte(`"bloom"`), 1)
		}
		return data
	})
	if code := execute(t.Context(), []string{"audit", bloom, "--canaries", list}, &out, &messages); code != exitUsage ||
		strings.Count(messages.String(), "\n") != 1 || !strings.Contains(messages.String(), `config.json: model_type is "bloom"; expected gpt2, gpt_neox, llama`) {
		t.Errorf("exit status %d, messages %q", code, messages.String())
	}
}
