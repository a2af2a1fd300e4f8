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

// files are the files that programs read and write, in a directory of shared memory if there
// is one. They go with Close, and those of a process that was killed when the next one opens
// its own.
type files struct {
	path      string
	directory *tempfiles.Directory

	mu sync.Mutex
	// models are the parameters that are there, by name; newest is that which came last.
	models map[string]*modelFile
	newest string
	slots  int // directories given out so far
}

// modelFile is a file of parameters, and how many use it.
type modelFile struct {
	path  string
	users int
}

// openFiles makes a directory below another one.
func openFiles(base string) (*files, error) {
	directory, err := tempfiles.MakeDirectory(base, directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("a directory for parameters: %w", err)
	}
	return &files{path: directory.Path, directory: directory, models: map[string]*modelFile{}}, nil
}

// Clean removes the directories that killed processes have left in shared memory.
func Clean() { tempfiles.Clean(sharedMemory()) }

// Close removes the directory.
func (f *files) Close() { f.directory.Remove() }

// slot makes a directory for one program.
func (f *files) slot() (string, error) {
	f.mu.Lock()
	f.slots++
	path := filepath.Join(f.path, "program-"+strconv.Itoa(f.slots))
	f.mu.Unlock()
	return path, os.Mkdir(path, 0o700)
}

// hold returns the file of a model, which stays until it is let go of. It is written once for
// all who need it at a time.
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

// use makes a model the newest, and drops the one before unless somebody uses it. The caller
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

// drop removes a model that nobody uses. The caller holds mu.
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
