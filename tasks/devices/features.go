// This file turns examples into vectors for comparison without a model: to divide a background into
// modes, and to find nearest neighbours.

package devices

import (
	"context"
	"math"

	"coalmine/internal/lists"
	"coalmine/tasks/datasets/population"
	"coalmine/tasks/datasets/text"
)

// textFeatures is the number of features of a text.
const textFeatures = 512

// FeatureLayout describes the division of the words of an example, its tokens without Begin and
// End, into labels and content.
type FeatureLayout struct {
	// Images reports whether the words are an image: Labels numbers, then pixels. Words of a text
	// begin with labels, which are the tokens below FirstWord + Labels.
	Images bool
	Labels int
}

// Divide divides the words into labels and content.
func (l FeatureLayout) Divide(words []int32) (labels, content []int32) {
	at := 0
	for at < len(words) && l.isLabel(at, words[at]) {
		at++
	}
	return words[:at], words[at:]
}

func (l FeatureLayout) isLabel(at int, word int32) bool {
	if l.Images {
		return at < l.Labels
	}
	return word >= text.FirstWord && int(word) < text.FirstWord+l.Labels
}

// FeatureSet makes vectors of the contents of examples.
type FeatureSet interface {
	// Dimension returns the length of the vectors.
	Dimension() int
	// Fill sets x, of Dimension values, to the features of a content.
	Fill(x []float32, content []int32)
}

// NewFeatures returns the features for examples of a population. Features of an image are its
// pixels, 0 to 1; of a text the sum of its tokens' TF-IDF weights, each token hashed with a sign to
// one of 512 places (Weinberger et al. 2009), of length 1. A token in no example of the population
// has weight 0.
func NewFeatures(ctx context.Context, l FeatureLayout, p *population.Population) (FeatureSet, error) {
	if l.Images {
		return pixels(p.Index().Sequence - l.Labels), nil
	}
	return newTFIDF(ctx, l, p)
}

// FeatureWords returns the tokens of a sentence without Begin and End.
func FeatureWords(sentence []int32) []int32 { return sentence[1 : 1+text.WordsOf(sentence)] }

// pixels is the number of pixels of an image.
type pixels int

func (p pixels) Dimension() int { return int(p) }

func (p pixels) Fill(x []float32, content []int32) {
	for i, w := range content {
		x[i] = float32(w-text.FirstWord) / 255
	}
}

// tfidf holds the weight of each token: log(examples / examples with the token).
type tfidf []float32

func newTFIDF(ctx context.Context, l FeatureLayout, p *population.Population) (tfidf, error) {
	var having []int // number of examples by token
	last := map[int32]int{}
	examples := 0
	for user := range p.Users() {
		sentences, err := p.ReadUser(ctx, user)
		if err != nil {
			return nil, err
		}
		for _, s := range sentences {
			examples++
			_, content := l.Divide(FeatureWords(s))
			for _, w := range content {
				having = append(having, make([]int, max(0, int(w)+1-len(having)))...)
				if last[w] != examples {
					last[w] = examples
					having[w]++
				}
			}
		}
	}
	return lists.Map(having, func(n int) float32 {
		if n == 0 {
			return 0
		}
		return float32(math.Log(float64(examples) / float64(n)))
	}), nil
}

func (tfidf) Dimension() int { return textFeatures }

func (f tfidf) Fill(x []float32, content []int32) {
	clear(x)
	for _, w := range content {
		if int(w) >= len(f) {
			continue
		}
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
