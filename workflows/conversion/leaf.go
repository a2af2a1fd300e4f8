package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// LEAF yields the images of LEAF's FEMNIST (Caldas et al. 2018): JSON files with users,
// num_samples and user_data, an object that has for each user x, lists of pixels from 0 to 1,
// and y, the labels. Images are square. Memory holds one user at a time.
func LEAF(paths []string) Examples {
	return func(yield func(Example, error) bool) {
		for _, path := range paths {
			if more, err := leafFile(path, yield); err != nil {
				yield(Example{}, err)
				return
			} else if !more {
				return
			}
		}
	}
}

func leafFile(path string, yield func(Example, error) bool) (more bool, err error) {
	c, err := open(path)
	if err != nil {
		return false, err
	}
	defer c.close()
	l := leafReader{c, json.NewDecoder(c)}
	seen := false
	err = l.object(func(name string) error {
		if name != "user_data" {
			return l.skip()
		}
		seen = true
		return l.object(func(user string) error { return l.user(user, yield) })
	})
	if err == nil && !seen {
		err = fmt.Errorf(`%s has no "user_data"; expected the JSON of LEAF's FEMNIST`, c.name)
	}
	if errors.Is(err, errEnough) {
		return false, nil
	}
	return err == nil, err
}

// errEnough ends the reading of a file of which nobody wants more.
var errEnough = errors.New("enough")

// leafReader reads one file.
type leafReader struct {
	*content
	json *json.Decoder
}

// object calls do for each member, which reads the value.
func (l *leafReader) object(do func(name string) error) error {
	if err := l.delimiter('{'); err != nil {
		return err
	}
	for l.json.More() {
		name, err := l.json.Token()
		if err != nil {
			return l.fault(err)
		}
		if err := do(name.(string)); err != nil {
			return err
		}
	}
	return l.delimiter('}')
}

func (l *leafReader) delimiter(want json.Delim) error {
	token, err := l.json.Token()
	if err != nil {
		return l.fault(err)
	}
	if token != want {
		return fmt.Errorf("%s: byte %d: found %v; expected %v", l.name, l.json.InputOffset(), token, want)
	}
	return nil
}

// skip passes over a value, whatever its size.
func (l *leafReader) skip() error {
	depth := 0
	for {
		token, err := l.json.Token()
		if err != nil {
			return l.fault(err)
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

func (l *leafReader) fault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return l.explain(err)
	}
	return fmt.Errorf("%s: byte %d: %w", l.name, l.json.InputOffset(), err)
}

// user yields the images of one user.
func (l *leafReader) user(name string, yield func(Example, error) bool) error {
	var data struct {
		X [][]float64 `json:"x"`
		Y []int       `json:"y"`
	}
	if err := l.json.Decode(&data); err != nil {
		return l.fault(err)
	}
	if len(data.X) != len(data.Y) {
		return fmt.Errorf("%s: user %q has %d images and %d labels; expected a label for each", l.name, name, len(data.X), len(data.Y))
	}
	for i, values := range data.X {
		where := fmt.Sprintf("%s, image %d of user %q", l.name, i+1, name)
		side := int(math.Sqrt(float64(len(values))))
		pixels, err := greyOf(values)
		if err == nil && side*side != len(values) {
			err = fmt.Errorf("%d pixels are no square", len(values))
		}
		if err != nil {
			err = &CorruptError{where, err}
		}
		if !yield(Example{User: name, Label: data.Y[i], Pixels: pixels, Width: side, Height: side, Where: where}, err) {
			return errEnough
		}
	}
	return nil
}
