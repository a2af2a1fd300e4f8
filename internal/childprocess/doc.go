// Package childprocess runs a command that is not ours: a model or a trainer that speaks
// to this program over its standard input and output.
//
//	child, err := childprocess.Command{Args: []string{"python3", "scorer.py"}, Grace: 10 * time.Second}.Start()
//	...
//	fmt.Fprintln(child.Input, `{"id": 1, "method": "describe"}`)
//	line, err := bufio.NewReader(child.Output).ReadString('\n')
//	...
//	err = child.Close() // ends its input, then all of its processes
//
// The command leads a process group of its own. Of the environment of this program it gets the
// variables of a list, and those of its Terms. The last lines that it writes to standard error are
// kept for messages. Its memory may be bounded. A command that is asked to end has its grace until the last
// of its processes has ended.
//
// On Linux a keeper stands between this program and the command: this program once more, under the
// name coalmine-keeper, with which any program that imports this package does nothing else. It
// makes the command's environment, is the ancestor of all processes of the command, and ends them.
// The restrictions of the command depend on the system:
//
//	isolation_linux.go   namespaces: network, processes, files; files with secrets appear empty
//	cgroup_linux.go      control groups: memory and the number of processes
//	keep_linux.go        the keeper; without namespaces it is who gets processes that lose their parent
//	keeper_linux.go      what this program has of a keeper
//
// A Workspace is a directory in which a command runs, apart from others. While it runs, a Watch is told
// what has changed there: when the files of a folder have come to rest, and which lines another file has
// got. Names are slash-separated paths below the directory.
//
//	w, err := childprocess.NewWorkspace()
//	...
//	defer w.Remove()
//	err = w.Put("in/job.json", job)
//	err = w.Run(ctx, childprocess.Command{Args: childprocess.Shell("python3 train.py")}, childprocess.Watch{...})
//	files, err := w.List("out")
//
// On other Unix systems the group is ended, also by a shell beside the command should this program
// be killed; elsewhere only the command itself.
package childprocess
