package experiment

import "coalmine/internal/goroutines"

// Options of Parse.
type Options struct {
	// Sets are overrides of the form path=value, applied in order before the grid is expanded. null removes a field.
	Sets []string
	// MaxCells is the maximum number of cells; 0 means DefaultMaxCells.
	MaxCells int
}

// DefaultMaxCells is the default maximum number of cells.
const DefaultMaxCells = 10_000

// Parse reads an experiment file, applies overrides, expands the grid and checks each cell. name is the file's name
// in messages. The error is an *Error with all mistakes, or a *goroutines.Panic for a fault of the program.
func Parse(name string, data []byte, o Options) (spec *Spec, err error) {
	err = goroutines.Recover(func() (err error) {
		spec, err = read(name, data, o)
		return err
	})
	return spec, err
}

// Latest names the newest run in commands, so no experiment may have this name.
const Latest = "latest"

func read(name string, data []byte, o Options) (*Spec, error) {
	var ps problems
	root := parseYAML(name, data, &ps)
	if root == nil {
		return nil, ps.err(0)
	}
	if o.MaxCells == 0 {
		o.MaxCells = DefaultMaxCells
	}
	g := readGrid(applySets(root, o.Sets, &ps), &ps)
	cells := g.cells(o.MaxCells, &ps)
	if len(cells) > 0 && cells[0].Experiment.Name == Latest {
		ps.add(root.find("name").at, "name", "is "+Latest+", which commands read as the newest run; expected another name")
	}
	if err := ps.err(len(cells)); err != nil {
		return nil, err
	}
	labelCells(cells)
	return &Spec{Name: cells[0].Experiment.Name, Cells: cells}, nil
}
