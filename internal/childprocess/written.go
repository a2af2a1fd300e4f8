package childprocess

import (
	"os"
	"time"
)

// Holder detects files of a folder that are rewritten in place. It keeps the files of the last
// look open: a file replaced by renaming is unchanged.
type Holder struct {
	workspace *Workspace
	folder    string
	held      map[string]heldFile
	found     string // a file rewritten in place
}

// Hold watches the files of a folder from the first Look until Close.
func (w *Workspace) Hold(folder string) *Holder { return &Holder{workspace: w, folder: folder} }

// Written returns a file that was rewritten in place, as a path below the folder; "" if none was.
func (h *Holder) Written() string { return h.found }

type heldFile struct {
	*os.File
	size    int64
	written time.Time
}

// Look compares the files with the last look, and opens the present ones.
func (h *Holder) Look() error {
	h.Close()
	files, err := h.workspace.List(h.folder)
	if err != nil {
		return err
	}
	h.held = map[string]heldFile{}
	for _, f := range files {
		file, info, err := openRegular(h.workspace.root, h.folder+"/"+f.Name)
		if err != nil {
			continue // it is being changed
		}
		h.held[f.Name] = heldFile{file, info.Size(), info.ModTime()}
	}
	return nil
}

// Close compares a last time, and closes the files.
func (h *Holder) Close() {
	for name, f := range h.held {
		if info, err := f.Stat(); err == nil && (info.Size() != f.size || !info.ModTime().Equal(f.written)) {
			h.found = name
		}
		f.Close()
	}
	h.held = nil
}
