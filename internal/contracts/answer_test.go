package contracts

import (
	"strings"
	"testing"
)

// A line that is no answer breaks a rule, as one line of a message says.
func FuzzLines(f *testing.F) {
	c := Contract{Name: "test", Version: 1}
	s := Protocol{OneObjectALine: c.Rule("objects"), OneAnswerEach: c.Rule("answers"), FiniteNumbers: c.Rule("numbers")}
	for _, line := range []string{
		`{"id": 2, "result": [[-1.5, false], [0, true]]}`, `{"id": 1, "result": {"contract": "coalmine/score", "version": 1}}`,
		`{"id": 3, "error": {"message": "busy", "retry": true}}`, `{"id": 3, "result": [[NaN, true]]}`, `[]`, `{"id": 2, "result": ["a", "b"]}`, `{"id": 1e9}`, ``,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := s.parse(line)
		if err != nil {
			if RuleOf(err).Number == 0 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %v, want a violation on one line", line, err)
			}
			return
		}
		if a.ID == nil || (a.Result == nil) == (a.Error == nil) {
			t.Fatalf("%q was read as %+v", line, a)
		}
	})
}
