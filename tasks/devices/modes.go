package devices

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"coalmine/internal/seeds"
	"coalmine/storage"
	"coalmine/tasks"
	"coalmine/tasks/datasets"
)

// Modes divides the examples of a background into topics by k-means over their features
// (Orekondy et al. 2018, section 7.1, mm-aug). Features of an image are its pixels, 0 to 1;
// of a text the sum of its tokens' TF-IDF weights, each token hashed with a sign to one of
// textFeatures places (Weinberger et al. 2009), of length 1.
//
// Means are found on a sample of the examples, and all examples are then put to the nearest
// mean. A mode may stay empty.
//
// Params: ModesParams. Input BackgroundInput: datasets/encode, of which it reads the training
// part. Blob:
//
//	modes   the mode of each record, as uint16, little-endian, in the order of the records
var Modes = tasks.Kind{Name: "devices/modes", Version: 1, Class: tasks.Compute, Run: runModes}

// ModesBlob is described at Modes.
const ModesBlob = "modes"

// ModesParams are the parameters of Modes.
type ModesParams struct {
	Seed uint64 `json:"seed"`
	// Modes is how many there are, 2 to MaxModes, and no more than records.
	Modes int `json:"modes"`
	// Level is that of the background.
	Level datasets.Level `json:"level,omitzero"`
}

// MaxModes bounds ModesParams.Modes.
const MaxModes = 1 << 16

// Bounds of the sample that means are found on.
const (
	samplesPerMode  = 50
	sampledFeatures = 16 << 20 // in all
)

// textFeatures is the number of features of a text.
const textFeatures = 512

func runModes(ctx context.Context, t *tasks.Task) error {
	var p ModesParams
	if err := t.Decode(&p); err != nil {
		return err
	}
	background, err := datasets.OpenPart(ctx, t, BackgroundInput, datasets.Train)
	if err != nil {
		return err
	}
	if n := background.Records(); p.Modes < 2 || p.Modes > MaxModes || p.Modes > n {
		return tasks.Permanent(fmt.Errorf("%d modes of a background of %d examples; expected 2 to %d, and no more than examples: lower data.devices.defence.modes", p.Modes, n, MaxModes))
	}
	features, err := newFeatures(ctx, p.Level, background)
	if err != nil {
		return err
	}
	sample, err := p.sample(ctx, features, background)
	if err != nil {
		return err
	}
	means, err := cluster(ctx, sample, p.Modes, seeds.Stream(p.Seed, seeds.BackgroundModes, 1))
	if err != nil {
		return err
	}
	return writeModes(ctx, t, features, background, means)
}

// sample are the features of some records, drawn without replacement.
func (p *ModesParams) sample(ctx context.Context, f featurer, background *datasets.Population) ([][]float32, error) {
	n := min(background.Records(), samplesPerMode*p.Modes, max(p.Modes, sampledFeatures/f.dimension()))
	sample := make([][]float32, n)
	for i, record := range seeds.Stream(p.Seed, seeds.BackgroundModes).Perm(background.Records())[:n] {
		sentence, err := background.ReadRecord(ctx, record)
		if err != nil {
			return nil, err
		}
		sample[i] = make([]float32, f.dimension())
		f.features(sample[i], wordsOf(sentence))
	}
	return sample, nil
}

func writeModes(ctx context.Context, t *tasks.Task, f featurer, background *datasets.Population, means [][]float32) error {
	blob, x := make([]byte, 0, 2*background.Records()), make([]float32, f.dimension())
	for user := range background.Users() {
		sentences, err := background.ReadUser(ctx, user)
		if err != nil {
			return err
		}
		for _, s := range sentences {
			f.features(x, wordsOf(s))
			mode, _ := nearest(x, means)
			blob = binary.LittleEndian.AppendUint16(blob, uint16(mode))
		}
		t.Progress(tasks.Progress{Done: int64(user + 1), Total: int64(background.Users())})
	}
	return t.Put(ctx, ModesBlob, blob)
}

// readModes are the records of each mode that has any.
func readModes(ctx context.Context, t *tasks.Task, records int) ([][]int, error) {
	data, err := t.Blob(ctx, ModesInput, ModesBlob)
	if err != nil {
		return nil, err
	}
	if len(data) != 2*records {
		return nil, fmt.Errorf("modes of %d bytes for a background of %d examples: %w", len(data), records, storage.ErrCorrupt)
	}
	all := make([][]int, MaxModes)
	for i := range records {
		mode := binary.LittleEndian.Uint16(data[2*i:])
		all[mode] = append(all[mode], i)
	}
	var modes [][]int
	for _, m := range all {
		if m != nil {
			modes = append(modes, m)
		}
	}
	return modes, nil
}

// featurer turns examples into vectors.
type featurer interface {
	dimension() int
	// features fills x, of dimension elements, with those of an example's tokens.
	features(x []float32, words []int32)
}

func newFeatures(ctx context.Context, level datasets.Level, background *datasets.Population) (featurer, error) {
	if level.Scheme().Images {
		return pixels(background.Index().Sequence - 1), nil
	}
	return newTFIDF(ctx, background)
}

// pixels is the number of those of an image, which stand after its label.
type pixels int

func (p pixels) dimension() int { return int(p) }

func (p pixels) features(x []float32, words []int32) {
	for i, w := range words[1:] {
		x[i] = float32(w-datasets.FirstWord) / 255
	}
}

// tfidf has the weight of each token: log(examples / those that have it).
type tfidf []float32

func newTFIDF(ctx context.Context, background *datasets.Population) (tfidf, error) {
	var having []int // by token
	last := map[int32]int{}
	examples := 0
	for user := range background.Users() {
		sentences, err := background.ReadUser(ctx, user)
		if err != nil {
			return nil, err
		}
		for _, s := range sentences {
			examples++
			for _, w := range wordsOf(s) {
				having = append(having, make([]int, max(0, int(w)+1-len(having)))...)
				if last[w] != examples {
					last[w] = examples
					having[w]++
				}
			}
		}
	}
	weights := make(tfidf, len(having))
	for w, n := range having {
		if n > 0 {
			weights[w] = float32(math.Log(float64(examples) / float64(n)))
		}
	}
	return weights, nil
}

func (tfidf) dimension() int { return textFeatures }

func (f tfidf) features(x []float32, words []int32) {
	clear(x)
	for _, w := range words {
		hash := uint64(w) * 0x9e3779b97f4a7c15 // 2^64 by the golden ratio (Knuth 3, section 6.4)
		weight := f[w]
		if hash>>63 == 1 {
			weight = -weight
		}
		x[hash>>32%textFeatures] += weight
	}
	normalize(x)
}

// normalize scales a vector that is not zero to length 1.
func normalize(x []float32) {
	var square float64
	for _, v := range x {
		square += float64(v) * float64(v) // exact: two float32 of 24 bits
	}
	if square == 0 {
		return
	}
	scale := 1 / math.Sqrt(square)
	for i := range x {
		x[i] = float32(float64(x[i]) * scale)
	}
}
