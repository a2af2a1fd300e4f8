package external

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"slices"

	"coalmine/internal/childprocess"
	"coalmine/storage"
	"coalmine/tasks"
)

// A checkpoint is kept together with the files below out when the checkpoint stops changing. So a
// file that a command writes there before a checkpoint is restored with it. With an empty
// checkpoint no files of out are kept: the next execution restarts.

// storedFile is a listed file and its stored blob.
type storedFile struct {
	childprocess.File
	blob storage.Blob
}

// keptName returns the stored name of a file of the directory: its path relative to the checkpoint,
// so that earlier versions, which kept only checkpoints, can read a kept checkpoint.
func keptName(folder, name string) string {
	if folder == checkpointFolder {
		return name
	}
	return "../" + folder + "/" + name
}

// keptPath returns the path of a kept file in the directory.
func keptPath(name string) string { return path.Join(checkpointFolder, name) }

// changed keeps a changed checkpoint that is now stable, and the files below out.
func (x *training) changed(ctx context.Context, files []childprocess.File) (taken bool, err error) {
	out, err := x.outBeside(files)
	if err != nil {
		return false, err
	}
	stored := map[string]storedFile{}
	blobs, err := x.keepFiles(ctx, checkpointFolder, files, stored)
	if err == nil {
		var beside []storage.Blob
		beside, err = x.keepFiles(ctx, outFolder, out, stored)
		blobs = append(blobs, beside...)
	}
	if err != nil {
		return false, x.later(err)
	}
	again, err := x.workspace.List(checkpointFolder)
	if err != nil || !slices.Equal(files, again) {
		return false, err
	}
	if x.directories, err = x.listDirectories(len(files) > 0); err != nil {
		return false, err
	}
	x.kept.Files, x.stored = blobs, stored
	if err := x.keep(ctx); err != nil {
		return false, x.later(err)
	}
	if x.watched == nil || len(files) == 0 {
		return true, nil
	}
	return true, x.watched()
}

// outBeside lists the files below out that are kept with a checkpoint. Metrics are kept as rows
// instead.
func (x *training) outBeside(checkpoint []childprocess.File) ([]childprocess.File, error) {
	if len(checkpoint) == 0 {
		return nil, nil
	}
	files, err := x.workspace.List(outFolder)
	return slices.DeleteFunc(files, func(f childprocess.File) bool { return outFolder+"/"+f.Name == metricsFile }), err
}

// keepFiles stores the files of a folder, and notes them in stored. A missing file of out was
// temporary; a missing file of the checkpoint means that the checkpoint is changing.
func (x *training) keepFiles(ctx context.Context, folder string, files []childprocess.File, stored map[string]storedFile) (blobs []storage.Blob, err error) {
	for _, f := range files {
		b, err := x.keepFile(ctx, folder, f)
		if folder == outFolder && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, b)
		stored[folder+"/"+f.Name] = storedFile{f, b}
	}
	return blobs, nil
}

// listDirectories lists the folders below the kept ones, because a command may have made a folder once and
// not filled it yet.
func (x *training) listDirectories(kept bool) ([]string, error) {
	if !kept {
		return nil, nil
	}
	checkpoint, err := x.workspace.Folders(checkpointFolder)
	out, outErr := x.workspace.Folders(outFolder)
	return append(checkpoint, out...), errors.Join(err, outErr)
}

// changingError reports a file that could not be read because it is changing; the next poll
// retries.
type changingError struct{ error }

func (e changingError) Unwrap() error { return e.error }

// keepFile stores a file, unless it is kept unchanged.
func (x *training) keepFile(ctx context.Context, folder string, f childprocess.File) (storage.Blob, error) {
	file := folder + "/" + f.Name
	if known, ok := x.stored[file]; ok && known.File == f {
		return known.blob, nil
	}
	data, err := x.workspace.Read(file, maxFile)
	if fault, ok := errors.AsType[*childprocess.FileError](err); ok && fault.Limit > 0 {
		return storage.Blob{}, err
	}
	if err != nil {
		return storage.Blob{}, changingError{err}
	}
	return x.task.KeepFile(ctx, keptName(folder, f.Name), data, folder == checkpointFolder)
}

// later notes an error that does not end the command: the next poll may succeed.
func (x *training) later(err error) error {
	if _, changing := errors.AsType[changingError](err); changing {
		return nil
	}
	if !storage.IsTrouble(err) {
		return err
	}
	x.unkept = err
	return nil
}

// keepRows keeps new metric rows.
func (x *training) keepRows(ctx context.Context) error {
	if x.rows.changes == x.sent {
		return nil
	}
	return x.later(x.keep(ctx))
}

func (x *training) keep(ctx context.Context) error {
	state, err := json.Marshal(State{Rows: x.rows.list(), Folders: x.directories})
	if err != nil {
		return tasks.Permanent(err)
	}
	x.kept.State = state
	if err := x.task.SaveProgress(ctx, &x.kept); err != nil {
		return err
	}
	x.sent, x.unkept = x.rows.changes, nil
	return nil
}

// resume restores the files that an earlier execution kept. Unreadable ones count as missing: they
// only save work.
func (x *training) resume(ctx context.Context) error {
	kept, err := x.task.Kept(ctx)
	if kept == nil || err != nil {
		return err
	}
	var state State
	if err := json.Unmarshal(kept.State, &state); err != nil {
		return nil // written by another version
	}
	err = x.putBack(ctx, kept.Files, state.Folders)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrCorrupt) {
		return x.startAnew()
	}
	if err != nil {
		return err
	}
	x.kept, x.directories = *kept, state.Folders
	if err := x.rememberStored(); err != nil {
		return err
	}
	lines := x.rows.restore(state.Rows)
	x.sent = x.rows.changes
	return x.workspace.Put(metricsFile, lines)
}

func (x *training) startAnew() error {
	return errors.Join(x.workspace.RemoveFolder(checkpointFolder), x.workspace.RemoveFolder(outFolder), x.folders())
}

// rememberStored notes the restored files as stored.
func (x *training) rememberStored() error {
	x.stored = map[string]storedFile{}
	blobs := map[string]storage.Blob{}
	for _, b := range x.kept.Files {
		blobs[keptPath(b.Name)] = b
	}
	for _, folder := range []string{checkpointFolder, outFolder} {
		files, err := x.workspace.List(folder)
		if err != nil {
			return err
		}
		for _, f := range files {
			file := folder + "/" + f.Name
			x.stored[file] = storedFile{f, blobs[file]}
		}
	}
	return nil
}

// putBack restores the kept files and folders.
func (x *training) putBack(ctx context.Context, files []storage.Blob, folders []string) error {
	for _, folder := range folders {
		if err := x.workspace.Folder(folder); err != nil {
			return err
		}
	}
	for _, f := range files {
		data, err := x.task.KeptFile(ctx, f)
		if err != nil {
			return err
		}
		if err := x.workspace.Put(keptPath(f.Name), data); err != nil {
			return err
		}
	}
	return nil
}
