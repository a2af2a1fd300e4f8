package childprocess

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Terms limit a command (tasks.Spec.Terms); they do not affect a result's identity. Zero fields set no limit,
// except that a command without Network has no network.
type Terms struct {
	// Seconds is the limit on one execution in a Workspace.
	Seconds float64 `json:"seconds,omitempty"`
	// AnswerSeconds is the time to answer a request; 0 stands for the contract's limit.
	AnswerSeconds float64 `json:"answer_seconds,omitempty"`
	// Memory is the limit on the total resident bytes of its processes, Files the limit on the
	// bytes of its Workspace.
	Memory int64 `json:"memory,omitempty"`
	Files  int64 `json:"files,omitempty"`
	// Network allows the network. Without it Linux gives the command an empty network namespace, if the
	// system permits.
	Network bool `json:"network,omitempty"`
	// Environment names additional variables that it gets.
	Environment []string `json:"environment,omitempty"`
}

// DecodeTerms decodes tasks.Spec.Terms. Empty text sets no limits.
func DecodeTerms(text json.RawMessage) (t Terms, err error) {
	if len(text) == 0 {
		return t, nil
	}
	if err = json.Unmarshal(text, &t); err != nil {
		err = fmt.Errorf("terms of a command: %w", err)
	}
	return t, err
}

// isolation lists the restrictions of a command by its own namespaces.
type isolation struct {
	Network   bool // from any network
	Processes bool // from other processes, which it cannot see; all of its own end with their first
	Files     bool // from writing files except where permitted
}

// maxProcesses is the limit on processes and threads of a command, if the system enforces one: enough
// for many data loaders with many threads each, and few enough that the machine can start others.
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
