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
// The command leads a process group of its own, which ends with it. It gets the environment
// of this program without what sounds secret, and what it says on standard error is kept in
// part: the last lines, for messages. Its memory may be bounded. Should this program be killed, a
// shell that waits beside each command kills what it has started.
//
// A command that is asked to end has its grace until the last of its processes has ended.
//
// Process groups, memory and what is left behind are looked after on Linux; on other Unix
// systems the group is ended; elsewhere only the command itself.
package childprocess
