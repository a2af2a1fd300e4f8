// Package dataformats reads and writes the formats of data sets: LEAF, TensorFlow Federated, NumPy,
// and compressed content of any of them. Package parquetfile reads Parquet.
package dataformats

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"coalmine/internal/encoding"
)

// LEAFExample is an example of a user, in JSON. The data set defines the content of X and Y.
type LEAFExample struct {
	User   string
	Number int // among the examples of the user, from 1
	X, Y   json.RawMessage
	// Misnamed explains why the user's name is not valid text. Other users may then have the same name.
	Misnamed error
}

// LEAFExamples yields the examples of a file, user by user; memory holds one user at a time. A file may
// have several objects in sequence, after a byte order mark. An error ends the iteration: a
// *LEAFSyntaxError about the content, or the error of the reader.
func LEAFExamples(file io.Reader) iter.Seq2[LEAFExample, error] {
	return func(yield func(LEAFExample, error) bool) {
		err := each(file, func(x LEAFExample) error {
			if !yield(x, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(LEAFExample{}, err)
		}
	}
}

// errEnough ends the reading of a file when the caller stops the iteration.
var errEnough = errors.New("enough")

func each(file io.Reader, do func(LEAFExample) error) error {
	buffered := bufio.NewReader(file)
	SkipMark(buffered)
	tape := &tape{Reader: buffered}
	r := reader{json.NewDecoder(tape), tape}
	for objects := 0; ; objects++ {
		switch err := r.each(do); {
		case errors.Is(err, errNoMore) && objects > 0:
			return nil
		case err != nil:
			return err
		}
	}
}

// errNoMore is the error of a file that ends where an object may begin.
var errNoMore = errors.New("the file is empty; expected the JSON of LEAF")

// each reads an object.
func (r reader) each(do func(LEAFExample) error) error {
	start, err := r.json.Token()
	switch {
	case errors.Is(err, io.EOF):
		return errNoMore
	case err != nil:
		return r.fault(err)
	case start != json.Delim('{'):
		return r.found(start, '{')
	}
	seen := false
	err = r.members(func(name string, _ error) error {
		if name != "user_data" {
			return r.skip()
		}
		seen = true
		if err := r.delimiter('{'); err != nil {
			return err
		}
		return r.members(func(user string, misnamed error) error { return r.user(user, misnamed, do) })
	})
	if err == nil && !seen {
		return r.wrong(`there is no "user_data"; expected the JSON of LEAF`)
	}
	return err
}

type reader struct {
	json *json.Decoder
	file *tape
}

// members calls do for each remaining member of an object; do reads the value. misnamed explains why
// the name, already read, is not valid text.
func (r reader) members(do func(name string, misnamed error) error) error {
	for r.json.More() {
		r.file.forget(r.json.InputOffset())
		name, err := r.json.Token()
		if err != nil {
			return r.fault(err)
		}
		if err := do(name.(string), nameFault(r.file.until(r.json.InputOffset()))); err != nil {
			return err
		}
	}
	return r.delimiter('}')
}

// nameFault explains why the JSON of a name is not valid text.
func nameFault(name []byte) error {
	switch {
	case !utf8.Valid(name):
		return errors.New("the name of the user is not valid UTF-8; convert the file to UTF-8")
	case encoding.HalfPair(name):
		return fmt.Errorf("the name of the user %w", encoding.ErrHalfPair)
	}
	return nil
}

func (r reader) delimiter(want json.Delim) error {
	token, err := r.json.Token()
	if err != nil {
		return r.fault(err)
	}
	if token != want {
		return r.found(token, want)
	}
	return nil
}

func (r reader) found(token json.Token, want json.Delim) error {
	return r.wrong("found %.40q; expected %q", fmt.Sprint(token), want.String())
}

func (r reader) skip() error {
	depth := 0
	for {
		r.file.forget(r.json.InputOffset())
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

func (r reader) user(name string, misnamed error, do func(LEAFExample) error) error {
	var value json.RawMessage
	if err := r.json.Decode(&value); err != nil {
		return r.fault(err)
	}
	var data struct {
		X []json.RawMessage `json:"x"`
		Y []json.RawMessage `json:"y"`
	}
	if err := encoding.UnmarshalJSON(value, &data); err != nil {
		return r.wrong("user %q: %w", name, err)
	}
	if len(data.X) != len(data.Y) {
		return r.wrong("user %q has %d examples and %d labels; expected a label for each", name, len(data.X), len(data.Y))
	}
	for i := range data.X {
		if err := do(LEAFExample{name, i + 1, data.X[i], data.Y[i], misnamed}); err != nil {
			return err
		}
	}
	return nil
}

// fault adds the position in the file to an error. Errors of reading the file are unchanged.
func (r reader) fault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return r.wrong("the file is truncated; get it again")
	}
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, mistyped := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || mistyped {
		return r.wrong("%w", err)
	}
	return err
}

func (r reader) wrong(format string, args ...any) error {
	return &LEAFSyntaxError{r.json.InputOffset(), fmt.Errorf(format, args...)}
}

// LEAFSyntaxError reports a fault of the file at a byte.
type LEAFSyntaxError struct {
	Byte int64
	Err  error
}

func (e *LEAFSyntaxError) Error() string { return fmt.Sprintf("byte %d: %v", e.Byte, e.Err) }

func (e *LEAFSyntaxError) Unwrap() error { return e.Err }

// tape keeps the original bytes of a file: the decoder replaces invalid text.
type tape struct {
	io.Reader
	start int64 // offset of kept
	kept  []byte
}

func (t *tape) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	t.kept = append(t.kept, p[:n]...)
	return n, err
}

// forget drops the bytes before an offset.
func (t *tape) forget(offset int64) { t.kept, t.start = t.kept[offset-t.start:], offset }

func (t *tape) until(offset int64) []byte { return t.kept[:offset-t.start] }
