package sources

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"iter"
	"math"
	"slices"
	"testing"

	"coalmine/internal/must"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/source"
	"coalmine/tasks/datasets/text"
)

var dot = source.Reading{Level: text.ImageLevel, Image: images.Shape{Width: 1, Height: 1, Channels: 1, Classes: 4}}

// dots are images of one pixel: number i has the value i and, in turn, the labels 0, 1 and 2.
// Users have 1, 2, 3, … of them.
func dots(n int, end error) iter.Seq2[source.Record, error] {
	return func(yield func(source.Record, error) bool) {
		user, left := 0, 1
		for i := range n {
			if left == 0 {
				user, left = user+1, user+2
			}
			left--
			if !yield(source.Record{User: fmt.Sprint(user), Text: string([]byte{byte(i % 3), byte(i)})}, nil) {
				return
			}
		}
		if end != nil {
			yield(source.Record{}, end)
		}
	}
}

func TestImagesAreCountedByClassAndUser(t *testing.T) {
	t.Parallel()
	g := must.Get(ReadGallery(dots(10, nil), dot, 0, 1))(t)
	if !slices.Equal(g.PerClass, []int{4, 3, 3, 0}) || g.PerUser != (Spread{1, 2, 4}) { // 1, 2, 3 and 4
		t.Errorf("%+v", g)
	}
	broken := errors.New("broken")
	if _, err := ReadGallery(dots(10, broken), dot, 0, 1); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Each of 20 dots is one of 5 on a sheet with probability 1/4. Of 4,000 seeds a count is
// beyond 5 standard deviations for one of them with probability below 2e-5, once and for
// all since the seeds are fixed.
func TestImagesAreSampledUniformly(t *testing.T) {
	t.Parallel()
	counts := make([]int, 20)
	const seeds = 4000
	for seed := range uint64(seeds) {
		g := must.Get(ReadGallery(dots(len(counts), nil), dot, 5, seed))(t)
		images := g.sample.inOrder()
		if len(images) != 5 || !slices.IsSortedFunc(images, bytes.Compare) {
			t.Fatalf("seed %d: %v", seed, images)
		}
		for _, pixels := range images {
			counts[pixels[0]]++
		}
	}
	for i, n := range counts {
		if math.Abs(float64(n)-seeds/4) > 5*math.Sqrt(seeds*3./16) {
			t.Errorf("image %d is on %d of %d sheets", i, n, seeds)
		}
	}
}

func TestSheetOfFewImagesIsSquare(t *testing.T) {
	t.Parallel()
	g := must.Get(ReadGallery(dots(7, nil), dot, 36, 1))(t)
	file := must.Get(g.Sheet(3))(t)
	picture := must.Get(png.Decode(bytes.NewReader(file)))(t)
	if size := picture.Bounds().Size(); size.X != size.Y {
		t.Errorf("a sheet of %v; want 3 rows of 3", size)
	}
}
