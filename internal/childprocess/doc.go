// Package childprocess runs an external command: a model or a trainer that communicates with this program
// over its standard input and output.
//
//	child, err := childprocess.Command{Args: []string{"python3", "scorer.py"}, Grace: 10 * time.Second}.Start()
//	...
//	fmt.Fprintln(child.Input, `{"id": 1, "method": "describe"}`)
//	line, err := bufio.NewReader(child.Output).ReadString('\n')
//	...
//	err = child.Close() // ends its input, then all of its processes
//
// The command leads its own process group. Its environment has only the listed variables of this program's,
// and those of its Terms. The last lines of its standard error are kept for messages. Its memory may be
// limited. A command that is asked to end has its grace until the last of its processes has ended.
//
// On Linux a keeper stands between this program and the command: this program run again under the name
// coalmine-keeper, with which any program that imports this package does nothing else. It makes the
// command's environment, is the ancestor of all processes of the command, and ends them. The restrictions
// of the command depend on the system:
//
//	isolation_linux.go   namespaces: network, processes, files; files with secrets appear empty
//	cgroup_linux.go      control groups: memory and the number of processes
//	keep_linux.go        the keeper; without namespaces it adopts processes that lose their parent
//	keeper_linux.go      this program's side of a keeper
//
// A Workspace is a separate directory in which a command runs. While it runs, a Watch receives its changes:
// that the files of a folder have stopped changing, and the new lines of another file. Names are
// slash-separated paths below the directory.
//
//	w, err := childprocess.NewWorkspace()
//	...
//	defer w.Remove()
//	err = w.Put("in/job.json", job)
//	err = w.Run(ctx, childprocess.Command{Args: childprocess.Shell("python3 train.py")}, childprocess.Watch{...})
//	files, err := w.List("out")
//
// On other Unix systems the process group is ended; if this program is killed, a shell that runs in
// parallel ends it. On other systems only the command itself is ended.
package childprocess
