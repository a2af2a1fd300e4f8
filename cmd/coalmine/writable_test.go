//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/childprocess"
	"coalmine/tasks/taskstest"
)

// cachingFile is a training of somebody else's that writes to a directory which is not its own.
const cachingFile = `
name: caching
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 10%%}}
model: {kind: external}
training: {command: 'echo x > "CACHE/file" && echo x > out/model && echo "{\"model\":\"out/model\"}" > out/result.json', rounds: 1}
`

// Whoever runs commands says where they may write beside their own directory; one that was refused says
// so, and how.
func TestCommandsWriteWhereTheirUserLetsThem(t *testing.T) {
	t.Parallel()
	if !childprocess.Enforced().Files {
		t.Skip("this system keeps no files from commands")
	}
	cache := t.TempDir()
	path, home := smallFiles(t, strings.Replace(cachingFile, "CACHE", cache, 1), string(taskstest.Text(1500)))
	var out, messages strings.Builder
	if code := execute(t.Context(), []string{"run", path, "--home", home}, &out, &messages); code != exitCellFailed || !strings.Contains(messages.String(), "--commands-may-write DIR") {
		t.Errorf("exit status %d, want %d and what to do\n%s%s", code, exitCellFailed, &out, &messages)
	}
	prints(t, "run", path, "--home", home, "--commands-may-write", cache)
	if _, err := os.Stat(filepath.Join(cache, "file")); err != nil {
		t.Error(err)
	}
	refuses(t, "is no directory", "run", path, "--home", home, "--commands-may-write", filepath.Join(cache, "none"))
}
