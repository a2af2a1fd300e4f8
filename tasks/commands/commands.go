// Package commands is what tasks know of commands that are not ours: what they may do.
package commands

import (
	"encoding/json"
	"fmt"
)

// Terms are what a command may do, tasks.Spec.Terms: no part of a result's identity. Zero fields
// bound nothing.
type Terms struct {
	// Seconds is how long it may run in one execution.
	Seconds float64 `json:"seconds,omitempty"`
	// AnswerSeconds is how long one that is asked may take to answer; 0 stands for the contract's own
	// bound.
	AnswerSeconds float64 `json:"answer_seconds,omitempty"`
	// Memory is how many bytes its processes may have resident together, Files how many its
	// directory may hold.
	Memory int64 `json:"memory,omitempty"`
	Files  int64 `json:"files,omitempty"`
	// Network says that it may use the network.
	Network bool `json:"network,omitempty"`
	// Environment names variables of the worker that the command gets besides the usual ones.
	Environment []string `json:"environment,omitempty"`
}

// Decode reads what Spec.Terms holds. None bound nothing.
func Decode(text json.RawMessage) (s Terms, err error) {
	if len(text) == 0 {
		return s, nil
	}
	if err = json.Unmarshal(text, &s); err != nil {
		err = fmt.Errorf("terms of a command: %w", err)
	}
	return s, err
}
