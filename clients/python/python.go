// Package python holds the Python side of the contracts, and adapters around a module of PyTorch that
// coalmine init writes.
package python

import (
	"embed"
	"io/fs"
	"path"
)

// Package holds the Python package coalmine.
//
//go:embed coalmine/*.py
var Package embed.FS

//go:embed starter/*.py
var adapters embed.FS

// ModelFile has the module, an example of one until somebody puts another in its place.
const ModelFile = "model.py"

// modules are those of the package coalmine that the adapters import.
var modules = []string{"__init__", "client", "devices", "pytorch", "score", "tensors", "torchclient", "train"}

// Trainer has the package coalmine with the modules of its trainer in PyTorch, which
// training.engine: pytorch runs.
//
//go:embed coalmine/__init__.py coalmine/client.py coalmine/devices.py coalmine/score.py coalmine/tensors.py coalmine/torch.py coalmine/transformer.py
var Trainer embed.FS

// Starter returns the files of a directory that trains: the module, the adapters, and the package coalmine,
// so that they run on every machine that has PyTorch.
func Starter() (map[string][]byte, error) {
	names, err := fs.Glob(adapters, "starter/*.py")
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, name := range names {
		if found[path.Base(name)], err = adapters.ReadFile(name); err != nil {
			return nil, err
		}
	}
	for _, module := range modules {
		name := path.Join("coalmine", module+".py")
		if found[name], err = Package.ReadFile(name); err != nil {
			return nil, err
		}
	}
	return found, nil
}
