// Package leaf reads the JSON files of LEAF (Caldas et al. 2018): an object with users,
// num_samples and user_data, which has for each user x, a list of inputs, and y, as many
// labels.
package leaf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// Data are the examples of a user, in JSON: what X and Y hold depends on the data set.
type Data struct {
	X []json.RawMessage `json:"x"`
	Y []json.RawMessage `json:"y"`
	// Misnamed says that the user's name is not UTF-8: it is not known then, and others may have
	// got the same.
	Misnamed bool `json:"-"`
}

// Each calls do with every user of a file and what the file has of the user, one at a time.
// An error of do ends it and is returned; so are those of the reader, as they are. What is
// wrong with the file is said with the byte where it is found.
func Each(file io.Reader, do func(user string, data Data) error) error {
	watched := &watchedReader{Reader: file}
	r := reader{json.NewDecoder(watched), watched}
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

type reader struct {
	json *json.Decoder
	file *watchedReader
}

// object calls do for each member, which reads the value. The name has been read just before.
func (r reader) object(do func(name string) error) error {
	if err := r.delimiter('{'); err != nil {
		return err
	}
	for r.json.More() {
		r.file.forget(r.json.InputOffset())
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

func (r reader) user(name string, do func(string, Data) error) error {
	data := Data{Misnamed: r.file.invalidBefore(r.json.InputOffset())}
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

// watchedReader remembers which bytes of a file are not UTF-8: the decoder replaces them.
type watchedReader struct {
	io.Reader
	read    int64   // bytes so far
	invalid []int64 // offsets of those that are not UTF-8, ascending
	begun   []byte  // of a character whose end was not read yet
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.watch(p[:n])
	return n, err
}

func (w *watchedReader) watch(data []byte) {
	if len(w.begun) == 0 && utf8.Valid(data) {
		w.read += int64(len(data))
		return
	}
	data = append(w.begun, data...)
	at := w.read - int64(len(w.begun))
	for len(data) > 0 && utf8.FullRune(data) {
		c, size := utf8.DecodeRune(data)
		if c == utf8.RuneError && size == 1 {
			w.invalid = append(w.invalid, at)
		}
		data, at = data[size:], at+int64(size)
	}
	w.begun = append([]byte(nil), data...)
	w.read = at + int64(len(data))
}

// forget what stands before an offset.
func (w *watchedReader) forget(offset int64) {
	first := slices.IndexFunc(w.invalid, func(at int64) bool { return at >= offset })
	if first < 0 {
		first = len(w.invalid)
	}
	w.invalid = w.invalid[first:]
}

// invalidBefore reports whether a byte that is not forgotten stands before an offset.
func (w *watchedReader) invalidBefore(offset int64) bool {
	return len(w.invalid) > 0 && w.invalid[0] < offset
}
