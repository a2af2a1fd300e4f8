package seeds

import (
	"encoding/binary"
	"math"

	"coalmine/internal/kernels"
)

// Normals draws numbers from the standard normal distribution: the same numbers as NormFloat64 of
// math/rand/v2 from the same stream, in less time. It is not safe for concurrent use.
type Normals struct {
	state [kernels.ChaCha8State * blocksOfKey]uint32 // the initial state of all blocks of a key
	rows  [kernels.ChaCha8Rows * blocksOfKey]uint32  // the output of these blocks
	words [kernels.ChaCha8Rows * blocksOfKey / 2]uint64
	next  int // index of the next word
}

// wordsOfKey is the number of words that a stream draws from one key.
const wordsOfKey = blocksOfKey*kernels.ChaCha8Rows/2 - keyWords/2

// NewNormals begins the stream with the given key, of StreamKey or SecretStreamKey.
func NewNormals(key [32]byte) *Normals {
	n := &Normals{next: wordsOfKey}
	for word := range keyWords {
		n.setKey(word, binary.LittleEndian.Uint32(key[4*word:]))
	}
	for block := range blocksOfKey {
		n.state[keyWords*blocksOfKey+block] = uint32(block)
	}
	return n
}

// Draw sets every element of x to an independent number.
func (n *Normals) Draw(x []float64) {
	for len(x) > 0 {
		if n.next == wordsOfKey {
			n.make()
		}
		words := n.words[n.next:wordsOfKey]
		most := min(len(x), len(words))
		drawn := drawCentres(x[:most], words[:most])
		n.next, x = n.next+drawn, x[drawn:]
		if drawn < most {
			x[0] = n.drawSlowly()
			x = x[1:]
		}
	}
}

// drawCentres draws numbers from one word each until one lies outside the centre of its
// layer, and returns the number of draws.
func drawCentres(x []float64, words []uint64) int {
	x = x[:len(words)]
	for i, word := range words {
		l := &layers[word>>32%layerCount]
		offset := int32(word)
		if distance(offset) >= l.centre {
			return i
		}
		x[i] = float64(offset) * l.step
	}
	return len(words)
}

// drawSlowly draws a number whose first word may lie outside the centre of its layer.
func (n *Normals) drawSlowly() float64 {
	for {
		word := n.word()
		i, offset := word>>32%layerCount, int32(word)
		l := &layers[i]
		x := float64(offset) * l.step
		switch {
		case distance(offset) < l.centre:
			return x
		case i == 0:
			return math.Copysign(n.tail(), x)
		case l.height+float32(float32(n.uniform())*(layers[i-1].height-l.height)) < float32(math.Exp(float64(-.5*x)*x)):
			return x
		}
	}
}

// tail draws from the normal distribution beyond layerEdge.
func (n *Normals) tail() float64 {
	for {
		x := float64(-math.Log(n.uniform()) * (1.0 / layerEdge))
		y := -math.Log(n.uniform())
		if y+y >= float64(x*x) {
			return layerEdge + x
		}
	}
}

func (n *Normals) uniform() float64 { return float64(n.word()<<11>>11) / (1 << 53) }

func (n *Normals) word() uint64 {
	if n.next == wordsOfKey {
		n.make()
	}
	n.next++
	return n.words[n.next-1]
}

// make generates the words of the next key, and sets the following key to the last of
// them. A source interleaves blocksAtOnce blocks at a time: see Streams.
func (n *Normals) make() {
	kernels.ChaCha8(n.rows[:], n.state[:])
	words := n.words[:]
	for first := 0; first < blocksOfKey; first += blocksAtOnce {
		for row := first; row < len(n.rows); row += blocksOfKey {
			four := n.rows[row:][:blocksAtOnce]
			words[0] = uint64(four[0]) | uint64(four[1])<<32
			words[1] = uint64(four[2]) | uint64(four[3])<<32
			words = words[2:]
		}
	}
	for i, word := range n.words[wordsOfKey:] {
		n.setKey(2*i, uint32(word))
		n.setKey(2*i+1, uint32(word>>32))
	}
	n.next = 0
}

func (n *Normals) setKey(word int, value uint32) {
	blocks := n.state[word*blocksOfKey:][:blocksOfKey]
	for i := range blocks {
		blocks[i] = value
	}
}

// The ziggurat of Marsaglia and Tsang ("The Ziggurat Method for Generating Random Variables", 2000):
// layers of equal area under the density, with the numbers of math/rand/v2.
const (
	layerCount = 128
	layerEdge  = 3.442619855899 // edge of the lowest layer; the tail lies beyond it
	layerArea  = 9.91256303526217e-3
)

type layer struct {
	step   float64 // width of the layer / 2^31, rounded to float32
	centre uint32  // offsets below it, in steps, always lie under the density
	height float32 // density at the edge of the layer
}

var layers = ziggurat()

func ziggurat() (layers [layerCount]layer) {
	const steps = 1 << 31
	density := func(x float64) float64 { return math.Exp(-.5 * float64(x*x)) }
	edge := layerEdge
	lowest := layerArea / density(edge) // the width of the lowest layer, with the area of the tail
	layers[0] = layer{float64(float32(lowest / steps)), uint32(edge / lowest * steps), 1}
	for i := layerCount - 1; i > 0; i-- {
		above := math.Sqrt(-2 * math.Log(layerArea/edge+density(edge)))
		if i == 1 {
			above = 0
		}
		layers[i] = layer{float64(float32(edge / steps)), uint32(above / edge * steps), float32(density(edge))}
		edge = above
	}
	return layers
}

func distance(offset int32) uint32 { return uint32(max(offset, -offset)) }
