package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A secret that was not mounted leaves an empty file; without a token, everybody
// who reaches the server could do everything.
func TestAnEmptyTokenFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	for _, content := range []string{"", "\n", " \t\n"} {
		writeFile(t, path, content)
		for name, flags := range map[string]listenFlags{"operator": {tokenFile: path}, "reader": {readTokenFile: path}} {
			if err := flags.complete(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s token %q: error %v, want one that names the file", name, content, err)
			}
		}
	}
}
