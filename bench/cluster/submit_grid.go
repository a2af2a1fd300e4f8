package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeGrid writes a text and an experiment file that names it, and returns the file's path. Its
// grid has a seed for each cell, and the model of examples/dp-ftrl-small.yaml.
func writeGrid(dir string, cells int) (path string, err error) {
	source := filepath.Join(dir, "text.jsonl")
	if err := os.WriteFile(source, gridText(), 0o600); err != nil {
		return "", err
	}
	seeds := make([]string, cells)
	for i := range seeds {
		seeds[i] = fmt.Sprint(i + 1)
	}
	path = filepath.Join(dir, "grid.yaml")
	return path, os.WriteFile(path, fmt.Appendf(nil, `
name: bench-submit
data: {source: %q, vocabulary: {size: 2000}, users: {words: 400}, test: {fraction: 5%%}}
canaries: {per_configuration: 2, user_probability: [1/2000, 1/1000, 1/400], example_probability: [4%%, 20%%, 100%%]}
model: {embedding: 64, units: 128}
training: {epochs: 3, cohort: 10, chunks: 2, client: {learning_rate: 1}}
audit: {random_sampling: {references: 200000}, beam_search: {}}
grid: {axes: {seed: [%s]}}
`, source, strings.Join(seeds, ", ")), 0o600)
}

// gridText returns JSON lines of 250 users with 1.5 million words in sentences, about the size
// of the examples' text.
func gridText() []byte {
	var b bytes.Buffer
	for i := range 75_000 {
		fmt.Fprintf(&b, `{"user":"u%d","text":"`, i/300)
		for j := range 20 {
			fmt.Fprintf(&b, "w%d ", i*(i+j*j*j)%(20+i%7*1000))
		}
		b.WriteString(`"}` + "\n")
	}
	return b.Bytes()
}
