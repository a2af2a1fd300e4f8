package childprocess

import (
	"encoding/json"
	"fmt"
)

// Terms bound a command, tasks.Spec.Terms: they are no part of a result's identity. Zero fields
// bound nothing, but the network has to be allowed.
type Terms struct {
	// Seconds is how long it may run in one execution, in a Workspace.
	Seconds float64 `json:"seconds,omitempty"`
	// AnswerSeconds is how long it may take to answer a request; 0 stands for the contract's own
	// bound.
	AnswerSeconds float64 `json:"answer_seconds,omitempty"`
	// Memory is how many bytes its processes may have resident together, Files how many its
	// Workspace may hold.
	Memory int64 `json:"memory,omitempty"`
	Files  int64 `json:"files,omitempty"`
	// Network leaves it the network. Else it has none where the platform lets us: in Linux by a
	// network namespace of its own.
	Network bool `json:"network,omitempty"`
	// Environment names variables that it gets besides the usual ones.
	Environment []string `json:"environment,omitempty"`
}

// DecodeTerms decodes tasks.Spec.Terms. No text bounds nothing.
func DecodeTerms(text json.RawMessage) (t Terms, err error) {
	if len(text) == 0 {
		return t, nil
	}
	if err = json.Unmarshal(text, &t); err != nil {
		err = fmt.Errorf("terms of a command: %w", err)
	}
	return t, err
}
