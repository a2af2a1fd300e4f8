// This file registers the files that hold secrets of this process: keys, tokens, passwords. Each
// package that reads or writes such a file notes its path, and package childprocess hides the
// noted files from external programs.

package secrets

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

var (
	mu    sync.Mutex
	paths = map[string]bool{}
)

// NoteFile registers a file, which need not exist yet. An empty path is ignored.
func NoteFile(path string) {
	if path == "" {
		return
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return // the working directory is gone, and the file with it
	}
	mu.Lock()
	defer mu.Unlock()
	paths[absolute] = true
}

// NotedFiles returns the absolute paths of the files, in order.
func NotedFiles() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(paths))
}
