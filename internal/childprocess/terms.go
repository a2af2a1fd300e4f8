package childprocess

import (
	"encoding/json"
	"fmt"
)

// Terms limit a command (tasks.Spec.Terms); they do not affect a result's identity. Zero fields
// set no limit, but the network must be allowed.
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
