package canaryfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"coalmine/internal/encoding"
	"coalmine/internal/score"
)

// Score is a model's score of a line.
type Score struct {
	// LogProbability is the natural logarithm of the probability of the continuation after
	// the context, at most 0.
	LogProbability float64
	// Greedy reports that greedy decoding gives the continuation; nil if unknown.
	Greedy *bool
}

// Scores are scores by the ids of lines.
type Scores map[string]Score

// scoredLine is a line of scores, or a sample in a log of lm-evaluation-harness.
type scoredLine struct {
	ID             string          `json:"id"`
	LogProbability json.RawMessage `json:"log_probability"`
	Greedy         *bool           `json:"greedy"`

	Doc struct {
		ID string `json:"id"`
	} `json:"doc"`
	Responses [][]json.RawMessage `json:"filtered_resps"`
}

// ReadScores reads scores, a JSON object per line: {"id", "log_probability", "greedy"}, the
// last if known; or the samples of the task of Harness, logged by lm_eval --log_samples. name
// is for messages.
func ReadScores(name string, r io.Reader) (Scores, error) {
	scores := Scores{}
	err := eachLine(name, r, func(_ int, line []byte) error {
		var l scoredLine
		if err := encoding.UnmarshalJSON(quoteInfinity(line), &l); err != nil {
			return fmt.Errorf("%w; expected a line such as {\"id\": \"canary-0\", \"log_probability\": -12.5}", err)
		}
		id, score, err := l.score()
		if err != nil {
			return err
		}
		if _, twice := scores[id]; twice {
			return fmt.Errorf("%q is scored a second time; expected one score for each id", id)
		}
		scores[id] = score
		return nil
	})
	if err == nil && len(scores) == 0 {
		err = fmt.Errorf("%s: there is no score in it", name)
	}
	return scores, err
}

func (l *scoredLine) score() (string, Score, error) {
	if l.ID == "" && l.Doc.ID != "" {
		if err := l.takeResponse(); err != nil {
			return "", Score{}, err
		}
	}
	switch {
	case l.ID == "":
		return "", Score{}, errors.New("it has no id; expected that of a line of the canaries")
	case l.LogProbability == nil:
		return "", Score{}, fmt.Errorf("%q has no log_probability; expected a finite number", l.ID)
	}
	var p score.LogProbability
	if err := unquoted(l.LogProbability, &p); err != nil {
		return "", Score{}, fmt.Errorf("the log-probability of %q: %w", l.ID, err)
	}
	return l.ID, Score{float64(p), l.Greedy}, nil
}

// quoteInfinity quotes the -Infinity that Python writes for the logarithm of 0, in a line that is
// not JSON.
func quoteInfinity(line []byte) []byte {
	if json.Valid(line) {
		return line
	}
	return bytes.ReplaceAll(line, []byte("-Infinity"), []byte(`"-Infinity"`))
}

// takeResponse reads a sample's answer, a list of two. Some versions of the harness log its
// members as texts.
func (l *scoredLine) takeResponse() error {
	l.ID = l.Doc.ID
	if len(l.Responses) != 1 || len(l.Responses[0]) != 2 {
		return fmt.Errorf("the sample of %q has %d responses; expected one of loglikelihood, [log-probability, is-greedy]", l.ID, len(l.Responses))
	}
	l.LogProbability = l.Responses[0][0]
	if err := unquoted(l.Responses[0][1], &l.Greedy); err != nil {
		return fmt.Errorf("is-greedy of %q: %w", l.ID, err)
	}
	return nil
}

// unquoted decodes a value, or the value in a text as Python prints it.
func unquoted(value json.RawMessage, into any) error {
	var text string
	if json.Unmarshal(value, &text) != nil || text == "-inf" || text == "-Infinity" {
		return json.Unmarshal(value, into)
	}
	switch text {
	case "nan", "inf":
		return fmt.Errorf("%q is no log-probability; expected a finite number, or \"-inf\" for the logarithm of 0", text)
	case "True":
		text = "true"
	case "False":
		text = "false"
	}
	return json.Unmarshal([]byte(text), into)
}
