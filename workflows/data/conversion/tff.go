package conversion

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"coalmine/internal/dataformats"
)

// TFF yields the images of one split of TensorFlow Federated's EMNIST, such as all_train: an
// SQLite database. Its table examples has split_name, client_id and serialized_example_proto,
// a tf.train.Example with the features pixels, 28 x 28 numbers from 0 to 1, and label. Images
// come in the order of rows. The background is white, 1.
func TFF(ctx context.Context, path, split string) Examples {
	return examples(func(yield func(Example, error) bool) error {
		name := filepath.Base(path)
		for r, err := range dataformats.TFFRows(ctx, path, []string{split}) {
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if x, err := tffExample(name, r); !yield(x, err) {
				return nil
			}
		}
		return nil
	})
}

func tffExample(name string, r dataformats.TFFRow) (Example, error) {
	if r.Client == nil {
		where := fmt.Sprintf("row %d of %s", r.Number, name)
		return Example{Where: where}, &CorruptError{where, errors.New("the user is missing")}
	}
	x := Example{User: *r.Client, Where: fmt.Sprintf("row %d of user %q in %s", r.Number, *r.Client, name)}
	label, pixels, err := parseEMNIST(r.Example)
	if err == nil {
		x.Label, x.Width, x.Height = label, emnistSide, emnistSide
		x.Pixels, err = greyOf(pixels)
	}
	if err != nil {
		return x, &CorruptError{x.Where, err}
	}
	return x, nil
}

// emnistSide is the width and height of an image of EMNIST.
const emnistSide = 28

// parseEMNIST reads the features label and pixels.
func parseEMNIST(example []byte) (label int, pixels []float32, err error) {
	labels := []int64{}
	err = dataformats.TFFFeatures(example, func(name string, f dataformats.TFFFeature) (err error) {
		switch name {
		case "label":
			labels, err = f.Ints()
		case "pixels":
			pixels, err = f.Floats()
		}
		return err
	})
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("a damaged example: %w", err)
	case len(labels) != 1 || len(pixels) != emnistSide*emnistSide:
		return 0, nil, fmt.Errorf("an example of %d labels and %d pixels; expected 1 and %d", len(labels), len(pixels), emnistSide*emnistSide)
	case labels[0] < 0 || labels[0] > math.MaxInt32:
		return 0, nil, fmt.Errorf("the label is %d", labels[0])
	}
	return int(labels[0]), pixels, nil
}
