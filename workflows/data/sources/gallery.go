// This file summarizes the images of a source: the number of images per class and per user, and a sample of them.

package sources

import (
	"cmp"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	"coalmine/internal/lists"
	"coalmine/internal/seeds"
	"coalmine/tasks/datasets/images"
	"coalmine/tasks/datasets/source"
)

// Gallery describes a source of images.
type Gallery struct {
	images.Shape
	// PerClass counts the images by label. PerTag counts them by tag if images have tags.
	PerClass []int        `json:"per_class"`
	PerTag   []images.Tag `json:"per_tag,omitempty"`
	// Unlabelled is the number of images without a class.
	Unlabelled int `json:"unlabelled,omitempty"`
	// PerUser is the distribution of the number of images per user.
	PerUser Spread `json:"per_user"`

	sample sample
}

// Spread describes a list of numbers by minimum, lower median and maximum.
type Spread struct {
	Min    int `json:"min"`
	Median int `json:"median"`
	Max    int `json:"max"`
}

// ReadGallery reads the records of a source at the image level. It keeps a sample of the given number of
// images, or all if there are fewer; each set is equally likely. The same seed draws the same sample. The
// error is that of the records.
func ReadGallery(records iter.Seq2[source.Record, error], reading source.Reading, images int, seed uint64) (*Gallery, error) {
	g := newGallery(reading)
	g.sample = sample{size: images, rng: seeds.Stream(seed, seeds.ContactSheet)}
	perUser := map[string]int{}
	for record, err := range records {
		if err != nil {
			return nil, err
		}
		perUser[record.User]++
		g.sample.add(g.count(&record))
	}
	g.PerUser = spread(perUser)
	return g, nil
}

func newGallery(reading source.Reading) *Gallery {
	g := &Gallery{Shape: reading.Complete().Image}
	if reading.Label != source.TagsLabel {
		g.PerClass = make([]int, g.Classes)
	}
	for _, tag := range reading.TagList() {
		g.PerTag = append(g.PerTag, images.Tag{Tag: tag})
	}
	return g
}

// count counts the label or the tags of an image, and returns its pixels.
func (g *Gallery) count(record *source.Record) []byte {
	if g.PerTag != nil {
		has, pixels := record.TaggedImage(len(g.PerTag))
		for i, n := range has {
			g.PerTag[i].Images += int(n)
		}
		return pixels
	}
	label, pixels := record.Image()
	if label == images.NoLabel {
		g.Unlabelled++
	} else {
		g.PerClass[label]++
	}
	return pixels
}

// Sheet returns a PNG file of the sample, in the order of the source, with the given number of columns.
func (g *Gallery) Sheet(columns int) ([]byte, error) {
	return g.Shape.Sheet(g.sample.inOrder(), columns)
}

func spread(perUser map[string]int) Spread {
	counts := slices.Sorted(maps.Values(perUser))
	if len(counts) == 0 {
		return Spread{}
	}
	return Spread{counts[0], counts[(len(counts)-1)/2], counts[len(counts)-1]}
}

// sample keeps size of the added images. Each set of that size is equally likely (Vitter 1985, algorithm R).
type sample struct {
	size int
	rng  *rand.Rand
	seen int
	kept []keptImage
}

// keptImage is an image and its place in the source.
type keptImage struct {
	place  int
	pixels []byte
}

func (s *sample) add(pixels []byte) {
	place := s.seen
	s.seen++
	if len(s.kept) < s.size {
		s.kept = append(s.kept, keptImage{place, pixels})
	} else if i := s.rng.IntN(s.seen); i < s.size {
		s.kept[i] = keptImage{place, pixels}
	}
}

func (s *sample) inOrder() [][]byte {
	slices.SortFunc(s.kept, func(a, b keptImage) int { return cmp.Compare(a.place, b.place) })
	return lists.Map(s.kept, func(k keptImage) []byte { return k.pixels })
}
