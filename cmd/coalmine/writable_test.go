//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/childprocess"
	"coalmine/internal/must"
	"coalmine/internal/secrets"
	"coalmine/tasks/taskstest"
)

// cachingFile is a training of somebody else's that writes to a directory which is not its own.
const cachingFile = `
name: caching
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 10%%}}
model: {kind: external}
training: {command: 'echo x > "CACHE/file" && echo x > out/model && echo "{\"model\":\"out/model\"}" > out/result.json', rounds: 1}
`

// The operator chooses where commands may write besides their own directory; the error of a refused
// one tells how.
func TestCommandsWriteOnlyToAllowedFolders(t *testing.T) {
	t.Parallel()
	if !childprocess.Enforced().Files {
		t.Skip("this system keeps no files from commands")
	}
	cache := t.TempDir()
	path, home := smallFiles(t, strings.Replace(cachingFile, "CACHE", cache, 1), string(taskstest.Text(1500)))
	if code, out, messages := coalmine(t, "run", path, "--home", home); code != exitCellFailed || !strings.Contains(out, "--commands-may-write DIR") {
		t.Errorf("exit status %d, want %d and the remedy\n%s%s", code, exitCellFailed, out, messages)
	}
	prints(t, "run", path, "--home", home, "--commands-may-write", cache)
	if _, err := os.Stat(filepath.Join(cache, "file")); err != nil {
		t.Error(err)
	}
	refuses(t, "is not a directory", "run", path, "--home", home, "--commands-may-write", filepath.Join(cache, "none"))
}

// spyingFile is a training that reads the secrets of its owner, and ends well if it finds none.
const spyingFile = `
name: spying
data: {source: %s, vocabulary: {size: 60}, users: {words: 150}, test: {fraction: 10%%}}
model: {kind: external}
training: {command: '[ -e "HOME/owner.json" ] && [ -z "$(cat "HOME/owner.json" "KEY")" ] && echo x > out/model && echo "{\"model\":\"out/model\"}" > out/result.json', rounds: 1, limits: {network: true}}
`

// A command with the network would steer its own coordinator by the token in the home.
func TestCommandsCannotReadSecrets(t *testing.T) {
	t.Parallel()
	if !childprocess.Enforced().Files {
		t.Skip("this system keeps no files from commands")
	}
	key, home := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "home")
	must.Get(secrets.Create(key))(t)
	path, _ := smallFiles(t, strings.NewReplacer("HOME", home, "KEY", key).Replace(spyingFile), string(taskstest.Text(1500)))
	prints(t, "run", path, "--home", home, "--secret-key", key)
	prints(t, "run", path, "--home", home, "--secret-key", key, "--commands-may-write", home, "--set", "seed=2")
}
