package contracts

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTypeErrorsNameJSONTypes(t *testing.T) {
	t.Parallel()
	type Claim struct {
		Noise float64 `json:"noise_multiplier"`
	}
	for text, want := range map[string]string{
		`{"noise_multiplier": "1.1"}`:        "noise_multiplier is a JSON string; expected a number",
		`{"rounds": 1.5}`:                    "rounds is a JSON number 1.5; expected a whole number",
		`{"parameters": [{"shape": "4x4"}]}`: "parameters.shape is a JSON string; expected a list",
		`["noise_multiplier"]`:               "it is a JSON array; expected an object",
		`{`:                                  "unexpected end of JSON input",
	} {
		var into struct {
			Claim
			Rounds     int `json:"rounds"`
			Parameters []struct {
				Shape []int `json:"shape"`
			} `json:"parameters"`
		}
		if err := Mistyped(json.Unmarshal([]byte(text), &into)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

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
