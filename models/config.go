package models

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// CIFGLSTM is an LSTM whose forget gate is one minus its input gate, with a
// projection of its output down to the width of the embedding, and with the
// embedding matrix used again, transposed, to predict the next token.
//
// Sources: Greff et al., "LSTM: A Search Space Odyssey" (2017), variant CIFG;
// Sak et al., "Long Short-Term Memory Recurrent Neural Network Architectures"
// (2014), section 2.2, projection; Press and Wolf, "Using the Output Embedding
// to Improve Language Models" (2017), tying.
const CIFGLSTM = "cifg-lstm"

// Kinds lists the model kinds.
func Kinds() []string { return []string{CIFGLSTM} }

// Config describes a language model. All sizes are required.
type Config struct {
	// Kind is one of Kinds.
	Kind string `json:"kind"`
	// Vocabulary is the number of token ids, the special ones included.
	// Ids are 0..Vocabulary-1. At least 2.
	Vocabulary int `json:"vocabulary"`
	// Embedding is the width of the token vectors and of the projected output.
	Embedding int `json:"embedding"`
	// Units is the number of memory cells.
	Units int `json:"units"`
}

// Limits of a Config: far above any model of the literature reproduced here,
// and low enough that no size overflows.
const (
	maxVocabulary = 1 << 24
	maxWidth      = 1 << 16
	maxParameters = math.MaxInt32
)

// Validate reports everything that is wrong with the configuration, in one error.
func (c Config) Validate() error {
	var problems []error
	if !slices.Contains(Kinds(), c.Kind) {
		problems = append(problems, fmt.Errorf("kind %q: want one of %s", c.Kind, strings.Join(Kinds(), ", ")))
	}
	check := func(name string, value, low, high int) {
		if value < low || value > high {
			problems = append(problems, fmt.Errorf("%s %d: want %d to %d", name, value, low, high))
		}
	}
	check("vocabulary", c.Vocabulary, 2, maxVocabulary)
	check("embedding", c.Embedding, 1, maxWidth)
	check("units", c.Units, 1, maxWidth)
	if len(problems) == 0 {
		if n := newLayout(c).size; n > maxParameters {
			problems = append(problems, fmt.Errorf("%d parameters: want at most %d", n, maxParameters))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("model configuration: %w", err)
	}
	return nil
}
