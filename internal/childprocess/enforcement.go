package childprocess

import "strings"

// isolation lists the restrictions of a command by its own namespaces.
type isolation struct {
	Network   bool // from any network
	Processes bool // from other processes, which it cannot see; all of its own end with their first
	Files     bool // from writing files except where permitted
}

// maxProcesses is the limit on processes and threads of a command, if the system enforces one:
// enough for many data loaders with many threads each, and few enough that the machine can
// start others.
const maxProcesses = 8192

// Enforcement lists the limits of commands that the system enforces here. This program enforces
// the other limits as well as it can.
type Enforcement struct {
	Network, Processes, Files bool
	// Memory reports whether a control group limits memory and the number of processes.
	Memory bool
}

// String returns a line for people.
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
