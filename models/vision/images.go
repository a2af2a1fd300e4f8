package vision

import (
	"errors"
	"fmt"

	"coalmine/models"
)

// unknown is the number for a missing label of an image.
const unknown = 1

// firstWord is the first number that is not special; labels and pixel values count from it.
const firstWord = 4

// levels is the number of pixel values.
const levels = 256

// scaled are the network inputs for the values 0 to 255: -1 to 1, as in the authors' preprocessing.
var scaled = func() (table [levels]float32) {
	for i := range table {
		table[i] = toUnit(float32(i))
	}
	return table
}()

// toUnit turns a value in [0, 255] into a network input in [-1, 1].
func toUnit(value float32) float32 { return value/(0.5*(levels-1)) - 1 }

var errNoImages = errors.New("the batch is empty: want at least one image")

// checkExamples checks that every example is an image of a shape: the begin symbol, the label, then
// the values, label and values counted from firstWord; unknown stands for a missing label.
func checkExamples(shape models.ImageShape, examples [][]int32) error {
	if len(examples) == 0 {
		return errNoImages
	}
	for i, e := range examples {
		if err := checkExample(shape, e); err != nil {
			return fmt.Errorf("image %d of a batch: %w", i, err)
		}
	}
	return nil
}

func checkExample(shape models.ImageShape, example []int32) error {
	if want := 2 + shape.Values(); len(example) != want {
		return fmt.Errorf("it has %d numbers; expected a begin, a label and %d values, %d in all", len(example), shape.Values(), want)
	}
	if label := labelOf(example); example[1] != unknown && (label < 0 || label >= shape.Classes) {
		return fmt.Errorf("its label is %d: want 0 to %d", label, shape.Classes-1)
	}
	return checkValues(example[2:])
}

func checkValues(values []int32) error {
	for i, v := range values {
		if v < firstWord || v >= firstWord+levels {
			return fmt.Errorf("value %d is %d: want 0 to %d", i, int(v)-firstWord, levels-1)
		}
	}
	return nil
}

// readImages writes the network inputs of examples with the given number of labels to dst, one per
// row.
func readImages(dst []float32, examples [][]int32, labels int) {
	for _, e := range examples {
		values := e[1+labels:]
		for i, v := range values {
			dst[i] = scaled[v-firstWord]
		}
		dst = dst[len(values):]
	}
}

// labelOf returns the label of an example, negative if it has none.
func labelOf(example []int32) int { return int(example[1]) - firstWord }

func checkLabels(examples [][]int32) error {
	for i, e := range examples {
		if labelOf(e) < 0 {
			return fmt.Errorf("image %d of a batch has no label, and a classifier learns from labels: select the labelled ones", i)
		}
	}
	return nil
}

// toLevel turns a number in [-1, 1] back into the nearest pixel value, rounding halves up. NaN
// becomes 0.
func toLevel(x float32) byte {
	if x != x {
		return 0
	}
	return byte(min(levels-1, max(0, float32((x+1)*(0.5*(levels-1)))+0.5)))
}
