// Package canaryfiles writes the canaries and coins of an experiment to files, for users who train without
// Coalmine, and audits a model from its scores of them. See docs/contracts/canaries.md.
//
//	err := canaryfiles.Export(ctx, executor, plan, cell, options, &file)
//	...
//	report, err := canaryfiles.Audit(&file, scores, canaryfiles.Options{})
package canaryfiles

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"coalmine/internal/encoding"
	"coalmine/privacy"
)

// Contract and Version name the form of the file.
const (
	Contract = "coalmine/canaries"
	Version  = 1
)

// Kind is the kind of a line of the file.
type Kind string

// Kinds of lines.
const (
	// Canary must be inserted the number of times in its line.
	Canary Kind = "canary"
	// HeldBack is drawn like the canaries, and must not be inserted.
	HeldBack Kind = "held_back"
	// Coin must be inserted, in a user or as a separate record, if Included is true.
	Coin Kind = "coin"
	// Reference is a sequence for the ranks of the canaries of its Group. It must not be inserted.
	Reference Kind = "reference"
)

// Header is the first line of the file.
type Header struct {
	Contract   string `json:"contract"`
	Version    int    `json:"version"`
	Experiment string `json:"experiment"`
	Cell       string `json:"cell"`
	Seed       uint64 `json:"seed"`
	// OneRun is absent if there are no coins.
	OneRun *OneRun `json:"one_run,omitempty"`
}

// OneRun describes the meaning of the coins and the number of guesses. Both are fixed before the training.
type OneRun struct {
	KPlus  int `json:"k_plus"`
	KMinus int `json:"k_minus"`
	// Halvings is the number of halvings of KPlus and KMinus that are also tried.
	Halvings     int                  `json:"halvings,omitempty"`
	Delta        float64              `json:"delta"`
	Confidence   float64              `json:"confidence"`
	Neighbouring privacy.Neighbouring `json:"neighbouring"`
	Unit         string               `json:"unit"`
}

// Line is a text to be scored.
type Line struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	// Group is common to the canaries with a prefix and their references.
	Group string `json:"group,omitempty"`
	// Context and Continuation together are the text. Its score is the probability of the continuation.
	Context      string `json:"context"`
	Continuation string `json:"continuation"`
	// The frequency of a canary: a user has it with UserProbability and then, in place of each example,
	// with ExampleProbability; or InsertedTimes copies are inserted.
	UserProbability    string `json:"user_probability,omitempty"`
	ExampleProbability string `json:"example_probability,omitempty"`
	InsertedTimes      int    `json:"inserted_times,omitempty"`
	// Included is the result of the coin. Only coins have it.
	Included *bool `json:"included,omitempty"`
}

// Text returns the whole text.
func (l *Line) Text() string { return l.Context + l.Continuation }

// File is a header and its lines.
type File struct {
	Header Header
	Lines  []Line
}

// Write writes the file as a JSON object per line.
func (f *File) Write(w io.Writer) error {
	if err := writeLine(w, f.Header); err != nil {
		return err
	}
	return f.WriteLines(w)
}

func writeLine(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(v)
}

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// Read reads and checks a file. Errors name it by name.
func Read(name string, r io.Reader) (*File, error) {
	f := new(File)
	seen := map[string]int{}
	err := eachLine(name, r, func(number int, line []byte) error {
		if number == 1 {
			return f.Header.decode(line)
		}
		var l Line
		if err := encoding.UnmarshalJSON(line, &l); err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return err
		}
		if seen[l.ID] > 0 {
			return fmt.Errorf("line %[2]d has the same id, %[1]q", l.ID, seen[l.ID])
		}
		seen[l.ID] = number
		f.Lines = append(f.Lines, l)
		return nil
	})
	if err == nil && f.Header.Version == 0 {
		err = fmt.Errorf("%s: the file is empty; expected a file of coalmine canaries export", name)
	}
	return f, err
}

// eachLine calls do with each line that is not empty.
func eachLine(name string, r io.Reader, do func(number int, line []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		line := lines.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if err := do(number, line); err != nil {
			return fmt.Errorf("%s, line %d: %w", name, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (h *Header) decode(line []byte) error {
	if err := json.Unmarshal(line, h); err != nil || h.Contract != Contract || h.Version != Version {
		return fmt.Errorf("it does not begin with the contract %q in version %d; expected the file canaries.jsonl of coalmine canaries export", Contract, Version)
	}
	return nil
}

func (l *Line) check() error {
	switch {
	case l.ID == "" || l.Continuation == "":
		return errors.New("id or continuation is missing; expected both")
	case l.Kind != Canary && l.Kind != HeldBack && l.Kind != Coin && l.Kind != Reference:
		return fmt.Errorf("kind is %q; expected %q, %q, %q or %q", l.Kind, Canary, HeldBack, Coin, Reference)
	case (l.Kind == Coin) != (l.Included != nil):
		return errors.New("included is missing in a coin, or given in another line; expected the result of each coin, and of coins only")
	}
	return nil
}

// linesOf returns the lines of a kind.
func (f *File) linesOf(kind Kind) []*Line {
	var found []*Line
	for i := range f.Lines {
		if f.Lines[i].Kind == kind {
			found = append(found, &f.Lines[i])
		}
	}
	return found
}
