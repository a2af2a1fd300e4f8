package contracts

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"coalmine/internal/childprocess"
)

// answer is a received line: a result or an error.
type answer struct {
	ID     *int64          `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
		Retry   bool   `json:"retry"`
	} `json:"error"`
}

// quoted is the limit on quotes of a program's output, in characters.
const quoted = 120

// Quote returns the beginning of a text for messages.
func Quote(text []byte) string {
	return fmt.Sprintf("%q", childprocess.Printable(string(text[:min(len(text), 4*quoted)]), quoted))
}

// parse reads a line of a program.
func (r *Speech) parse(line []byte) (*answer, error) {
	if !strings.HasPrefix(strings.TrimSpace(string(line)), "{") {
		return nil, r.OneObjectALine.Broken("it printed %s to standard output; expected answers alone, and all else on standard error", Quote(line))
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		if notFinite(line, err) {
			return nil, r.FiniteNumbers.Broken("it answered with a number that JSON has not, NaN or Infinity: %s; the model has diverged, or computes in too few bits", Quote(line))
		}
		return nil, r.OneObjectALine.Broken("it printed %s, which is not a JSON object: %v", Quote(line), err)
	}
	switch {
	case a.ID == nil:
		return nil, r.OneAnswerEach.Broken("its answer %s has no id; expected that of a request", Quote(line))
	case (a.Result == nil) == (a.Error == nil):
		return nil, r.OneObjectALine.Broken("its answer %s has both or neither of result and error; expected one", Quote(line))
	}
	return &a, nil
}

// notFinite reports whether a line cannot be decoded because of NaN or Infinity, which
// some JSON encoders write.
func notFinite(line []byte, err error) bool {
	bad, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || bad.Offset < 1 || bad.Offset > int64(len(line)) {
		return false
	}
	rest := string(line[bad.Offset-1:])
	return strings.HasPrefix(rest, "NaN") || strings.HasPrefix(rest, "Infinity")
}
