// Package python embeds the Python side of the contracts, and the adapters around a PyTorch module that
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

// ModelFile has the module: an example for users to replace.
const ModelFile = "model.py"

// modules are the modules of the package coalmine that the adapters import.
var modules = []string{"__init__", "client", "devices", "pytorch", "score", "tensors", "torchclient", "train"}

// Trainer has the package coalmine with the PyTorch trainer that training.engine: pytorch runs.
//
//go:embed coalmine/__init__.py coalmine/client.py coalmine/devices.py coalmine/score.py coalmine/tensors.py coalmine/torch.py coalmine/transformer.py
var Trainer embed.FS

// Starter returns the files of a directory with a trainer: the module, the adapters, and the package
// coalmine. They run on any machine with PyTorch.
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
