package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/tasks/clientprograms"
)

// directoryPrefix begins the names of directories of files.
const directoryPrefix = "clients-"

// files are the files that programs read and write, in shared memory if possible. Close
// removes them; those of a killed process are removed when the next process opens its own.
type files struct {
	path      string
	directory *tempfiles.Directory

	mu sync.Mutex
	// models holds the present parameters by name; newest is the last one added.
	models map[string]*modelFile
	newest string
	slots  int // directories made so far
}

// modelFile is a file of parameters with its number of users.
type modelFile struct {
	path  string
	users int
}

// openFiles makes a directory below base.
func openFiles(base string) (*files, error) {
	directory, err := tempfiles.MakeDirectory(base, directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("a directory for parameters: %w", err)
	}
	return &files{path: directory.Path, directory: directory, models: map[string]*modelFile{}}, nil
}

// Clean removes the directories that killed processes have left in shared memory.
func Clean() { tempfiles.Clean(sharedMemory()) }

func (f *files) Close() { f.directory.Remove() }

// slot makes a directory for one program.
func (f *files) slot() (string, error) {
	f.mu.Lock()
	f.slots++
	path := filepath.Join(f.path, "program-"+strconv.Itoa(f.slots))
	f.mu.Unlock()
	return path, os.Mkdir(path, 0o700)
}

// hold returns the file of a model, which exists until letGo. Concurrent users share one file.
func (f *files) hold(ctx context.Context, m clientprograms.Model) (path string, letGo func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, there := f.models[m.Name]
	if !there {
		data, err := m.Read(ctx)
		if err != nil {
			return "", nil, err
		}
		file = &modelFile{path: filepath.Join(f.path, m.Name+".safetensors")}
		if err := os.WriteFile(file.path, data, 0o400); err != nil {
			os.Remove(file.path)
			return "", nil, fmt.Errorf("parameters for a program: %w", err)
		}
		f.models[m.Name] = file
	}
	file.users++
	f.use(m.Name)
	return file.path, sync.OnceFunc(func() { f.release(m.Name) }), nil
}

// use makes a model the newest, and drops the previous one unless it is in use. The caller
// holds mu.
func (f *files) use(name string) {
	before := f.newest
	f.newest = name
	if before != name {
		f.drop(before)
	}
}

func (f *files) release(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.models[name].users--
	if name != f.newest {
		f.drop(name)
	}
}

// drop removes an unused model. The caller holds mu.
func (f *files) drop(name string) {
	if file, there := f.models[name]; there && file.users == 0 {
		os.Remove(file.path)
		delete(f.models, name)
	}
}

// words returns the path of a JSON list of words.
func (f *files) words(list []string) (string, error) {
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	path := filepath.Join(f.path, storage.DigestOf(data).String()+".json")
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		os.Remove(path)
		return "", fmt.Errorf("words for a program: %w", err)
	}
	return path, nil
}
