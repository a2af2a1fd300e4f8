package childprocess

import "strings"

// isolation lists the restrictions of a command by namespaces of its own.
type isolation struct {
	Network   bool // from any network
	Processes bool // from other processes, which it does not see; and all of its own end with their first
	Files     bool // from writing files where it was not told to
}

// maxProcesses is how many processes and threads a command may have at a time, where that is
// bounded: more than many loaders of data with many threads each need, and few enough that the
// machine can start others.
const maxProcesses = 8192

// Enforcement lists the limits of commands that the system enforces here. This program enforces
// the others as well as it can.
type Enforcement struct {
	Network, Processes, Files bool
	// Memory says that memory and the number of processes are bounded by a control group.
	Memory bool
}

// String is a line for people.
func (e Enforcement) String() string {
	var parts []string
	for _, p := range []struct {
		is      bool
		yes, no string
	}{
		{e.Network, "no network unless an experiment asks for it", "the network stays"},
		{e.Processes, "processes end with their command", "processes are looked for and ended"},
		{e.Files, "files outside of its directory are read-only", "files can be written wherever this user may"},
		{e.Memory, "memory and the number of processes are bounded", "memory is looked at four times a second"},
	} {
		if p.is {
			parts = append(parts, p.yes)
		} else {
			parts = append(parts, p.no)
		}
	}
	return strings.Join(parts, "; ")
}
