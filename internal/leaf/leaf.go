// Package leaf reads the JSON files of LEAF (Caldas et al. 2018): an object with users,
// num_samples and user_data, which has for each user x, a list of inputs, and y, as many
// labels.
package leaf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Data are the examples of a user, in JSON: what X and Y hold depends on the data set.
type Data struct {
	X []json.RawMessage `json:"x"`
	Y []json.RawMessage `json:"y"`
}

// Each calls do with every user of a file and what the file has of the user, one at a time.
// An error of do ends it and is returned; so are those of the reader, as they are. What is
// wrong with the file is said with the byte where it is found.
func Each(file io.Reader, do func(user string, data Data) error) error {
	r := reader{json.NewDecoder(file)}
	seen := false
	err := r.object(func(name string) error {
		if name != "user_data" {
			return r.skip()
		}
		seen = true
		return r.object(func(user string) error { return r.user(user, do) })
	})
	if err == nil && !seen {
		return errors.New(`there is no "user_data"; expected the JSON of LEAF`)
	}
	return err
}

type reader struct{ json *json.Decoder }

// object calls do for each member, which reads the value.
func (r reader) object(do func(name string) error) error {
	if err := r.delimiter('{'); err != nil {
		return err
	}
	for r.json.More() {
		name, err := r.json.Token()
		if err != nil {
			return r.fault(err)
		}
		if err := do(name.(string)); err != nil {
			return err
		}
	}
	return r.delimiter('}')
}

func (r reader) delimiter(want json.Delim) error {
	token, err := r.json.Token()
	if err != nil {
		return r.fault(err)
	}
	if token != want {
		return r.wrong("found %v; expected %v", token, want)
	}
	return nil
}

// skip passes over a value, whatever its size.
func (r reader) skip() error {
	depth := 0
	for {
		token, err := r.json.Token()
		if err != nil {
			return r.fault(err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func (r reader) user(name string, do func(string, Data) error) error {
	var data Data
	if err := r.json.Decode(&data); err != nil {
		return r.fault(err)
	}
	if len(data.X) != len(data.Y) {
		return r.wrong("user %q has %d examples and %d labels; expected a label for each", name, len(data.X), len(data.Y))
	}
	return do(name, data)
}

// fault says where the file is wrong. Errors of reading it are not the file's.
func (r reader) fault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.wrong("the file ends too early; get it again")
	}
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || mistyped {
		return r.wrong("%w", err)
	}
	return err
}

func (r reader) wrong(format string, args ...any) error {
	return &SyntaxError{r.json.InputOffset(), fmt.Errorf(format, args...)}
}

// SyntaxError is a fault of the file at a byte.
type SyntaxError struct {
	Byte int64
	Err  error
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("byte %d: %v", e.Byte, e.Err) }

func (e *SyntaxError) Unwrap() error { return e.Err }
