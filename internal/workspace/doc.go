// Package workspace runs a command that is not ours in a directory of its own, and looks after
// what it leaves there.
//
//	w, err := workspace.New()
//	...
//	defer w.Remove()
//	err = w.Unpack(code)                                    // the directory begins as a copy of the code
//	err = w.Put("in/job.json", job)
//	err = w.Run(ctx, workspace.Command{Line: "python3 train.py"}, workspace.Watch{...})
//	files, err := w.List("out")
//
// While the command runs, Watch is told what has changed: when the files of a folder have come
// to rest, and which lines another file has got. Names are slash-separated paths below the
// directory.
package workspace
