package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"coalmine/internal/dataformats"
)

// LEAF yields the images of LEAF's FEMNIST (Caldas et al. 2018): JSON files with users,
// num_samples and user_data, an object with x, lists of pixels from 0 to 1, and y, the
// labels, for each user. Images are square. Memory holds one user at a time.
func LEAF(paths []string) Examples { return inFiles(paths, leafFile) }

func leafFile(path string, yield func(Example, error) bool) (more bool, err error) {
	c, err := open(path)
	if err != nil {
		return false, err
	}
	defer c.close()
	for found, err := range dataformats.LEAFExamples(c) {
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.name, err)
		}
		if x, err := leafImage(c.name, found); !yield(x, err) {
			return false, nil
		}
	}
	return true, nil
}

func leafImage(file string, found dataformats.LEAFExample) (Example, error) {
	x := Example{User: found.User, Where: fmt.Sprintf("%s, image %d of user %q", file, found.Number, found.User)}
	if found.Misnamed != nil {
		return x, &CorruptError{x.Where, found.Misnamed}
	}
	values, err := leafNumbers(found.X)
	if string(found.Y) == "null" {
		err = errors.Join(err, errors.New("the label is null"))
	}
	err = errors.Join(err, json.Unmarshal(found.Y, &x.Label))
	x.Width = int(math.Sqrt(float64(len(values))))
	x.Height = x.Width
	if err == nil {
		x.Pixels, err = greyOf(values)
	}
	if err == nil && x.Width*x.Height != len(values) {
		err = fmt.Errorf("%d pixels are no square", len(values))
	}
	if err != nil {
		return x, &CorruptError{x.Where, err}
	}
	return x, nil
}

// leafNumbers reads a list of numbers. It refuses null, which encoding/json reads as 0.
func leafNumbers(list json.RawMessage) ([]float64, error) {
	var numbers []*float64
	if err := json.Unmarshal(list, &numbers); err != nil {
		return nil, err
	}
	values := make([]float64, len(numbers))
	for i, x := range numbers {
		if x == nil {
			return nil, fmt.Errorf("pixel %d is null", i)
		}
		values[i] = *x
	}
	return values, nil
}
