package childprocess

import (
	"io/fs"
	"os"
	"sync"

	"coalmine/internal/tempfiles"
)

// pythonPath names the variable with the directories in which Python looks for modules.
const pythonPath = "PYTHONPATH"

// offered holds the modules of OfferPython.
var offered modules

// modules are Python modules, written to a directory when the first command starts.
type modules struct {
	mu        sync.Mutex
	files     fs.FS                // nil if there are none
	directory *tempfiles.Directory // nil until a command has started
}

// OfferPython makes the Python modules of files available to every command of this process. Modules
// of the same name next to the command or in PYTHONPATH take precedence. withdraw removes the
// written files; no command may run after it.
func OfferPython(files fs.FS) (withdraw func()) {
	offered.mu.Lock()
	defer offered.mu.Unlock()
	offered.files = files
	return offered.remove
}

func (m *modules) remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.directory != nil {
		m.directory.Remove()
	}
	m.files, m.directory = nil, nil
}

// path returns the directory of the modules, "" if there are none.
func (m *modules) path() (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		return "", nil
	}
	if m.directory == nil {
		directory, err := tempfiles.MakeDirectory("", "python-")
		if err != nil {
			return "", err
		}
		if err := os.CopyFS(directory.Path, m.files); err != nil {
			directory.Remove()
			return "", err
		}
		m.directory = directory
	}
	return m.directory.Path, nil
}

// joined appends a directory to a list of directories.
func joined(list, directory string) string {
	if list == "" {
		return directory
	}
	return list + string(os.PathListSeparator) + directory
}
