package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"coalmine/internal/leaf"
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
	err = leaf.Each(c, func(user string, data leaf.Data) error {
		for i := range data.X {
			x, err := leafImage(c.name, user, i, data)
			if !yield(x, err) {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.name, err)
	}
	return true, nil
}

// leafImage is the image of a user with that number.
func leafImage(file, user string, i int, data leaf.Data) (Example, error) {
	x := Example{User: user, Where: fmt.Sprintf("%s, image %d of user %q", file, i+1, user)}
	if data.Misnamed != nil {
		return x, &CorruptError{x.Where, data.Misnamed}
	}
	values, err := leafNumbers(data.X[i])
	if string(data.Y[i]) == "null" {
		err = errors.Join(err, errors.New("the label is null"))
	}
	err = errors.Join(err, json.Unmarshal(data.Y[i], &x.Label))
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

// leafNumbers reads a list of numbers, of which encoding/json takes a null for 0.
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
