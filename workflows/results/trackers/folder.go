package trackers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Format is a form of many files.
type Format struct {
	// Name is the format's name in --format.
	Name string
	// Description describes the format in a few words.
	Description string
	// Reader is a command that shows a folder of it, with %s for the folder.
	Reader string

	// folder is the name of the run's folder within that of the tracker.
	folder func(*Run) string
	// about are the files of the whole run, and cell those of one cell, below folder.
	about func(*Run) []file
	cell  func(*Run, *Cell) []file
}

// file is a file to write.
type file struct {
	path string // with slashes
	data []byte
}

var formats = []Format{
	{
		Name: "mlflow", Description: "a file store of MLflow, one run a cell; needs -o", Reader: "mlflow ui --backend-store-uri %s",
		folder: experimentID, about: mlflowExperiment, cell: mlflowRun,
	},
	{
		Name: "tensorboard", Description: "event files of TensorBoard, one folder a cell; needs -o", Reader: "tensorboard --logdir %s",
		folder: func(r *Run) string { return r.ID }, about: func(*Run) []file { return nil }, cell: tensorBoardRun,
	},
}

// Formats lists the forms.
func Formats() []Format { return append([]Format(nil), formats...) }

// Named is the form of that name.
func Named(name string) (Format, bool) {
	for _, f := range formats {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Written describes the written files.
type Written struct {
	Run string `json:"run"`
	// Folder is that of the run.
	Folder string `json:"folder"`
	Cells  int    `json:"cells"`
	Files  int    `json:"files"`
}

// Write writes a run into the tracker's folder dir, which may hold other runs and is made
// where it is missing. The run's own folder must not be there yet; it appears whole or not
// at all.
func (f Format) Write(dir string, run *Run) (*Written, error) {
	out := &Written{Run: run.ID, Folder: filepath.Join(dir, f.folder(run)), Cells: len(run.Cells)}
	if _, err := os.Lstat(out.Folder); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: run %s is there already, and nothing is overwritten: name another directory by -o, or remove it", out.Folder, run.ID)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unfinished, err := os.MkdirTemp(dir, ".unfinished-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(unfinished)
	if out.Files, err = f.writeFiles(unfinished, run); err != nil {
		return nil, err
	}
	if err := os.Chmod(unfinished, 0o755); err != nil {
		return nil, err
	}
	return out, os.Rename(unfinished, out.Folder)
}

// writeFiles writes all files of a run below a folder and returns how many.
func (f Format) writeFiles(folder string, run *Run) (written int, err error) {
	write := func(files []file) error {
		for _, file := range files {
			if err := file.write(folder); err != nil {
				return err
			}
			written++
		}
		return nil
	}
	if err := write(f.about(run)); err != nil {
		return written, err
	}
	for i := range run.Cells {
		if err := write(f.cell(run, &run.Cells[i])); err != nil {
			return written, fmt.Errorf("cell %s: %w", run.Cells[i].Name, err)
		}
	}
	return written, nil
}

func (f *file) write(folder string) error {
	if !filepath.IsLocal(filepath.FromSlash(f.path)) {
		return fmt.Errorf("file %q: expected a path below the folder of the run", strings.ToValidUTF8(f.path, "?"))
	}
	path := filepath.Join(folder, filepath.FromSlash(f.path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, f.data, 0o644)
}
