package main

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"coalmine/internal/testserver"
)

// faultyFile plants every fault of texts, in sentences of words and of bytes, and selects
// the words that a vocabulary lacks.
const faultyFile = `
name: faulty
data: {source: %s, vocabulary: {size: 60}, users: {words: 60}, test: {fraction: 10%%}, validation: {fraction: 5%%}, share: 9/10}
canaries: {words: 3, per_configuration: 1, insertions: 4, held_back: 2}
model: {kind: gru, embedding: 4, units: 5}
training: {rounds: 2, cohort: 3}
audit: {random_sampling: {references: 100}}
grid:
  include:
    - data.faults: {fault: join-words, examples: 10%%}
    - data.faults: [{fault: join-words, examples: 1}, {fault: keep-case, users: 50%%, examples: 1/3}]
      data.sequence: 5
    - data.faults: [{fault: truncate, users: 50%%, length: 17}, {fault: latin-1, examples: 30%%}, {fault: truncate, examples: 5%%, length: 6}]
    - data.faults: {fault: latin-1, users: 40%%}
      data.level: byte
      data.users.words: 300
    - data.level: byte
      data.select.words: {outside: 40}
      data.users.words: 0
    - data.faults: [{fault: join-words, examples: 50%%}, {fault: latin-1, users: 40%%}]
      data.level: byte
      data.sequence: 9
      data.select.words: {outside: 40, sequence: 7}
      data.users.words: 0
      data.partition: iid
`

// faultyText has sentences with capital letters, punctuation and characters beyond ASCII.
func faultyText(examples int) string {
	rng := rand.New(rand.NewPCG(5, 5))
	words := []string{"The", "naïve", "I", "don’t", "twenty-one", "3,000.5", "…", "Éa", "日本", "ok", "œuvre!", "a.b", "“so”", "co\u00adop"}
	var b strings.Builder
	for range examples {
		text := make([]string, 1+rng.IntN(12))
		for i := range text {
			if text[i] = fmt.Sprintf("w%d", int(rng.ExpFloat64()*30)); rng.IntN(3) == 0 {
				text[i] = words[rng.IntN(len(words))]
			}
		}
		fmt.Fprintf(&b, "{\"user\":\"u%d\",\"text\":%q}\n", rng.IntN(40), strings.Repeat(" ", rng.IntN(2))+strings.Join(text, " "))
	}
	return b.String()
}

func TestPlantedFaultsAndSelectedWordsAreFoundElsewhere(t *testing.T) {
	t.Parallel()
	home := smallRunOf(t, faultyFile, faultyText(1200))
	dirs := exportCells(t, home)
	program := testserver.Python(t, "hashlib")
	runPython(t, ".", append([]string{program, "-m", "check_faults", filepath.Join(home, "..", "text.jsonl")}, dirs...)...)
	runPython(t, ".", append([]string{program, "-m", "check_data"}, dirs...)...)
}

// faultyImages plants every fault of images, in users as they are, of either partition.
const faultyImages = `
name: faulty-images
data: {source: %s, level: image, image: {width: 18, height: 20, classes: 3}, test: {fraction: 10%%}, validation: {fraction: 5%%}, share: 9/10, held_out_users: {fraction: 20%%}}
model: {kind: cnn}
training: {rounds: 2, cohort: 3}
audit: {utility: true}
grid:
  include:
    - data.faults: {fault: invert, users: 50%%}
    - data.faults: [{fault: shift-labels, examples: 1/3}, {fault: blank, users: 40%%, examples: 1/2}, {fault: invert, examples: 10%%}]
      data.partition: iid
    - data.faults: [{fault: shift-labels, users: 1}, {fault: shift-labels, examples: 20%%}]
      data.users.words: 1000
      data.partition: iid
`

// imagesOf is a source of random images of 18 x 20 pixels and 3 classes.
func imagesOf(examples int) string {
	rng := rand.New(rand.NewPCG(6, 6))
	var b strings.Builder
	for range examples {
		pixels := make([]byte, 18*20)
		for i := range pixels {
			pixels[i] = byte(rng.Uint32())
		}
		fmt.Fprintf(&b, "{\"user\":\"u%d\",\"label\":%d,\"pixels\":%q}\n", rng.IntN(30), rng.IntN(3), base64.StdEncoding.EncodeToString(pixels))
	}
	return b.String()
}

func TestFaultsOfImagesAreFoundElsewhere(t *testing.T) {
	t.Parallel()
	home := smallRunOf(t, faultyImages, imagesOf(300))
	dirs := exportCells(t, home)
	program := testserver.Python(t, "hashlib")
	runPython(t, ".", append([]string{program, "-m", "check_faults", filepath.Join(home, "..", "text.jsonl")}, dirs...)...)
	runPython(t, ".", append([]string{program, "-m", "check_data"}, dirs...)...)
}
