// Package python holds the Python side of the contracts, and adapters around a module of PyTorch that
// coalmine init writes.
package python

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed coalmine/*.py starter/*.py
var files embed.FS

// ModelFile has the module, an example of one until somebody puts another in its place.
const ModelFile = "model.py"

// modules are those of the package coalmine that the adapters import.
var modules = []string{"__init__", "client", "devices", "pytorch", "score", "tensors", "torchclient", "train"}

// Starter returns the files of a directory that trains: the module, the adapters, and the package coalmine,
// so that they run on every machine that has PyTorch.
func Starter() (map[string][]byte, error) {
	names, err := fs.Glob(files, "starter/*.py")
	if err != nil {
		return nil, err
	}
	for _, module := range modules {
		names = append(names, path.Join("coalmine", module+".py"))
	}
	found := map[string][]byte{}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if path.Dir(name) == "starter" {
			name = path.Base(name)
		}
		found[name] = text
	}
	return found, nil
}
